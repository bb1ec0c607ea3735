import { pieceKey } from "../../domain/config/piece.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import type { Change } from "../../manifest/change.ts";
import type { Manifest } from "../../manifest/manifest.ts";
import type { Plan } from "../../manifest/plan.ts";
import { confirmed } from "../ask.ts";
import { paintOf } from "../color.ts";
import { type CommandContext, type CommandFile, examples } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { readGiven } from "../files.ts";
import {
  EXIT_CODES,
  fileOption,
  type ManifestOptions,
  namespaceFor,
  onNamespace,
  printPlan,
  withManifest,
} from "../manifest-options.ts";
import { planText } from "../plan-text.ts";
import { principalOf } from "../principal.ts";
import { isJson } from "../print.ts";
import { progressFromStart, SILENT } from "../progress.ts";
import { savedStoreName } from "../store-option.ts";

/** Makes a namespace what a manifest says. */
export const limitsApply: CommandFile<ManifestOptions> = {
  configure: (command) => {
    fileOption(command)
      .argument("[plan]", "a plan saved by `limits plan -o FILE`: applied as shown, without a confirmation")
      .option("--prune", "delete pieces that are owned but no longer declared")
      .option("--keep", "keep those pieces, without an owner")
      .option("--take-over", "take over pieces that another owner declares")
      .addHelpText("after", examples("zae-limiter limits apply -f limits.yaml --yes"))
      .addHelpText(
        "after",
        "\nApplies exactly the plan, or nothing: a plan is outdated if others changed its pieces in the meantime.\n",
      )
      .addHelpText(
        "after",
        `${EXIT_CODES.trimEnd()} 1 conflicts, an outdated plan, deletions without --prune or --keep, declined.\n`,
      );
  },
  run: (context, options, [plan]) => {
    if (options.prune === true && options.keep === true) {
      throw new UsageError("--prune and --keep exclude each other; give one of them.");
    }
    if (plan !== undefined) return applySaved(context, options, plan);
    return withManifest(context, options, (manifest) =>
      onNamespace(context, options, namespaceFor(manifest, options, context), (limiter) =>
        applied(context, options, { limiter, manifest }),
      ),
    );
  },
};

/** Whoever saved the plan has seen it: it is applied as it was shown, or not at all. */
async function applySaved(context: CommandContext, options: ManifestOptions, file: string): Promise<number> {
  const { file: manifest, owner, prune, keep, takeOver } = options;
  const given = Object.entries({ file: manifest, owner, prune, keep, "take-over": takeOver });
  const [name] = given.find(([, value]) => value !== undefined) ?? [];
  if (name !== undefined)
    throw new UsageError(`--${name} was decided when the plan was made; leave it out, or plan again.`);
  const text = await readGiven(file, "The plan");
  const [{ planAsSaved, readSavedPlan }, { parseManifest }] = await Promise.all([
    import("../../manifest/saved-plan.ts"),
    import("../../entry/manifest.ts"),
  ]);
  const saved = readSavedPlan(text);
  return onNamespace(context, options, namespaceFor(saved, options, context), async (limiter) => {
    const store = savedStoreName(context, options);
    const plan = await planAsSaved(limiter, saved, { store, parse: (each) => parseManifest(each) });
    return options.dryRun === true ? dryRun(context, options, plan) : done(context, options, { limiter, plan });
  });
}

interface Parts {
  readonly limiter: Limiter;
  readonly manifest: Manifest;
}

async function applied(context: CommandContext, options: ManifestOptions, parts: Parts): Promise<number> {
  const plan = await planned(options, parts);
  if (options.dryRun === true) return dryRun(context, options, plan);
  return done(context, options, { ...parts, plan: await approved(context, options, { ...parts, plan }) });
}

async function dryRun(context: CommandContext, options: ManifestOptions, plan: Plan): Promise<number> {
  await printPlan(context, options, { ...plan, dryRun: true }, "planned");
  return plan.conflicts.length > 0 ? EXIT.refused : EXIT.done;
}

async function done(
  context: CommandContext,
  options: ManifestOptions,
  { limiter, plan }: Pick<Parts, "limiter"> & { readonly plan: Plan },
): Promise<number> {
  const made = new Set<string>();
  const all = plan.changes.length;
  const progress = all < PROGRESS_FROM || isJson(options) ? SILENT : progressFromStart(context, options);
  const onChange = (change: Change) => {
    made.add(pieceKey(change));
    progress.tell(`${made.size} of ${all}`);
  };
  try {
    const { applyManifest } = await import("../../manifest/apply.ts");
    const settings = { ...principalOf(context, options), signal: context.interrupted, onChange };
    const result = await applyManifest(limiter, plan, settings).finally(progress.end);
    await printPlan(context, options, result, "applied");
    return EXIT.done;
  } catch (error) {
    if (made.size === 0 && !context.interrupted.aborted) throw error;
    const changes = plan.changes.map((change) => ({ ...change, done: made.has(pieceKey(change)) }));
    await printPlan(context, options, { ...plan, changes }, "planned");
    // The exit code is that of the signal then.
    if (context.interrupted.aborted) return EXIT.refused;
    throw error;
  }
}

async function planned(options: ManifestOptions, { limiter, manifest }: Parts): Promise<Plan> {
  const { planManifest } = await import("../../manifest/plan.ts");
  const { keep = false, prune = false, takeOver = false } = options;
  return planManifest(limiter, manifest, { keep, prune, takeOver });
}

/** The plan that may be applied: whoever can be asked is asked, deletions by themselves. */
async function approved(
  context: CommandContext,
  options: ManifestOptions,
  { plan, ...parts }: Parts & { readonly plan: Plan },
): Promise<Plan> {
  if (plan.conflicts.length > 0 || plan.changes.length === 0) return plan;
  const { delete: deletions } = plan.summary;
  const isOpen = deletions > 0 && options.prune !== true && options.keep !== true;
  // Refused by the apply itself, before anything is changed.
  if (isOpen && !canAsk(context, options)) return plan;
  if (canAsk(context, options)) context.output.note(planText(plan, paintOf(context, options), "planned"));
  const what = isOpen ? `Apply this, and delete ${deletions}?` : "Apply this?";
  await confirmed(context, options, what);
  if (!isOpen) return plan;
  const { requireShown } = await import("../../manifest/stale.ts");
  const pruning = await planned({ ...options, prune: true }, parts);
  requireShown(plan.changes, pruning.changes);
  return pruning;
}

function canAsk({ terminal }: CommandContext, { yes }: ManifestOptions): boolean {
  return yes !== true && terminal.stdin && terminal.stderr;
}

/** Fewer changes than this are made before anyone has read the line. */
const PROGRESS_FROM = 20;
