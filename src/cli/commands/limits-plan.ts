import type { Plan } from "../../manifest/plan.ts";
import { type CommandContext, type CommandFile, examples } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { writeWhole } from "../files.ts";
import {
  EXIT_CODES,
  fileOption,
  type ManifestOptions,
  namespaceFor,
  onNamespace,
  printPlan,
  withManifest,
} from "../manifest-options.ts";
import { isJson, unlessInterrupted } from "../print.ts";
import { savedStoreName } from "../store-option.ts";

/** Shows what an apply would do; reads only. */
export const limitsPlan: CommandFile<ManifestOptions> = {
  configure: (command) => {
    fileOption(command)
      .option("--exit-code", "exit with 1 if there are changes")
      .option("--keep", "plan to keep pieces that are no longer declared, without an owner")
      .option("--prune", "with -o: let `limits apply FILE` delete pieces that are no longer declared")
      .option("--take-over", "plan to take over pieces that another owner declares")
      .option("-o, --output <file>", "save the plan to this file, for `limits apply FILE`")
      .addHelpText("after", examples("zae-limiter limits plan -f limits.yaml"))
      .addHelpText(
        "after",
        `${EXIT_CODES.trimEnd()} 1 conflicts, deletions that will be refused, changes under --exit-code.\n`,
      );
  },
  run: (context, options) => {
    if (options.prune === true && options.keep === true) {
      throw new UsageError("--prune and --keep exclude each other; give one of them.");
    }
    return withManifest(context, options, (manifest) =>
      onNamespace(context, options, namespaceFor(manifest, options, context), async (limiter) => {
        const { basisOf, planManifest } = await import("../../manifest/plan.ts");
        const { keep = false, prune = false, takeOver = false } = options;
        const plan = await unlessInterrupted(context, planManifest(limiter, manifest, { keep, prune, takeOver }));
        await printPlan(context, options, plan, "planned");
        const { refusal } = basisOf(plan);
        if (options.output !== undefined) {
          // What cannot be applied is not saved.
          if (refusal !== undefined) throw refusal;
          await saved(context, options, { plan, file: options.output });
        }
        // Deletions are allowed when they are applied; what stands in the way of them, or is another's, is not.
        const isRefused = refusal !== undefined && refusal.code !== "deletions_need_prune";
        const differs = plan.changes.length > 0 && options.exitCode === true;
        return isRefused || differs ? EXIT.refused : EXIT.done;
      }),
    );
  },
};

async function saved(
  context: CommandContext,
  options: ManifestOptions,
  { plan, file }: { readonly plan: Plan; readonly file: string },
): Promise<void> {
  const { textOfPlan } = await import("../../manifest/saved-plan.ts");
  await writeWhole(file, textOfPlan(plan, savedStoreName(context, options)));
  if (options.quiet === true || isJson(options)) return;
  context.output.note(`Saved; apply exactly this with \`zae-limiter limits apply ${file}\`.\n`);
}
