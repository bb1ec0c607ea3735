import type { ConfigScope } from "../../domain/config.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { levelsOf } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { levelBlock, limitsMissing } from "../show-limits.ts";

interface EntityGetLimitsOptions extends GlobalOptions {
  readonly resource?: string;
}

export const entityGetLimits: CommandFile<EntityGetLimitsOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "the entity")
      .option(
        "-r, --resource <resource>",
        "on this resource; default: the entity's default, for resources without limits of their own",
      )
      .addHelpText("after", examples("zae-limiter entity get-limits key-1 -r gpt-4"))
      .addHelpText("after", "\nExit codes: 4 no limits are set there.\n");
  },
  run: (context, options, [entityId = ""]) =>
    onStore(context, options, async (limiter) => {
      const where = options.resource === undefined ? {} : { resource: options.resource };
      const scope: ConfigScope =
        options.resource === undefined
          ? { level: "entityDefault", entityId }
          : { level: "entity", entityId, resource: options.resource };
      const config = await (await levelsOf(limiter)).get(scope);
      const on = options.resource === undefined ? "" : ` on ${options.resource}`;
      if (config.limits.length === 0) {
        throw limitsMissing(`${entityId} has no limits of its own${on}`, "`zae-limiter explain` shows which apply");
      }
      await printValue(context, options, { entityId, ...where, ...config }, () =>
        levelBlock(`${entityId}${on}`, config),
      );
      return EXIT.done;
    }),
};
