import { given } from "../../domain/names/given.ts";
import type { EdgeFile } from "../../edge/edge-file.ts";
import type { CallPlan, Descriptor } from "../../edge/plan-call.ts";
import { type CommandContext, type CommandGroup, command } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { tellInvalid } from "../manifest-options.ts";
import { readGiven } from "../output.ts";
import { isJson, printValue } from "../print.ts";
import { printable } from "../table.ts";

const EXIT_CODES = "Exit codes: 2 the file is invalid.";

/** Checks an edge file; opens no store. */
const edgeCheck = command({
  arguments: [["<file>", "the edge file; - is stdin"]],
  examples: ["edge check edge.yaml"],
  notes: [EXIT_CODES],
  run: (context, _, [file = ""]) =>
    withEdge(context, file, async ({ domains, warnings }) => {
      const rules = [...domains.values()].reduce((sum, domain) => sum + domain.rules.length, 0);
      const names = [...domains.keys()];
      const answer = { valid: true, domains: names, rules, warnings };
      await printValue(context, answer, () => `${file} is valid: ${rules} rules of ${names.join(", ")}.\n`);
      if (!isJson(context) && context.options.quiet !== true)
        for (const each of warnings) context.output.note(`Note: ${each}\n`);
      return EXIT.done;
    }),
});

/** Shows what a call becomes; opens no store. */
const edgeMap = command({
  arguments: [["<file>", "the edge file; - is stdin"]],
  options: [
    ["--domain <name>", "the domain of the call"],
    ["-d, --descriptor <entries>", "the entries of a descriptor, such as tenant=acme,model=gpt-5; repeated", "list"],
    ["--hits <n>", "the hits of the call; default 1"],
  ],
  examples: ["edge map edge.yaml --domain envoy -d tenant=acme,model=gpt-5 --hits 3"],
  notes: [`${EXIT_CODES} 4 the file has no such domain.`],
  run: (context, options, [file = ""]) => {
    const { domain: name, descriptor: texts = [] } = options;
    if (name === undefined) throw new UsageError("No domain is named; give --domain, such as --domain envoy.");
    if (texts.length === 0) throw new UsageError("No descriptor is given; give -d, such as -d tenant=acme.");
    const descriptors = texts.map(descriptorOf);
    const hits = hitsOf(options.hits ?? "1");
    return withEdge(context, file, async ({ domains }) => {
      const [{ planCall }, { NotFoundError }, { nearestName }] = await Promise.all([
        import("../../edge/plan-call.ts"),
        import("../../domain/names/errors.ts"),
        import("../../domain/names/known-names.ts"),
      ]);
      const domain = domains.get(name);
      if (domain === undefined) {
        const near = nearestName(name, [...domains.keys()]);
        const hint = near === undefined ? `it has ${[...domains.keys()].join(", ")}` : `did you mean "${near}"?`;
        throw new NotFoundError("domain_unknown", `${file} has no domain "${name}"; ${hint}`);
      }
      const plan = planCall(domain, descriptors, hits);
      const answer = { namespace: domain.namespace, parts: partsIn(plan), unmatched: plan.unmatched };
      return printValue(context, answer, () => mapText(answer));
    });
  },
});

interface MappedPart {
  readonly rule: number;
  readonly entityId: string;
  readonly resource: string;
  readonly consume: Readonly<Record<string, number | undefined>>;
  readonly mode: "take" | "charge" | "settle";
  /** In ms. */
  readonly hold?: number;
}

/** The parts of a call, in the order of its descriptors. */
function partsIn({ takes, charges, peeks, tooMuch, settles }: CallPlan): readonly MappedPart[] {
  const settled = settles.map((part) => ({ ...part, mode: "settle" as const, holdMs: undefined }));
  return [...takes, ...charges, ...peeks, ...tooMuch, ...settled]
    .toSorted((a, b) => Math.min(...a.descriptors) - Math.min(...b.descriptors))
    .map(({ rule, entityId, resource, consume, mode, holdMs: hold }) =>
      given({ rule, entityId, resource, consume, mode, hold }),
    );
}

function mapText(answer: {
  readonly namespace: string;
  readonly parts: readonly MappedPart[];
  readonly unmatched: readonly number[];
}): string {
  const lines = answer.parts.map(({ rule, entityId, resource, consume, mode, hold }) => {
    const held = hold === undefined ? "" : `, held for ${hold} ms`;
    const amounts = Object.entries(consume)
      .map(([measure, amount]) => `${amount} ${measure}`)
      .join(", ");
    return `rule ${rule}: ${mode} ${amounts} of ${printable(entityId)} on ${printable(resource)}${held}\n`;
  });
  const unmatched = answer.unmatched.map((i) => `descriptor ${i}: no rule matches\n`);
  return [`In the namespace ${answer.namespace}:\n`, ...lines, ...unmatched].join("");
}

function descriptorOf(text: string): Descriptor {
  // A comma begins an entry only before a key with its sign.
  const entries = text.split(/,(?=[^,=]+=)/).map((entry) => {
    const [, key, value] = /^([^=]+)=(.*)$/s.exec(entry) ?? [];
    if (key !== undefined && value !== undefined) return { key, value };
    throw new UsageError(`The descriptor is "${text}"; give entries such as tenant=acme,model=gpt-5.`);
  });
  return { entries, hits: undefined, isNegative: false };
}

function hitsOf(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new UsageError(`--hits is "${text}"; give a whole number.`);
}

/** Reads and checks the file, then does the work. What is wrong with the file is told with its places. */
async function withEdge(
  context: CommandContext,
  file: string,
  work: (edge: EdgeFile) => Promise<number>,
): Promise<number> {
  const text = await readGiven(file, "The edge file");
  const [{ parseEdge }, { EdgeInvalid }] = await Promise.all([
    import("../../edge/parse.ts"),
    import("../../edge/edge-file.ts"),
  ]);
  let edge: EdgeFile;
  try {
    edge = parseEdge(text, file);
  } catch (error) {
    if (!(error instanceof EdgeInvalid)) throw error;
    return tellInvalid(context, file, error);
  }
  return work(edge);
}

export const EDGE_COMMANDS: CommandGroup = { "edge check": edgeCheck, "edge map": edgeMap };
