import { ConflictError } from "../../domain/names/errors.ts";
import type { CopiedNamespace, CopyOptions, CopyReport, Difference } from "../../entry/copy.ts";
import type { RateLimiter } from "../../entry/rate-limiter.ts";
import { type CommandContext, command, type GlobalOptions } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { openLimiter } from "../on-store.ts";
import { confirmed, printChange, progressLine } from "../print.ts";
import { savedStoreName } from "../store-option.ts";
import { jsonOf, printable } from "../table.ts";

/** Copies namespaces, and compares them. Run again with `--resume` after an interruption, it goes on. */
export const copy = command({
  arguments: [
    ["<from>", "the store to read, as for --store"],
    ["<to>", "the store to write, as for --store; made by `init`"],
  ],
  options: [
    ["-N, --namespace <name>", "only this namespace; may be repeated; default: all active ones", "list"],
    ["--freeze", "freeze the namespaces of the source first; they stay frozen"],
    ["--resume", "go on with a copy that was interrupted or that differs"],
    ["--restart", "remove what an interrupted copy has written, and begin anew"],
  ],
  examples: [
    "zae-limiter init --store sqlite:copy.db",
    "zae-limiter copy sqlite:.zae-limiter/limiter.db sqlite:copy.db --dry-run",
    "zae-limiter copy sqlite:.zae-limiter/limiter.db sqlite:copy.db --yes",
    "zae-limiter copy dynamodb:limits postgres:///limits --freeze",
  ],
  notes: [
    "The copy is a hidden namespace (`namespace orphans`) until it is compared. What the source grants after a bucket was read is not" +
      " in it, and callers who go on taking from the source are limited by the source alone: --freeze refuses them from then on. It waits" +
      " until every process knows (2 s, on DynamoDB the configTtlMs of a minute) before it reads; `namespace unfreeze` ends it.\n\nExit codes: 1 the target is not empty" +
      " (target_not_empty), an earlier copy is unfinished (copy_unfinished), something differs (copy_differs), or declined; 2 both are one" +
      " store; 3 a store failed; 4 no such namespace or store.",
  ],
  run: async (surroundings, { namespace, freeze = false, resume = false, restart = false }, [from = "", to = ""]) => {
    const { store, stack } = surroundings.options;
    if (store !== undefined || stack !== undefined) {
      throw new UsageError("copy names its stores itself; leave --store and --stack out.");
    }
    if (resume && restart) throw new UsageError("--resume goes on and --restart begins anew; give one.");
    const sides = { from: onStoreOf(surroundings, from), to: onStoreOf(surroundings, to) };
    const names = { from: savedStoreName(sides.from), to: savedStoreName(sides.to) };
    if (names.from === names.to) throw new UsageError(`${names.from} cannot be copied to itself; name another store.`);
    const namespaces = namesOf(namespace);
    const what = namespaces === undefined ? "all namespaces" : `the namespaces ${namespaces.join(", ")}`;
    await confirmed(surroundings, `${freeze ? "Freeze and copy" : "Copy"} ${what} from ${names.from} to ${names.to}?`);
    const report = await copied(surroundings, sides, {
      ...(namespaces === undefined ? {} : { namespaces }),
      ...{ freeze, resume: restart ? "restart" : resume },
    });
    const differing = report.namespaces.filter(({ differences }) => differences.length > 0);
    const exit = await printChange(surroundings, report, () => textOf(report));
    if (differing.length === 0) return exit;
    const [first] = differing as [CopiedNamespace];
    throw new ConflictError(
      "copy_differs",
      `The copy of ${differing.map(({ name }) => name).join(", ")} differs from its source (${sentenceOf(first.differences[0] as Difference)}), and stays hidden; ` +
        "look at what differs, then go on with --resume or begin anew with --restart.",
    );
  },
});

interface Sides {
  readonly from: CommandContext;
  readonly to: CommandContext;
}

