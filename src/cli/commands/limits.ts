import { pieceKey } from "../../domain/config/piece.ts";
import { given } from "../../domain/names/given.ts";
import type { Change, Manifest } from "../../manifest/manifest.ts";
import type { Manifests } from "../../manifest/manifests.ts";
import type { Plan } from "../../manifest/plan.ts";
import { type CommandContext, type CommandGroup, command } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import {
  driftText,
  EXIT_CODES,
  FILE_OPTIONS,
  namespaceFor,
  planText,
  printPlan,
  withManifest,
} from "../manifest-options.ts";
import { onNamespace } from "../on-store.ts";
import { readGiven, writeWhole } from "../output.ts";
import { confirmed, isJson, printValue, progressLine, SILENT, unlessInterrupted } from "../print.ts";
import { principalOf, requiredTable, savedStoreName } from "../store-option.ts";
import { jsonOf, paintOf } from "../table.ts";

/** Checks a manifest; opens no store. */
const limitsValidate = command({
  options: FILE_OPTIONS,
  examples: ["limits validate -f limits.yaml"],
  notes: [EXIT_CODES],
  run: (context, options) =>
    withManifest(context, options, async (manifest) => {
      const { namespace, owner = "default", pieces, warnings } = manifest;
      const answer = given({ valid: true, namespace, owner, pieces: pieces.length, warnings });
      const text = () => `${options.file} is valid: ${pieces.length} pieces of the owner ${owner}.\n`;
      await printValue(context, answer, text);
      if (!isJson(context) && context.options.quiet !== true)
        for (const each of warnings) context.output.note(`Note: ${each}\n`);
      return EXIT.done;
    }),
});

/** Shows what an apply would do; reads only. */
const limitsPlan = command({
  options: [
    ...FILE_OPTIONS,
    ["--exit-code", "exit with 1 if there are changes"],
    ["--keep", "plan to keep pieces that are no longer declared, without an owner"],
    ["--prune", "with -o: let `limits apply FILE` delete pieces that are no longer declared"],
    ["--take-over", "plan to take over pieces that another owner declares"],
    ["-o, --output <file>", "save the plan to this file, for `limits apply FILE`"],
  ],
  examples: ["limits plan -f limits.yaml"],
  notes: [`${EXIT_CODES} 1 conflicts, deletions that will be refused, changes under --exit-code.`],
  run: (context, options) => {
    const settings = planSettings(options);
    return withManifest(context, options, (manifest) =>
      onManifests(context, manifest, async (manifests) => {
        const { basisOf } = await import("../../manifest/plan.ts");
        const plan = await unlessInterrupted(context, manifests.plan(manifest, settings));
        await printPlan(context, plan, "planned");
        const { refusal } = basisOf(plan);
        if (options.output !== undefined) {
          if (refusal !== undefined) throw refusal;
          await savePlan(context, plan, options.output);
        }
        // Deletions need `--prune` only when they are applied. Other refusals stand.
        const isRefused = refusal !== undefined && refusal.code !== "deletions_need_prune";
        const differs = plan.changes.length > 0 && options.exitCode === true;
        return isRefused || differs ? EXIT.refused : EXIT.done;
      }),
    );
  },
});

/** The fate of pieces that are no longer declared, and of those that another owner declares. */
type PlanSettings = Readonly<Record<"keep" | "prune" | "takeOver", boolean>>;

function planSettings({ keep = false, prune = false, takeOver = false }: Partial<PlanSettings>): PlanSettings {
  if (prune && keep) throw new UsageError("--prune and --keep exclude each other; give one of them.");
  return { keep, prune, takeOver };
}

async function savePlan(context: CommandContext, plan: Plan, file: string): Promise<void> {
  const { textOfPlan } = await import("../../manifest/saved-plan.ts");
  await writeWhole(file, textOfPlan(plan, savedStoreName(context)));
  if (context.options.quiet === true || isJson(context)) return;
  context.output.note(`Saved; apply exactly this with \`zae-limiter limits apply ${file}\`.\n`);
}

/** Shows what changed since the last apply, and who changed it. */
const limitsDiff = command({
  options: FILE_OPTIONS,
  examples: ["limits diff --owner platform"],
  notes: ["Exit codes: 1 drift, 4 this owner has never applied a manifest."],
  run: (context, options) => {
    if (options.file === undefined) return printDrift(context, given({ owner: options.owner }));
    return withManifest(context, options, (manifest) => printDrift(context, manifest));
  },
});

function printDrift(context: CommandContext, whose: Pick<Manifest, "namespace" | "owner">): Promise<number> {
  return onManifests(context, whose, async (manifests) => {
    const found = await unlessInterrupted(context, manifests.drift(given({ owner: whose.owner })));
    await printValue(context, found, () => driftText(found, paintOf(context)));
    return found.drift.length > 0 ? EXIT.refused : EXIT.done;
  });
}

