import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { requireKnown } from "../known.ts";
import { onStore } from "../on-store.ts";
import { type PolicyOptions, policyOptions, policyScope, scopeText } from "../policy-scope.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { choiceOf } from "../values.ts";

export const accessSet: CommandFile<PolicyOptions> = {
  configure: (command) => {
    policyOptions(command.argument("<mode>", "disabled, bypass, enforce or inherit"))
      .option("--allow-unknown", "accept an entity or resource that does not exist yet")
      .addHelpText(
        "after",
        examples(
          "zae-limiter access set disabled -e key-1 -r gpt-4",
          "zae-limiter access set inherit -e key-1 -r gpt-4",
        ),
      )
      .addHelpText("after", "\nExit codes: 4 no such entity or resource.\n");
  },
  run: (context, options, [given = ""]) => {
    const word = choiceOf(given, ["disabled", "bypass", "enforce", "inherit"], "access");
    const where = policyScope(options);
    return onStore(context, options, async (limiter) => {
      await requireKnown(limiter, { ...where, allowUnknown: options.allowUnknown });
      const access = word;
      if (options.dryRun !== true) await limiter.setAccess(where, access, principalOf(context, options));
      await printChange(context, options, { ...where, access }, () => `${scopeText(where)}: access ${word}\n`);
      return EXIT.done;
    });
  },
};
