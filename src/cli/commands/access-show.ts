import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { type PolicyOptions, policyOptions, policyScope, scopeText } from "../policy-scope.ts";
import { printValue } from "../print.ts";

export const accessShow: CommandFile<PolicyOptions> = {
  configure: (command) => {
    policyOptions(command).addHelpText("after", examples("zae-limiter access show -e key-1 -r gpt-4"));
  },
  run: (context, options) => {
    const where = policyScope(options);
    return onStore(context, options, async (limiter) => {
      const access = (await limiter.getPolicy(where)).access ?? "inherit";
      const word = typeof access === "boolean" ? (access ? "on" : "off") : access;
      await printValue(context, options, { ...where, access }, () => `${scopeText(where)}: access ${word}\n`);
      return EXIT.done;
    });
  },
};
