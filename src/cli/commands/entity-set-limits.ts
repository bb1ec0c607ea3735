import type { ConfigScope } from "../../domain/config.ts";
import { type CommandFile, examples, repeated } from "../command.ts";
import { requireKnown } from "../known.ts";
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
      .argument("<id>", "whose limits")
      .option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated)
      .option("-r, --resource <resource>", "on one resource; default: on all where it has no others")
      .option("--soft <name>", "measured, never a reason to refuse; repeated", repeated)
      .option("--allow-unknown", "also for an entity or resource that nothing is known of")
      .addHelpText(
        "after",
        examples(
          "zae-limiter entity set-limits key-1 -r gpt-4 -l rpm:100 -l tpm:10k/min:20k",
          "zae-limiter entity set-limits proj-1 -l 'month:2M,reset=monthly,tz=Europe/Berlin'",
          "zae-limiter entity set-limits key-1 -l rpm:500 --inherit",
        ),
      )
      .addHelpText("after", "\nExit codes: 4 nothing is known of the entity or resource.\n");
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
