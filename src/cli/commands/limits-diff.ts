import type { Manifest } from "../../manifest/manifest.ts";
import { paintOf } from "../color.ts";
import { type CommandContext, type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { fileOption, type ManifestOptions, namespaceFor, onNamespace, withManifest } from "../manifest-options.ts";
import { driftText } from "../plan-text.ts";
import { isJson, unlessInterrupted } from "../print.ts";
import { jsonOf } from "../printable.ts";

/** Shows what is no longer as it was last applied, and who did it. */
export const limitsDiff: CommandFile<ManifestOptions> = {
  configure: (command) => {
    fileOption(command)
      .addHelpText("after", examples("zae-limiter limits diff --owner platform"))
      .addHelpText("after", "\nExit codes: 1 drift, 4 this owner has never applied a manifest.\n");
  },
  run: (context, options) => {
    const { owner } = options;
    if (options.file !== undefined)
      return withManifest(context, options, (manifest) => shown(context, options, manifest));
    return shown(context, options, owner === undefined ? {} : { owner });
  },
};

function shown(
  context: CommandContext,
  options: ManifestOptions,
  whose: Pick<Manifest, "namespace" | "owner">,
): Promise<number> {
  return onNamespace(context, options, namespaceFor(whose, options, context), async (limiter) => {
    const { driftOf } = await import("../../manifest/drift.ts");
    const found = await unlessInterrupted(
      context,
      driftOf(limiter, whose.owner === undefined ? {} : { owner: whose.owner }),
    );
    const text = () => driftText(found, paintOf(context, options));
    await context.output.write(isJson(options) ? `${jsonOf(found)}\n` : text());
    return found.drift.length > 0 ? EXIT.refused : EXIT.done;
  });
}
