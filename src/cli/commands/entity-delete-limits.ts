import { confirmed } from "../ask.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { limitsMissing } from "../show-limits.ts";

interface EntityDeleteLimitsOptions extends GlobalOptions {
  readonly resource?: string;
}

export const entityDeleteLimits: CommandFile<EntityDeleteLimitsOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "the entity")
      .option(
        "-r, --resource <resource>",
        "on this resource; default: the entity's default, for resources without limits of their own",
      )
      .addHelpText("after", examples("zae-limiter entity delete-limits key-1 -r gpt-4 --yes"))
      .addHelpText("after", "\nExit codes: 1 declined, 4 no limits are set there.\n");
  },
  run: (context, options, [entityId = ""]) =>
    onStore(context, options, async (limiter) => {
      const where = options.resource === undefined ? {} : { resource: options.resource };
      const on = options.resource === undefined ? "" : ` on ${options.resource}`;
      const missing = () => limitsMissing(`${entityId} has no limits of its own${on}`, "nothing was deleted");
      if ((await limiter.getLimits(entityId, where)).length === 0) throw missing();
      await confirmed(context, options, `Delete the limits of ${entityId}${on}?`);
      if (options.dryRun !== true) {
        const isDeleted = await limiter.deleteLimits(entityId, { ...where, ...principalOf(context, options) });
        if (!isDeleted) throw missing();
      }
      await printChange(
        context,
        options,
        { entityId, ...where, deleted: true },
        () => `The limits of ${entityId}${on} are deleted.\n`,
      );
      return EXIT.done;
    }),
};
