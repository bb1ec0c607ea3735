import type { ConfigScope } from "../../domain/config.ts";
import { type CommandFile, examples, repeated } from "../command.ts";
import { allowUnknownOption, requireKnown } from "../known.ts";
import { givenLimits, type LevelFlags, levelFlags, setLevel } from "../level-commands.ts";
import { onStore } from "../on-store.ts";

interface EntitySetLimitsOptions extends LevelFlags {
  readonly limit?: readonly string[];
  readonly resource?: string;
  readonly soft?: readonly string[];
  readonly allowUnknown?: boolean;
}

export const entitySetLimits: CommandFile<EntitySetLimitsOptions> = {
  configure: (command) => {
    levelFlags(command)
      .argument("<id>", "the entity")
      .option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated)
      .option("-r, --resource <resource>", "on this resource; default: on every resource without limits of its own")
      .option("--soft <name>", "a limit that is counted but never refuses; repeated", repeated)
      .addOption(allowUnknownOption())
      .addHelpText(
        "after",
        examples(
          "zae-limiter entity set-limits key-1 -r gpt-4 -l rpm:100 -l tpm:10k/min:20k",
          "zae-limiter entity set-limits proj-1 -l 'month:2M,reset=monthly,tz=Europe/Berlin'",
          "zae-limiter entity set-limits key-1 -l rpm:500 --inherit",
        ),
      )
      .addHelpText("after", "\nExit codes: 4 no such entity or resource.\n");
  },
  run: (context, options, [entityId = ""]) => {
    const { resource, allowUnknown } = options;
    const limits = givenLimits(options);
    const scope: ConfigScope =
      resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
    const title = `${entityId}${resource === undefined ? "" : ` on ${resource}`}`;
    return onStore(context, options, async (limiter) => {
      await requireKnown(limiter, { entityId, resource, allowUnknown });
      return setLevel(context, options, limiter, { scope, title, limits });
    });
  },
};
