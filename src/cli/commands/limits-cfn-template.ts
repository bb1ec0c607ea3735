import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { EXIT_CODES, fileOption, type ManifestOptions, namespaceFor, withManifest } from "../manifest-options.ts";
import { isJson } from "../print.ts";
import { requiredTable } from "../store-option.ts";

/** Shows a manifest as a resource of CloudFormation; opens no store. */
export const limitsCfnTemplate: CommandFile<ManifestOptions> = {
  configure: (command) => {
    fileOption(command)
      .addHelpText("after", examples("zae-limiter limits cfn-template -n limits -f limits.yaml > limits.template.yaml"))
      .addHelpText("after", EXIT_CODES);
  },
  run: (context, options) =>
    withManifest(context, options, async (manifest) => {
      const { stack } = requiredTable(options, context, "limits cfn-template");
      const [{ cfnTemplateOf }, { stringify }] = await Promise.all([
        import("../../manifest/cfn-template.ts"),
        import("yaml"),
      ]);
      const template = cfnTemplateOf(manifest, { stack, namespace: namespaceFor(manifest, options, context) });
      const text = isJson(options) ? `${JSON.stringify(template)}\n` : stringify(template, { lineWidth: 0 });
      await context.output.write(text);
      return EXIT.done;
    }),
};
