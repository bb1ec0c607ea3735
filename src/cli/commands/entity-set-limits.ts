import { checkedLimits } from "../checked-limits.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { requireKnown } from "../known.ts";
import { limitsOf } from "../limit-text.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { limitsBlock } from "../show-limits.ts";

interface EntitySetLimitsOptions extends GlobalOptions {
  readonly limit?: readonly string[];
  readonly resource?: string;
  readonly soft?: readonly string[];
  readonly allowUnknown?: boolean;
}

export const entitySetLimits: CommandFile<EntitySetLimitsOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "whose limits")
      .option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated)
      .option("-r, --resource <resource>", "on which; default: wherever it has none of its own")
      .option("--soft <name>", "measured, never a reason to refuse; repeated", repeated)
      .option("--allow-unknown", "also for an entity or resource that nothing is known of")
      .addHelpText(
        "after",
        examples(
          "zae-limiter entity set-limits key-1 -r gpt-4 -l rpm:100 -l tpm:10k/min:20k",
          "zae-limiter entity set-limits proj-1 -l 'month:2M,reset=monthly,tz=Europe/Berlin'",
        ),
      )
      .addHelpText("after", "\nExit codes: 4 nothing is known of the entity or resource.\n");
  },
  run: (context, options, [entityId = ""]) => {
    const { limit, resource, soft, allowUnknown } = options;
    if (limit === undefined)
      throw new UsageError("Which limits? Give -l NAME:AMOUNT[/PERIOD][:BURST], such as -l rpm:100.");
    const limits = checkedLimits(limitsOf(limit, soft ?? []));
    const where = resource === undefined ? {} : { resource };
    return onStore(context, options, async (limiter) => {
      await requireKnown(limiter, { entityId, resource, allowUnknown });
      if (options.dryRun !== true) {
        await limiter.setLimits(entityId, limits, { ...where, ...principalOf(context, options) });
      }
      const policy = await limiter.getPolicy({ entityId, ...where });
      const stored = options.dryRun === true ? limits : await limiter.getLimits(entityId, where);
      await printChange(context, options, { entityId, ...where, limits: stored, ...policy }, () =>
        limitsBlock(`${entityId}${resource === undefined ? "" : ` on ${resource}`}`, stored, policy),
      );
      return EXIT.done;
    });
  },
};
