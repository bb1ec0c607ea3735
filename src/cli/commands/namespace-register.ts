import { NotFoundError } from "../../domain/errors.ts";
import { checkNamespace } from "../../domain/names.ts";
import type { Namespace } from "../../entry/index.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { isJson, requireUninterrupted } from "../print.ts";
import { jsonOf } from "../printable.ts";
import { namespaceText } from "../show-namespace.ts";

export const namespaceRegister: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<name...>", "names; existing namespaces stay as they are")
      .addHelpText("after", examples("zae-limiter namespace register tenant-a tenant-b"));
  },
  run: (context, options, names) => {
    for (const name of names) checkNamespace(name);
    return onStore(context, options, async (limiter) => {
      const items: Namespace[] = [];
      for (const name of names) {
        requireUninterrupted(context);
        items.push(
          options.dryRun === true
            ? await planned(limiter, name)
            : await limiter.registerNamespace(name, principalOf(context, options)),
        );
      }
      const dryRun = options.dryRun === true ? { dryRun: true } : {};
      if (options.ndjson === true)
        await context.output.write(items.map((item) => `${jsonOf({ ...item, ...dryRun })}\n`).join(""));
      else if (isJson(options)) await context.output.write(`${jsonOf({ items, ...dryRun })}\n`);
      else await context.output.write(items.map(namespaceText).join("\n"));
      return EXIT.done;
    });
  },
};

/** As it would be; its id is not known before it is made. */
async function planned(limiter: CommandLimiter, name: string): Promise<Namespace> {
  try {
    return await limiter.getNamespace(name);
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    return { id: "", name, status: "active", createdAtMs: Date.now() };
  }
}
