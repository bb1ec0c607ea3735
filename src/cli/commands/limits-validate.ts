import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { EXIT_CODES, fileOption, type ManifestOptions, withManifest } from "../manifest-options.ts";
import { isJson } from "../print.ts";
import { jsonOf } from "../printable.ts";

/** Checks a manifest; opens no store. */
export const limitsValidate: CommandFile<ManifestOptions> = {
  configure: (command) => {
    fileOption(command)
      .addHelpText("after", examples("zae-limiter limits validate -f limits.yaml"))
      .addHelpText("after", EXIT_CODES);
  },
  run: (context, options) =>
    withManifest(context, options, async (manifest) => {
      const { namespace, owner = "default", pieces, warnings } = manifest;
      const answer = {
        ...{ valid: true, ...(namespace === undefined ? {} : { namespace }), owner, pieces: pieces.length, warnings },
      };
      const text = `${options.file} is valid: ${pieces.length} pieces of the owner ${owner}.\n`;
      await context.output.write(isJson(options) ? `${jsonOf(answer)}\n` : text);
      if (!isJson(options) && options.quiet !== true)
        for (const each of warnings) context.output.note(`Note: ${each}\n`);
      return EXIT.done;
    }),
};
