import { deleteStack } from "../../entry/stack.ts";
import { confirmed } from "../ask.ts";
import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { printChange } from "../print.ts";
import { awsConfigOf, nameOption, type StackCommandOptions, stackNameOf, watcherOf } from "../stack-options.ts";

interface DeleteOptions extends StackCommandOptions {
  readonly deleteTable?: boolean;
}

export const deleteCommand: CommandFile<DeleteOptions> = {
  configure: (command) => {
    nameOption(command)
      .option("--delete-table", "delete the table and the archive too, after a second confirmation")
      .addHelpText(
        "after",
        examples("zae-limiter delete -n limits", "zae-limiter delete -n limits --delete-table --dry-run"),
      )
      .addHelpText(
        "after",
        "\nThe table and the archive of audit events stay, unless --delete-table is given.\n" +
          "\nExit codes: 1 declined, protected against deletion, or not a zae-limiter stack; 3 AWS failed; 4 no such stack.\n",
      );
  },
  run: async (context, options) => {
    const name = stackNameOf(options, context, "delete");
    const { deleted, kept } = await deleteStack(
      { name, deleteTable: options.deleteTable === true, dryRun: options.dryRun === true },
      awsConfigOf(options),
      { ...watcherOf(context, options), confirm: (question) => confirmed(context, options, question) },
    );
    await printChange(context, options, { name, deleted: options.dryRun === true || deleted, kept }, () =>
      [
        `${options.dryRun === true ? "Would delete" : "Deleted"} the stack ${name}.\n`,
        ...kept.map((each) => `Kept: ${each}\n`),
      ].join(""),
    );
    return EXIT.done;
  },
};
