import type { Scope } from "../../server/token-entry.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { whileLocked } from "../locked-file.ts";
import { printChange } from "../print.ts";
import { durationMs } from "../values.ts";

interface TokenAddOptions extends GlobalOptions {
  readonly id?: string;
  readonly namespaces?: string;
  readonly scopes?: string;
  readonly expiresIn?: string;
}

export const tokenAdd: CommandFile<TokenAddOptions> = {
  configure: (command) => {
    command
      .argument("<file>", "the token file; made where there is none")
      .option("--id <id>", "whom the audit trail names")
      .option("--namespaces <names>", "with commas between, or '*' for all and to make and remove them")
      .option("--scopes <scopes>", "with commas between: acquire, read, admin")
      .option("--expires-in <duration>", "refused from then on, such as 30d; default: never")
      .addHelpText(
        "after",
        examples("zae-limiter token add tokens.json --id gateway --namespaces default --scopes acquire"),
      )
      .addHelpText(
        "after",
        "\nThe token is printed once; the file has only its hash. Exit codes: 1 the id is there.\n",
      );
  },
  run: async (context, options, [file = ""]) => {
    const { id, namespaces, scopes, expiresIn } = options;
    if (id === undefined) throw new UsageError("Whose token is it? Give --id, such as --id gateway.");
    if (namespaces === undefined) throw new UsageError("Give --namespaces, such as --namespaces default, or '*'.");
    if (scopes === undefined) throw new UsageError("Give --scopes, such as --scopes acquire,read.");
    const about = {
      id,
      namespaces: namespaces === "*" ? ("*" as const) : namespaces.split(","),
      scopes: scopes.split(",") as Scope[],
      ...(expiresIn === undefined ? {} : { expiresAtMs: Date.now() + durationMs(expiresIn, "--expires-in") }),
    };
    const { addToken, newToken, planToken } = await import("../../server/token-file.ts");
    const token = newToken();
    if (options.dryRun === true) planToken(file, token, about);
    else await whileLocked(file, (real) => addToken(real, token, about));
    const shown = options.dryRun === true ? about : { ...about, token };
    await printChange(context, options, shown, () =>
      options.dryRun === true ? `A token ${id} in ${file}.\n` : `${token}\n`,
    );
    if (options.json !== true && options.quiet !== true && options.dryRun !== true) {
      context.output.note(`This is the token of ${id}; it is not shown again.\n`);
    }
    return EXIT.done;
  },
};