async function copied(
  context: CommandContext,
  sides: Sides,
  more: Pick<CopyOptions, "namespaces" | "freeze" | "resume">,
): Promise<CopyReport> {
  const { copyStore } = await import("../../entry/copy.ts");
  const opened: RateLimiter[] = [];
  const open = async (side: CommandContext) => {
    // A freeze waits for as long as other processes remember configuration.
    const limiter = await openLimiter(side, "default", "default");
    opened.push(limiter);
    return limiter;
  };
  const progress = progressLine(context, 1_000);
  try {
    return await copyStore({
      from: await open(sides.from),
      to: await open(sides.to),
      ...more,
      dryRun: context.options.dryRun === true,
      signal: context.interrupted,
      onProgress: ({ namespace, kind, rows }) =>
        progress.tell(
          `${namespace}: ${kind === "freeze" ? "frozen, waiting until every process knows" : `${kind}, ${rows}`}`,
        ),
    });
  } finally {
    progress.end();
    for (const limiter of opened) await limiter.close();
  }
}

/** The surroundings of one side. Options of AWS are for the tables among both. */
function onStoreOf(context: CommandContext, store: string): CommandContext {
  const { region, profile, endpointUrl, sharedTable, url, namespace, ...rest } = context.options;
  if (url !== undefined) throw new UsageError("copy works on two stores and not over a service; leave --url out.");
  const isTable = store === "dynamodb" || store.startsWith("dynamodb:");
  const ofTables = Object.entries({ region, profile, endpointUrl, sharedTable }).filter(
    ([, value]) => value !== undefined,
  );
  const options: GlobalOptions = { ...rest, ...(isTable ? Object.fromEntries(ofTables) : {}), store };
  return { ...context, options };
}

/** The option may stand before the command, where it is given once. */
function namesOf(given: readonly string[] | string | undefined): readonly string[] | undefined {
  return typeof given === "string" ? [given] : given;
}

function textOf({ from, to, namespaces, tookMs }: CopyReport): string {
  const lines = namespaces.flatMap(({ name, active, frozen, copied: all, leases, moved, differences }) => {
    const counts = Object.entries(all).flatMap(([what, count]) =>
      count === 0 ? [] : [`${WORDS[what] ?? what} ${count}`],
    );
    return [
      `${name}: ${counts.length === 0 ? "nothing" : counts.join(", ")}${active ? "" : "; not active"}`,
      ...(leases === 0 ? [] : [`  ${leases} open leases stay charged, and are not in the copy`]),
      ...(moved === 0 ? [] : [`  ${moved} rows or buckets were changed in the source since they were read`]),
      ...(frozen
        ? [`  frozen in ${from}, and stays so until \`namespace unfreeze ${name}\`; not frozen in the copy`]
        : []),
      ...differences.slice(0, SHOWN_MAX).map((difference) => `  differs: ${sentenceOf(difference)}`),
      ...(differences.length > SHOWN_MAX ? [`  and ${differences.length - SHOWN_MAX} more differences (--json)`] : []),
    ];
  });
  const taking = `What ${from} grants after a bucket was read is not in the copy: at most that much is granted twice. Whoever goes on taking from ${from} is limited by it alone.`;
  const isTaken = namespaces.some(({ frozen }) => !frozen);
  return [...lines, `${from} -> ${to}, ${tookMs} ms.`, ...(isTaken ? [taking] : [])]
    .map((line) => `${printable(line)}\n`)
    .join("");
}

const SHOWN_MAX = 20;

const WORDS: Readonly<Record<string, string>> = {
  usageHours: "hours of usage",
  refusalHours: "hours of refusals",
  auditEvents: "audit events",
};

function sentenceOf({ what, entityId, resource, limit, from, to }: Difference): string {
  const about = [entityId, resource, limit].filter((part) => part !== undefined && part !== "").join(" ");
  return `${what}${about === "" ? "" : ` ${about}`}: ${short(from)} in the source, ${short(to)} in the copy`;
}

function short(value: unknown): string {
  const text = typeof value === "string" ? value : value === null ? "nothing" : jsonOf(value);
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}