const limitsExport = command({
  options: [
    ["-o, --output <file>", "write it to this file"],
    ["--owned", "only pieces that an owner declares"],
    ["--owner <name>", "only pieces of this owner; needed if there are several"],
  ],
  examples: ["limits export -o limits.yaml", "limits export --json", "limits export --owner platform"],
  notes: [
    "Exit codes: 1 pieces have several owners and --owner picks none, 4 this owner has never applied a manifest.",
  ],
  run: (context, { owned = false, owner, output }) =>
    onManifests(context, {}, async (manifests) => {
      const { yamlOf } = await import("../../manifest/export.ts");
      const exported = await unlessInterrupted(context, manifests.export({ owned: owner ?? owned }));
      for (const each of exported.warnings) context.output.note(`Note: ${each}\n`);
      const text = isJson(context) ? `${jsonOf(exported.document)}\n` : yamlOf(exported);
      if (output === undefined) await context.output.write(text);
      else await writeWhole(output, text);
      return EXIT.done;
    }),
});

const limitsSchema = command({
  examples: ["limits schema > manifest.schema.json"],
  run: async ({ output }) => {
    const { manifestSchema } = await import("../../manifest/schema.ts");
    await output.write(`${JSON.stringify(manifestSchema(), undefined, 2)}\n`);
    return EXIT.done;
  },
});

/** Shows a manifest as a resource of CloudFormation; opens no store. */
const limitsCfnTemplate = command({
  options: FILE_OPTIONS,
  examples: ["limits cfn-template -n limits -f limits.yaml > limits.template.yaml"],
  notes: [EXIT_CODES],
  run: (context, options) =>
    withManifest(context, options, async (manifest) => {
      const { stack } = requiredTable(context, "limits cfn-template");
      const [{ cfnTemplateOf }, { stringify }] = await Promise.all([
        import("../../manifest/cfn-template.ts"),
        import("yaml"),
      ]);
      const template = cfnTemplateOf(manifest, { stack, namespace: namespaceFor(manifest, context) });
      const text = isJson(context) ? `${jsonOf(template)}\n` : stringify(template, { lineWidth: 0 });
      await context.output.write(text);
      const warning = sizeWarning(Buffer.byteLength(text));
      if (warning !== undefined && context.options.quiet !== true) context.output.note(`${warning}\n`);
      return EXIT.done;
    }),
});

/** CloudFormation takes so much of a template in a request, and so much from a bucket. */
const INLINE_BYTES_MAX = 51_200;
const BUCKET_BYTES_MAX = 1_000_000;
/** The bound of an asynchronous Lambda request, less what CloudFormation puts around the properties. */
const PAYLOAD_BYTES_MAX = 250_000;

function sizeWarning(bytes: number): string | undefined {
  if (bytes <= INLINE_BYTES_MAX) return undefined;
  const size = `The template has ${bytes} bytes`;
  if (bytes <= PAYLOAD_BYTES_MAX) {
    return `${size}, and CloudFormation accepts ${INLINE_BYTES_MAX} in a request; upload it to a bucket and pass --template-url.`;
  }
  const most =
    bytes <= BUCKET_BYTES_MAX
      ? `Lambda accepts about ${PAYLOAD_BYTES_MAX} for a resource`
      : `CloudFormation accepts ${BUCKET_BYTES_MAX}`;
  return `${size}, and ${most}: it would fail. Split it into several manifests, or apply it with \`zae-limiter limits apply\`.`;
}

const limitsApply = command({
  arguments: [["[plan]", "a plan saved by `limits plan -o FILE`: applied as shown, without a confirmation"]],
  options: [
    ...FILE_OPTIONS,
    ["--prune", "delete pieces that are owned but no longer declared"],
    ["--keep", "keep those pieces, without an owner"],
    ["--take-over", "take over pieces that another owner declares"],
  ],
  examples: ["limits apply -f limits.yaml --yes"],
  notes: [
    "Applies exactly the plan, or nothing: a plan is outdated if others changed its pieces in the meantime.",
    `${EXIT_CODES} 1 conflicts, an outdated plan, deletions without --prune or --keep, declined.`,
  ],
  run: (context, options, [plan]) => {
    const { file, owner, prune, keep, takeOver } = options;
    const settings = planSettings(options);
    if (plan !== undefined) {
      const [name] = Object.keys(given({ file, owner, prune, keep, "take-over": takeOver }));
      if (name === undefined) return applySaved(context, plan);
      throw new UsageError(`--${name} was decided when the plan was made; leave it out, or plan again.`);
    }
    return withManifest(context, options, (manifest) =>
      onManifests(context, manifest, (manifests) => applyDeclared(context, { manifests, manifest, settings })),
    );
  },
});

