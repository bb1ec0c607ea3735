import { LimiterError } from "../../domain/errors.ts";
import { pieceKey } from "../../domain/piece.ts";
import type { Limiter } from "../../engine/limiter.ts";
import type { Change } from "../../manifest/change.ts";
import type { Manifest } from "../../manifest/manifest.ts";
import type { Plan } from "../../manifest/plan.ts";
import { confirmed } from "../ask.ts";
import { paintOf } from "../color.ts";
import { type CommandContext, type CommandFile, examples } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
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

/** Makes a namespace what a manifest says. */
export const limitsApply: CommandFile<ManifestOptions> = {
  configure: (command) => {
    fileOption(command)
      .option("--prune", "delete what is owned and no longer declared")
      .option("--keep", "let it stay instead, as nobody's")
      .option("--take-over", "take what another owns")
      .addHelpText("after", examples("zae-limiter limits apply -f limits.yaml --yes"))
      .addHelpText("after", `${EXIT_CODES.trimEnd()} 1 conflicts, deletions without --prune or --keep, declined.\n`);
  },
  run: (context, options) => {
    if (options.prune === true && options.keep === true) {
      throw new UsageError("--prune and --keep exclude each other; give one of them.");
    }
    return withManifest(context, options, (manifest) =>
      onNamespace(context, options, namespaceFor(manifest, options, context), (limiter) =>
        applied(context, options, { limiter, manifest }),
      ),
    );
  },
};

interface Parts {
  readonly limiter: Limiter;
  readonly manifest: Manifest;
}

async function applied(context: CommandContext, options: ManifestOptions, parts: Parts): Promise<number> {
  const plan = await planned(options, parts);
  if (options.dryRun === true) {
    await printPlan(context, options, { ...plan, dryRun: true }, "planned");
    return plan.conflicts.length > 0 ? EXIT.refused : EXIT.done;
  }
  const asked = await approved(context, options, { ...parts, plan });
  const done = new Set<string>();
  try {
    const result = await applyApproved(context, options, { ...parts, plan: asked, done });
    await printPlan(context, options, result, "applied");
    return EXIT.done;
  } catch (error) {
    if (done.size === 0 && !context.interrupted.aborted) throw error;
    const changes = asked.changes.map((change) => ({ ...change, done: done.has(pieceKey(change)) }));
    await printPlan(context, options, { ...asked, changes }, "planned");
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
  return isOpen ? planned({ ...options, prune: true }, parts) : plan;
}

function canAsk({ terminal }: CommandContext, { yes }: ManifestOptions): boolean {
  return yes !== true && terminal.stdin && terminal.stderr;
}

const ATTEMPTS_MAX = 3;

/** What was allowed by options may be planned again when others changed something meanwhile; what was shown and asked may not. */
async function applyApproved(
  context: CommandContext,
  options: ManifestOptions,
  { plan, done, ...parts }: Parts & { readonly plan: Plan; readonly done: Set<string> },
): Promise<Plan> {
  const { applyManifest } = await import("../../manifest/apply.ts");
  const onChange = (change: Change) => {
    done.add(pieceKey(change));
    progress(context, options, { done: done.size, all: plan.changes.length });
  };
  const settings = { ...principalOf(context, options), signal: context.interrupted, onChange };
  for (let attempt = 1, next = plan; ; attempt++) {
    try {
      return await applyManifest(parts.limiter, next, settings);
    } catch (error) {
      const isOutdated = error instanceof LimiterError && error.code === "plan_outdated" && options.yes === true;
      if (!isOutdated || attempt === ATTEMPTS_MAX) throw error;
      next = await planned(options, parts);
    }
  }
}

function progress(
  { output, terminal }: CommandContext,
  options: ManifestOptions,
  { done, all }: { readonly done: number; readonly all: number },
): void {
  if (options.quiet === true || isJson(options) || !terminal.stderr || all < PROGRESS_FROM) return;
  output.note(`\r${done} of ${all}${done === all ? "\n" : ""}`);
}

const PROGRESS_FROM = 20;
