import { deployStack } from "../../entry/stack.ts";
import { confirmed } from "../ask.ts";
import { changesText } from "../change-text.ts";
import { paintOf } from "../color.ts";
import { type CommandContext, type CommandFile, examples } from "../command.ts";
import { type DeployOptions, deployOptions, inFlags, stackOptionsOf, tagsOf } from "../deploy-options.ts";
import { EXIT } from "../exit-code.ts";
import { isJson, printChange } from "../print.ts";
import { awsConfigOf, nameOption, stackNameOf, watcherOf } from "../stack-options.ts";

const CODES =
  "\nExit codes: 1 refused (data loss, failed stack, not a zae-limiter stack) or declined; 3 AWS failed; 4 not found.\n";

export const deploy: CommandFile<DeployOptions> = {
  configure: (command) => {
    deployOptions(nameOption(command))
      .addHelpText(
        "after",
        examples(
          "zae-limiter deploy -n limits",
          "zae-limiter deploy -n limits --lambda-memory 512 --dry-run",
          "zae-limiter deploy -n limits --alarm-sns-topic arn:aws:sns:eu-west-1:123456789012:pages --yes",
        ),
      )
      .addHelpText(
        "after",
        "\nCreates the stack, or changes it: options that are not given keep their values. Changes are shown, old -> new, for confirmation. " +
          "Changes that remove or replace the table, a bucket or a policy are refused. Each --no-… switch has an --enable-… counterpart.\n",
      )
      .addHelpText("after", CODES);
  },
  run: (context, options) => deployed(context, options, false),
};

export const update: CommandFile<DeployOptions> = {
  configure: (command) => {
    deployOptions(nameOption(command))
      .addHelpText(
        "after",
        examples("zae-limiter update -n limits", "zae-limiter update -n limits --log-retention-days 90 --yes"),
      )
      .addHelpText(
        "after",
        "\nLike `deploy` on an existing stack: keeps its values, and installs this version's template and code.\n",
      )
      .addHelpText("after", CODES);
  },
  run: (context, options) => deployed(context, options, true),
};

async function deployed(context: CommandContext, options: DeployOptions, mustExist: boolean): Promise<number> {
  const name = stackNameOf(options, context, "deploy");
  const paint = paintOf(context, options);
  const aws = awsConfigOf(options);
  const confirm = async (changes: Parameters<typeof changesText>[0]) => {
    // Whoever is asked must see it; whoever reads JSON gets it at the end.
    if (!isJson(options) || context.terminal.stderr) context.output.note(changesText(changes, paint));
    await confirmed(context, options, `Make these changes to the stack ${name}?`);
  };
  const { action, changes, functions } = await inFlags(() =>
    deployStack(
      {
        ...{ name, options: stackOptionsOf(options, context.env), tags: tagsOf(options), mustExist },
        dryRun: options.dryRun === true,
      },
      aws,
      { ...watcherOf(context, options), confirm },
    ),
  );
  await printChange(context, options, { action, changes, functions }, () => {
    if (action === "none") return `The stack ${name} is up to date; nothing to change.\n`;
    if (options.dryRun === true) return changesText(changes, paint);
    const code = Object.values(functions).map((each) => `${each.name} has the code ${each.sha256}\n`);
    return `${action === "create" ? "Created" : "Changed"} the stack ${name}.\n${code.join("")}`;
  });
  return EXIT.done;
}