export const LIMITS_COMMANDS: CommandGroup = {
  "limits validate": limitsValidate,
  "limits plan": limitsPlan,
  "limits apply": limitsApply,
  "limits diff": limitsDiff,
  "limits export": limitsExport,
  "limits schema": limitsSchema,
  "limits cfn-template": limitsCfnTemplate,
};

/** Does the work on the namespace of a manifest, on its store or over a service. */
function onManifests(
  context: CommandContext,
  whose: Pick<Manifest, "namespace">,
  work: (manifests: Manifests) => Promise<number>,
): Promise<number> {
  return onNamespace(context, namespaceFor(whose, context), async (limiter) => {
    const { manifestsOf } = await import("../../manifest/manifests.ts");
    return work(manifestsOf(limiter));
  });
}

/** Applies a saved plan as it was shown, or not at all. */
async function applySaved(context: CommandContext, file: string): Promise<number> {
  const text = await readGiven(file, "The plan");
  const [{ planAsSaved, readSavedPlan }, { parseManifest }] = await Promise.all([
    import("../../manifest/saved-plan.ts"),
    import("../../entry/manifest.ts"),
  ]);
  const saved = readSavedPlan(text);
  return onManifests(context, saved, async (manifests) => {
    const store = savedStoreName(context);
    const plan = await planAsSaved(saved, { store, parse: (each) => parseManifest(each), plan: manifests.plan });
    return context.options.dryRun === true ? dryRun(context, plan) : applyPlan(context, manifests, plan);
  });
}

interface Declared {
  readonly manifests: Manifests;
  readonly manifest: Manifest;
  readonly settings: PlanSettings;
}

async function applyDeclared(context: CommandContext, declared: Declared): Promise<number> {
  const { manifests, manifest, settings } = declared;
  const plan = await manifests.plan(manifest, settings);
  if (context.options.dryRun === true) return dryRun(context, plan);
  return applyPlan(context, manifests, await approvedPlan(context, declared, plan));
}

async function dryRun(context: CommandContext, plan: Plan): Promise<number> {
  await printPlan(context, { ...plan, dryRun: true }, "planned");
  return plan.conflicts.length > 0 ? EXIT.refused : EXIT.done;
}

async function applyPlan(context: CommandContext, manifests: Manifests, plan: Plan): Promise<number> {
  const made = new Set<string>();
  const all = plan.changes.length;
  const progress = all < PROGRESS_FROM || isJson(context) ? SILENT : progressLine(context, 0);
  const onChange = (change: Change) => {
    made.add(pieceKey(change));
    progress.tell(`${made.size} of ${all}`);
  };
  try {
    const settings = { ...principalOf(context), signal: context.interrupted, onChange };
    const result = await manifests.apply(plan, settings).finally(progress.end);
    await printPlan(context, result, "applied");
    return EXIT.done;
  } catch (error) {
    if (made.size === 0 && !context.interrupted.aborted) throw error;
    const changes = plan.changes.map((change) => ({ ...change, done: made.has(pieceKey(change)) }));
    await printPlan(context, { ...plan, changes }, "planned");
    // The exit code is that of the signal then.
    if (context.interrupted.aborted) return EXIT.refused;
    throw error;
  }
}

/** Asks whether the plan may be applied, if there is a terminal to ask at; deletions are asked about by themselves. */
async function approvedPlan(
  context: CommandContext,
  { manifests, manifest, settings }: Declared,
  plan: Plan,
): Promise<Plan> {
  if (plan.conflicts.length > 0 || plan.changes.length === 0) return plan;
  const { delete: deletions } = plan.summary;
  const isOpen = deletions > 0 && !settings.prune && !settings.keep;
  // The apply itself refuses it, before anything is changed.
  if (isOpen && !canAsk(context)) return plan;
  if (canAsk(context)) context.output.note(planText(plan, paintOf(context), "planned"));
  const what = isOpen ? `Apply this, and delete ${deletions}?` : "Apply this?";
  await confirmed(context, what);
  if (!isOpen) return plan;
  const { requireShown } = await import("../../manifest/live.ts");
  const pruning = await manifests.plan(manifest, { ...settings, prune: true });
  requireShown(plan.changes, pruning.changes);
  return pruning;
}

function canAsk({ terminal, options }: CommandContext): boolean {
  return options.yes !== true && terminal.stdin && terminal.stderr;
}

/** Fewer changes than this are made before anyone has read the line. */
const PROGRESS_FROM = 20;
