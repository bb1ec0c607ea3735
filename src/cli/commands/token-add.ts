import type { Scope } from "../../server/token-entry.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { whileLocked } from "../locked-file.ts";
import { printChange } from "../print.ts";
import { durationMs, leavePercentOf } from "../values.ts";

interface TokenAddOptions extends GlobalOptions {
  readonly id?: string;
  readonly namespaces?: string;
  readonly scopes?: string;
  readonly expiresIn?: string;
  readonly leavePercent?: string;
}

export const tokenAdd: CommandFile<TokenAddOptions> = {
  configure: (command) => {
    command
      .argument("<file>", "the token file; created if missing")
      .option("--id <id>", "the caller's name in the audit log")
      .option("--namespaces <names>", "names with commas, or '*' for all namespaces and to create and delete them")
      .option("--scopes <scopes>", "acquire, read, admin, with commas")
      .option("--expires-in <duration>", "lifetime, such as 30d; default: unlimited")
      .option("--leave-percent <n>", "its requests leave at least this many percent of every limit, 0 to 99")
      .addHelpText(
        "after",
        examples("zae-limiter token add tokens.json --id gateway --namespaces default --scopes acquire"),
      )
      .addHelpText("after", "\nThe token is printed once; the file has only its hash. Exit codes: 1 the id exists.\n");
  },
  run: async (context, options, [file = ""]) => {
    const { id, namespaces, scopes, expiresIn } = options;
    if (id === undefined) throw new UsageError("The token needs an id; give --id, such as --id gateway.");
    if (namespaces === undefined) throw new UsageError("Give --namespaces, such as --namespaces default, or '*'.");
    if (scopes === undefined) throw new UsageError("Give --scopes, such as --scopes acquire,read.");
    const about = {
      id,
      namespaces: namespaces === "*" ? ("*" as const) : namespaces.split(","),
      scopes: scopes.split(",") as Scope[],
      ...(expiresIn === undefined ? {} : { expiresAtMs: Date.now() + durationMs(expiresIn, "--expires-in") }),
      ...leavePercentOf(options.leavePercent),
    };
    const { addToken, newToken, planToken } = await import("../../server/token-file.ts");
    const token = newToken();
    if (options.dryRun === true) planToken(file, token, about);
    else await whileLocked(file, (real) => addToken(real, token, about));
    const shown = options.dryRun === true ? about : { ...about, token };
    await printChange(context, options, shown, () =>
      options.dryRun === true ? `Would add the token ${id} to ${file}.\n` : `${token}\n`,
    );
    if (options.json !== true && options.quiet !== true && options.dryRun !== true) {
      context.output.note(`This is the token ${id}. It is not shown again.\n`);
    }
    return EXIT.done;
  },
};
