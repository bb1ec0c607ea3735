import { NotFoundError } from "../../domain/errors.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { resourcesOf } from "../known.ts";
import { nearText, onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { limitsBlock } from "../show-limits.ts";

export const resourceGetDefaults: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<resource>", "which resource")
      .addHelpText("after", examples("zae-limiter resource get-defaults gpt-4"))
      .addHelpText("after", "\nExit codes: 4 it has none.\n");
  },
  run: (context, options, [resource = ""]) =>
    onStore(context, options, async (limiter) => {
      const limits = await limiter.getResourceDefaults(resource);
      if (limits.length === 0) {
        const near = nearText(resource, await resourcesOf(limiter));
        throw new NotFoundError(
          "limits_not_found",
          `The resource "${resource}" has no defaults${near} Set some with \`zae-limiter resource set-defaults\`.`,
        );
      }
      const policy = await limiter.getPolicy({ resource });
      await printValue(context, options, { resource, limits, ...policy }, () => limitsBlock(resource, limits, policy));
      return EXIT.done;
    }),
};
