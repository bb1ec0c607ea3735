import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import type { Scope } from "../../server/token-entry.ts";
import { type CommandFile, type CommandGroup, examples, type GlobalOptions, type ListOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { printChange, printList } from "../print.ts";
import { durationMs, leavePercentOf } from "../values.ts";

interface TokenAddOptions extends GlobalOptions {
  readonly id?: string;
  readonly namespaces?: string;
  readonly scopes?: string;
  readonly expiresIn?: string;
  readonly leavePercent?: string;
}

const tokenAdd: CommandFile<TokenAddOptions> = {
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

const tokenList: CommandFile<ListOptions> = {
  configure: (command) => {
    command.argument("<file>", "the token file").addHelpText("after", examples("zae-limiter token list tokens.json"));
  },
  run: async (context, options, [file = ""]) => {
    const { readTokens } = await import("../../server/token-source.ts");
    const items = readTokens(file).map(({ sha256: _, ...shown }) => shown);
    return printList(context, options, {
      page: async () => ({ items }),
      columns: [
        { title: "ID", text: ({ id }) => id },
        { title: "NAMESPACES", text: ({ namespaces }) => (namespaces === "*" ? "*" : namespaces.join(", ")) },
        { title: "SCOPES", text: ({ scopes }) => scopes.join(", ") },
        {
          title: "EXPIRES",
          text: ({ expiresAtMs }) => (expiresAtMs === undefined ? "never" : new Date(expiresAtMs).toISOString()),
        },
        { title: "LEAVES", text: ({ leavePercent = 0 }) => (leavePercent === 0 ? "" : `${leavePercent} %`) },
      ],
      empty: "There are no tokens.",
    });
  },
};

interface TokenRemoveOptions extends GlobalOptions {
  readonly id?: string;
}

const tokenRemove: CommandFile<TokenRemoveOptions> = {
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

/**
 * Reads and changes a file while no other process of this command does. `work` gets the file itself where a link was named, so that
 * the link stays.
 */
export async function whileLocked<Value>(file: string, work: (file: string) => Value): Promise<Value> {
  const { locked } = await import("../../local/file-lock.ts");
  const real = existsSync(file) ? realpathSync(file) : file;
  mkdirSync(dirname(real), { recursive: true });
  const unlock = await locked(`${real}.lock`);
  try {
    return work(real);
  } finally {
    unlock();
  }
}

export const TOKEN_COMMANDS: CommandGroup = {
  "token add": tokenAdd,
  "token list": tokenList,
  "token remove": tokenRemove,
};
