import { template as make } from "../../infra/template.ts";
import { type CommandFile, examples } from "../command.ts";
import { type DeployOptions, deployOptions, inFlags, stackOptionsOf } from "../deploy-options.ts";
import { EXIT } from "../exit-code.ts";
import { isJson } from "../print.ts";
import { nameOption, stackNameIn } from "../stack-options.ts";

export const template: CommandFile<DeployOptions> = {
  configure: (command) => {
    deployOptions(nameOption(command))
      .option("--code-bucket <bucket>", "the bucket with the functions' code: aggregator.zip, provisioner.zip")
      .option("--code-prefix <prefix>", "a prefix of these names, different for each version")
      .addHelpText(
        "after",
        examples("zae-limiter template -n limits", "zae-limiter template --no-iam --no-alarms --json"),
      )
      .addHelpText(
        "after",
        "\nCreates nothing and calls no service. Without a name, the template uses the name it is deployed under. The code of the " +
          "functions is not in it: write it with `lambda-export` and upload it to the bucket of --code-bucket. Otherwise `deploy` or `update` " +
          "uploads the code, and `init` sets up the table.\n",
      );
  },
  run: async (context, options) => {
    const name = stackNameIn(options, context);
    const made = await inFlags(() =>
      make({ ...stackOptionsOf(options, context.env), ...(name === undefined ? {} : { name }) }),
    );
    await context.output.write(`${JSON.stringify(made, undefined, isJson(options) ? 0 : 2)}\n`);
    return EXIT.done;
  },
};
