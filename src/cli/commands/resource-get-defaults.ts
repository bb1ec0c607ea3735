import { NotFoundError } from "../../domain/errors.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { levelsOf } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { resourcesOf } from "../known.ts";
import { nearText, onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { levelBlock } from "../show-limits.ts";

export const resourceGetDefaults: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<resource>", "the resource")
      .addHelpText("after", examples("zae-limiter resource get-defaults gpt-4"))
      .addHelpText("after", "\nExit codes: 4 no defaults are set.\n");
  },
  run: (context, options, [resource = ""]) =>
    onStore(context, options, async (limiter) => {
      const config = await (await levelsOf(limiter)).get({ level: "resource", resource });
      if (config.limits.length === 0) {
        const near = nearText(resource, await resourcesOf(limiter));
        throw new NotFoundError(
          "limits_not_found",
          `The resource "${resource}" has no defaults${near} Set some with \`zae-limiter resource set-defaults\`.`,
        );
      }
      await printValue(context, options, { resource, ...config }, () => levelBlock(resource, config));
      return EXIT.done;
    }),
};
