import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { writeWhole } from "../files.ts";
import { type ManifestOptions, namespaceFor, onNamespace } from "../manifest-options.ts";
import { isJson, unlessInterrupted } from "../print.ts";
import { jsonOf } from "../printable.ts";

/** Shows a namespace as a manifest. */
export const limitsExport: CommandFile<ManifestOptions> = {
  configure: (command) => {
    command
      .option("-o, --output <file>", "write it to this file")
      .option("--owned", "only pieces that an owner declares")
      .option("--owner <name>", "with --owned: only pieces of this owner")
      .addHelpText("after", examples("zae-limiter limits export -o limits.yaml", "zae-limiter limits export --json"));
  },
  run: (context, options) =>
    onNamespace(context, options, namespaceFor({}, options, context), async (limiter) => {
      const [{ exportDocument }, { yamlOf }] = await Promise.all([
        import("../../manifest/export.ts"),
        import("../../manifest/yaml-text.ts"),
      ]);
      const { owned = false, owner = true, output } = options;
      const document = await unlessInterrupted(context, exportDocument(limiter, { owned: owned ? owner : false }));
      const text = isJson(options) ? `${jsonOf(document)}\n` : yamlOf(document);
      if (output === undefined) await context.output.write(text);
      else await writeWhole(output, text);
      return EXIT.done;
    }),
};
