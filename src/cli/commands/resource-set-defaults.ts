import { checkResource } from "../../domain/names.ts";
import { type CommandFile, examples, repeated } from "../command.ts";
import { givenLimits, type LevelFlags, levelFlags, setLevel } from "../level-commands.ts";
import { onStore } from "../on-store.ts";

interface ResourceSetDefaultsOptions extends LevelFlags {
  readonly limit?: readonly string[];
  readonly soft?: readonly string[];
}

export const resourceSetDefaults: CommandFile<ResourceSetDefaultsOptions> = {
  configure: (command) => {
    levelFlags(command)
      .argument("<resource>", "the resource; this makes it known")
      .option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated)
      .option("--soft <name>", "a limit that is counted but never refuses; repeated", repeated)
      .addHelpText(
        "after",
        examples(
          "zae-limiter resource set-defaults gpt-4 -l rpm:100 -l tpm:10k/min:20k --applies-to callers",
          "zae-limiter resource set-defaults batch -l 'rpm:100,when=* 9-17 * * 1-5 x0.5'",
        ),
      );
  },
  run: (context, options, [resource = ""]) => {
    const limits = givenLimits(options);
    checkResource(resource);
    return onStore(context, options, (limiter) =>
      setLevel(context, options, limiter, { scope: { level: "resource", resource }, title: resource, limits }),
    );
  },
};
