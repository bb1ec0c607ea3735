import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import type { ManifestOptions } from "../manifest-options.ts";

/** Shows the JSON Schema of manifests. */
export const limitsSchema: CommandFile<ManifestOptions> = {
  configure: (command) => {
    command.addHelpText("after", examples("zae-limiter limits schema > manifest.schema.json"));
  },
  run: async ({ output }) => {
    const { manifestSchema } = await import("../../manifest/schema.ts");
    await output.write(`${JSON.stringify(manifestSchema(), undefined, 2)}\n`);
    return EXIT.done;
  },
};
