import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { EXIT_CODES, fileOption, type ManifestOptions, namespaceFor, withManifest } from "../manifest-options.ts";
import { isJson } from "../print.ts";
import { jsonOf } from "../printable.ts";
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
      const text = isJson(options) ? `${jsonOf(template)}\n` : stringify(template, { lineWidth: 0 });
      await context.output.write(text);
      const warning = sizeWarning(Buffer.byteLength(text));
      if (warning !== undefined && options.quiet !== true) context.output.note(`${warning}\n`);
      return EXIT.done;
    }),
};

/** What CloudFormation takes of a template in a request, and in all from a bucket. */
const INLINE_BYTES_MAX = 51_200;
const BUCKET_BYTES_MAX = 1_000_000;
/** What Lambda takes of a request that nobody waits for, less what CloudFormation puts around the properties. */
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
