import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { type PolicyOptions, policyOptions, policyScope, scopeText } from "../policy-scope.ts";
import { printValue } from "../print.ts";

export const cascadeShow: CommandFile<PolicyOptions> = {
  configure: (command) => {
    policyOptions(command).addHelpText("after", examples("zae-limiter cascade show -e key-1 -r gpt-4"));
  },
  run: (context, options) => {
    const where = policyScope(options);
    return onStore(context, options, async (limiter) => {
      const cascade = (await limiter.getPolicy(where)).cascade ?? "inherit";
      const word = typeof cascade === "boolean" ? (cascade ? "on" : "off") : cascade;
      await printValue(context, options, { ...where, cascade }, () => `${scopeText(where)}: cascade ${word}\n`);
      return EXIT.done;
    });
  },
};
