import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { requireKnown } from "../known.ts";
import { onStore } from "../on-store.ts";
import { type PolicyOptions, policyOptions, policyScope, scopeText } from "../policy-scope.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { choiceOf } from "../values.ts";

export const cascadeSet: CommandFile<PolicyOptions> = {
  configure: (command) => {
    policyOptions(command.argument("<on|off|inherit>", "whether parents are charged"))
      .option("--allow-unknown", "accept an entity or resource that does not exist yet")
      .addHelpText(
        "after",
        examples("zae-limiter cascade set off -e key-1 -r gpt-4", "zae-limiter cascade set inherit -e key-1 -r gpt-4"),
      )
      .addHelpText("after", "\nExit codes: 4 no such entity or resource.\n");
  },
  run: (context, options, [given = ""]) => {
    const word = choiceOf(given, ["on", "off", "inherit"], "cascade");
    const where = policyScope(options);
    return onStore(context, options, async (limiter) => {
      await requireKnown(limiter, { ...where, allowUnknown: options.allowUnknown });
      const cascade = word === "inherit" ? word : word === "on";
      if (options.dryRun !== true) await limiter.setCascade(where, cascade, principalOf(context, options));
      await printChange(context, options, { ...where, cascade }, () => `${scopeText(where)}: cascade ${word}\n`);
      return EXIT.done;
    });
  },
};
