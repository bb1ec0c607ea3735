import type { Manifest } from "../../manifest/manifest.ts";
import type { Plan } from "../../manifest/plan.ts";
import { paintOf } from "../color.ts";
import { type CommandContext, type CommandFile, type CommandGroup, examples } from "../command.ts";
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
import { driftText } from "../plan-text.ts";
import { isJson, unlessInterrupted } from "../print.ts";
import { jsonOf } from "../printable.ts";
import { requiredTable, savedStoreName } from "../store-option.ts";

/** Checks a manifest; opens no store. */
const limitsValidate: CommandFile<ManifestOptions> = {
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

/** Shows what an apply would do; reads only. */
const limitsPlan: CommandFile<ManifestOptions> = {
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

/** Shows what is no longer as it was last applied, and who did it. */
const limitsDiff: CommandFile<ManifestOptions> = {
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

/** Shows a namespace as a manifest. */
const limitsExport: CommandFile<ManifestOptions> = {
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

/** Shows the JSON Schema of manifests. */
const limitsSchema: CommandFile<ManifestOptions> = {
  configure: (command) => {
    command.addHelpText("after", examples("zae-limiter limits schema > manifest.schema.json"));
  },
  run: async ({ output }) => {
    const { manifestSchema } = await import("../../manifest/schema.ts");
    await output.write(`${JSON.stringify(manifestSchema(), undefined, 2)}\n`);
    return EXIT.done;
  },
};

/** Shows a manifest as a resource of CloudFormation; opens no store. */
const limitsCfnTemplate: CommandFile<ManifestOptions> = {
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

export const LIMITS_COMMANDS: CommandGroup = {
  "limits validate": limitsValidate,
  "limits plan": limitsPlan,
  "limits diff": limitsDiff,
  "limits export": limitsExport,
  "limits schema": limitsSchema,
  "limits cfn-template": limitsCfnTemplate,
};
