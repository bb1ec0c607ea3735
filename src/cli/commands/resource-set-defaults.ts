import { checkResource } from "../../domain/names.ts";
import { checkedLimits } from "../checked-limits.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { limitsOf } from "../limit-text.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { limitsBlock } from "../show-limits.ts";

interface ResourceSetDefaultsOptions extends GlobalOptions {
  readonly limit?: readonly string[];
  readonly soft?: readonly string[];
}

export const resourceSetDefaults: CommandFile<ResourceSetDefaultsOptions> = {
  configure: (command) => {
    command
      .argument("<resource>", "which resource; it becomes known by this")
      .option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated)
      .option("--soft <name>", "measured, never a reason to refuse; repeated", repeated)
      .addHelpText(
        "after",
        examples(
          "zae-limiter resource set-defaults gpt-4 -l rpm:100 -l tpm:10k/min:20k",
          "zae-limiter resource set-defaults batch -l 'rpm:100,when=* 9-17 * * 1-5 x0.5'",
        ),
      );
  },
  run: (context, options, [resource = ""]) => {
    const { limit, soft } = options;
    if (limit === undefined)
      throw new UsageError("Which limits? Give -l NAME:AMOUNT[/PERIOD][:BURST], such as -l rpm:100.");
    const limits = checkedLimits(limitsOf(limit, soft ?? []));
    checkResource(resource);
    return onStore(context, options, async (limiter) => {
      if (options.dryRun !== true) await limiter.setResourceDefaults(resource, limits, principalOf(context, options));
      const policy = await limiter.getPolicy({ resource });
      const stored = options.dryRun === true ? limits : await limiter.getResourceDefaults(resource);
      await printChange(context, options, { resource, limits: stored, ...policy }, () =>
        limitsBlock(resource, stored, policy),
      );
      return EXIT.done;
    });
  },
};
