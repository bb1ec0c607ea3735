import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { whileLocked } from "../locked-file.ts";
import { printChange } from "../print.ts";

interface TokenRemoveOptions extends GlobalOptions {
  readonly id?: string;
}

export const tokenRemove: CommandFile<TokenRemoveOptions> = {
  configure: (command) => {
    command
      .argument("<file>", "the token file")
      .argument("[id]", "the id of the token")
      .option("--id <id>", "the id of the token")
      .addHelpText("after", examples("zae-limiter token remove tokens.json --id ops"))
      .addHelpText(
        "after",
        "\nServices refuse the token within a second and end its event streams.\n\nExit codes: 4 no such token.\n",
      );
  },
  run: async (context, options, [file = "", named]) => {
    const id = named ?? options.id;
    if (id === undefined) throw new UsageError("No token is named; give --id, such as --id gateway.");
    if (named !== undefined && options.id !== undefined && named !== options.id) {
      throw new UsageError(`The id is given twice, "${named}" and "${options.id}"; give one.`);
    }
    const { findEntry, removeToken } = await import("../../server/token-file.ts");
    if (options.dryRun === true) findEntry(file, id);
    else await whileLocked(file, (real) => removeToken(real, id));
    await printChange(context, options, { id, deleted: true }, () => `Removed the token ${id} from ${file}.\n`);
    return EXIT.done;
  },
};
