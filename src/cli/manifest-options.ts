import type { Command } from "commander";
import { ValidationError } from "../domain/names/errors.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { Manifest } from "../manifest/manifest.ts";
import type { Plan } from "../manifest/plan.ts";
import { paintOf } from "./color.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { EXIT, UsageError } from "./exit-code.ts";
import { readGiven } from "./files.ts";
import { openLimiter } from "./on-store.ts";
import { planText } from "./plan-text.ts";
import { isJson } from "./print.ts";
import { jsonOf } from "./printable.ts";

/** What the commands of declared limits are given. */
export interface ManifestOptions extends GlobalOptions {
  readonly file?: string;
  readonly owner?: string;
  readonly exitCode?: boolean;
  readonly keep?: boolean;
  readonly prune?: boolean;
  readonly takeOver?: boolean;
  readonly owned?: boolean;
  readonly output?: string;
}

export function fileOption(command: Command): Command {
  return command
    .option("-f, --file <file>", "the manifest; - is stdin")
    .option("--owner <name>", "the owner, if the file names none; default: default");
}

/** A plan as JSON, or for people. */
export async function printPlan(
  context: CommandContext,
  options: ManifestOptions,
  plan: Plan & { readonly dryRun?: boolean },
  end: "planned" | "applied",
): Promise<void> {
  const text = () => planText(plan, paintOf(context, options), end);
  await context.output.write(isJson(options) ? `${jsonOf(plan)}\n` : text());
}

export const EXIT_CODES =
  "\nExit codes: 2 the manifest is invalid, 3 the store failed, 4 no such namespace or parent.\n";

/** Reads and checks the file, then does the work. What is wrong with the file is told with its places. */
export async function withManifest(
  context: CommandContext,
  options: ManifestOptions,
  work: (manifest: Manifest) => Promise<number>,
): Promise<number> {
  const { file } = options;
  if (file === undefined) throw new UsageError("No manifest is given; give -f FILE, or -f - for stdin.");
  const text = await readGiven(file, "The manifest");
  const [{ parseManifest }, { ManifestInvalid }] = await Promise.all([
    import("../entry/manifest.ts"),
    import("../manifest/manifest.ts"),
  ]);
  let manifest: Manifest;
  try {
    manifest = parseManifest(text, { file });
  } catch (error) {
    if (!(error instanceof ManifestInvalid)) throw error;
    const { code, message, problems } = error;
    const told = { error: { code, message, exitCode: EXIT.usage, file, problems } };
    context.output.note(isJson(options) ? `${jsonOf(told)}\n` : `${firstLines(message)}\n`);
    return EXIT.usage;
  }
  return work(withOwner(manifest, options));
}

/** One mistake at the top of a file can make hundreds below it. */
const PROBLEMS_SHOWN = 20;

function firstLines(message: string): string {
  const lines = message.split("\n");
  if (lines.length <= PROBLEMS_SHOWN) return message;
  return [...lines.slice(0, PROBLEMS_SHOWN), `And ${lines.length - PROBLEMS_SHOWN} more; --json prints all.`].join(
    "\n",
  );
}

/** The namespace that the file and the options name: one, or the same. */
export function namespaceFor(
  manifest: Pick<Manifest, "namespace">,
  { namespace }: ManifestOptions,
  { env }: CommandContext,
): string {
  const asked = namespace ?? (env.ZAEL_NAMESPACE || undefined);
  if (manifest.namespace !== undefined && asked !== undefined && asked !== manifest.namespace) {
    throw new ValidationError(
      "namespace_mismatch",
      `The manifest is for the namespace ${manifest.namespace}, and -N is ${asked}; leave out -N, or name the same.`,
    );
  }
  return manifest.namespace ?? asked ?? "default";
}

/** Does the work on the namespace that the manifest is of. */
export async function onNamespace<Answer>(
  context: CommandContext,
  options: ManifestOptions,
  namespace: string,
  work: (limiter: Limiter) => Promise<Answer>,
): Promise<Answer> {
  const limiter = await openLimiter(context, options, namespace);
  try {
    return await work(limiter);
  } finally {
    await limiter.close();
  }
}

function withOwner(manifest: Manifest, { owner }: ManifestOptions): Manifest {
  if (owner === undefined) return manifest;
  if (manifest.owner !== undefined && manifest.owner !== owner) {
    throw new ValidationError(
      "owner_mismatch",
      `The manifest belongs to the owner ${manifest.owner}, and --owner is ${owner}; leave out --owner, or name the same.`,
    );
  }
  return { ...manifest, owner };
}
