import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import {
  EXIT_CODES,
  fileOption,
  type ManifestOptions,
  namespaceFor,
  onNamespace,
  printPlan,
  withManifest,
} from "../manifest-options.ts";

/** Shows what an apply would do; reads only. */
export const limitsPlan: CommandFile<ManifestOptions> = {
  configure: (command) => {
    fileOption(command)
      .option("--exit-code", "1 when there is something to change")
      .option("--keep", "what is no longer declared would be released, not deleted")
      .option("--take-over", "what another owns would be taken")
      .addHelpText("after", examples("zae-limiter limits plan -f limits.yaml"))
      .addHelpText("after", `${EXIT_CODES.trimEnd()} 1 conflicts, or changes under --exit-code.\n`);
  },
  run: (context, options) =>
    withManifest(context, options, (manifest) =>
      onNamespace(context, options, namespaceFor(manifest, options, context), async (limiter) => {
        const { planManifest } = await import("../../manifest/plan.ts");
        const { keep = false, takeOver = false } = options;
        const plan = await planManifest(limiter, manifest, { keep, takeOver });
        await printPlan(context, options, plan, "planned");
        const differs = plan.changes.length > 0 && options.exitCode === true;
        return plan.conflicts.length > 0 || differs ? EXIT.refused : EXIT.done;
      }),
    ),
};
