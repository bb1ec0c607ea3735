import { packageVersion } from "../../entry/package-version.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { clientOf } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { onStore, timeoutOf } from "../on-store.ts";
import { fieldsText, printValue } from "../print.ts";
import { serviceUrl } from "../service-option.ts";
import { awsConfigOf } from "../stack-options.ts";
import { chosenStore } from "../store-option.ts";
import type { StoreTarget } from "../stores.ts";

export const version: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .addHelpText("after", examples("zae-limiter version", "zae-limiter --version"))
      .addHelpText("after", "\nShows the store and its schema if one can be reached.\n");
  },
  run: async (context, options) => {
    const url = serviceUrl(options, context);
    if (url !== undefined) {
      const service = await serviceVersion(context, options).catch(() => undefined);
      const value = {
        ...{ client: packageVersion(), node: process.versions.node },
        ...(service === undefined ? {} : { store: url, service }),
      };
      await printValue(context, options, value, () => fieldsText(value));
      return EXIT.done;
    }
    const target = chosenStore(options, context);
    // A store that cannot be asked is no reason not to say which version asks.
    const schema = await target.schema(timeoutOf(options)).catch(() => undefined);
    const lambda = schema === undefined ? undefined : await lambdaOf(target, options).catch(() => undefined);
    const value = {
      client: packageVersion(),
      node: process.versions.node,
      ...(schema === undefined ? {} : { store: target.name, schema }),
      ...(lambda === undefined ? {} : { lambda }),
    };
    await printValue(context, options, value, () => fieldsText(value));
    return EXIT.done;
  },
};

function serviceVersion(context: CommandContext, options: GlobalOptions): Promise<string | undefined> {
  return onStore(context, options, async (limiter) => (await clientOf(limiter)?.about())?.version);
}

/** Of the package whose code the functions of a table's stack have. */
async function lambdaOf(target: StoreTarget, options: GlobalOptions): Promise<string | undefined> {
  if (target.table === undefined) return undefined;
  const { versionsOf } = await import("../../entry/stack.ts");
  return (await versionsOf(target.table.stack, awsConfigOf(options))).lambda;
}
