import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { limitsBlock, limitsMissing } from "../show-limits.ts";

interface EntityGetLimitsOptions extends GlobalOptions {
  readonly resource?: string;
}

export const entityGetLimits: CommandFile<EntityGetLimitsOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "whose limits")
      .option("-r, --resource <resource>", "on which; default: those for wherever it has none of its own")
      .addHelpText("after", examples("zae-limiter entity get-limits key-1 -r gpt-4"))
      .addHelpText("after", "\nExit codes: 4 it has no limits of its own there.\n");
  },
  run: (context, options, [entityId = ""]) =>
    onStore(context, options, async (limiter) => {
      const where = options.resource === undefined ? {} : { resource: options.resource };
      const limits = await limiter.getLimits(entityId, where);
      const on = options.resource === undefined ? "" : ` on ${options.resource}`;
      if (limits.length === 0) {
        throw limitsMissing(`${entityId} has no limits of its own${on}`, "`zae-limiter explain` shows which apply");
      }
      const policy = await limiter.getPolicy({ entityId, ...where });
      await printValue(context, options, { entityId, ...where, limits, ...policy }, () =>
        limitsBlock(`${entityId}${on}`, limits, policy),
      );
      return EXIT.done;
    }),
};
