import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import { given } from "../../domain/names/given.ts";
import type { Scope } from "../../server/tokens.ts";
import { type CommandGroup, command } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { printChange, printList } from "../print.ts";
import { durationMs, leavePercentOf } from "../values.ts";

const tokenAdd = command({
  arguments: [["<file>", "the token file; created if missing"]],
  options: [
    ["--id <id>", "the caller's name in the audit log"],
    ["--namespaces <names>", "names with commas, or '*' for all namespaces and to create and delete them"],
    ["--scopes <scopes>", "acquire, read, admin, refund, proxy, with commas"],
    ["--expires-in <duration>", "lifetime, such as 30d; default: unlimited"],
    ["--entity <id>", "the entity that calls through the proxy are charged to; default: the id"],
    ["--leave-percent <n>", "its requests leave at least this many percent of every limit, 0 to 99"],
  ],
  examples: ["token add tokens.json --id gateway --namespaces default --scopes acquire"],
  notes: ["The token is printed once; the file has only its hash. Exit codes: 1 the id exists."],
  run: async (context, options, [file = ""]) => {
    const { id, namespaces, scopes, expiresIn } = options;
    if (id === undefined) throw new UsageError("The token needs an id; give --id, such as --id gateway.");
    if (namespaces === undefined) throw new UsageError("Give --namespaces, such as --namespaces default, or '*'.");
    if (scopes === undefined) throw new UsageError("Give --scopes, such as --scopes acquire,read.");
    const { json, quiet, dryRun = false } = context.options;
    const about = given({
      id,
      namespaces: namespaces === "*" ? ("*" as const) : namespaces.split(","),
      scopes: scopes.split(",") as Scope[],
      expiresAtMs: expiresIn === undefined ? undefined : Date.now() + durationMs(expiresIn, "--expires-in"),
      leavePercent: leavePercentOf(options.leavePercent),
      entityId: options.entity,
    });
    const { addToken, newToken, planToken } = await import("../../server/token-file.ts");
    const token = newToken();
    if (dryRun) planToken(file, token, about);
    else await whileLocked(file, (real) => addToken(real, token, about));
    const text = () => (dryRun ? `Would add the token ${id} to ${file}.\n` : `${token}\n`);
    await printChange(context, dryRun ? about : { ...about, token }, text);
    if (json !== true && quiet !== true && !dryRun) {
      context.output.note(`This is the token ${id}. It is not shown again.\n`);
    }
    return EXIT.done;
  },
});

const tokenList = command({
  arguments: [["<file>", "the token file"]],
  examples: ["token list tokens.json"],
  run: async (context, _, [file = ""]) => {
    const { readTokens } = await import("../../server/tokens.ts");
    const items = readTokens(file).map(({ sha256: _, ...shown }) => shown);
    return printList(context, {
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
});

const tokenRemove = command({
  arguments: [
    ["<file>", "the token file"],
    ["[id]", "the id of the token"],
  ],
  options: [["--id <id>", "the id of the token"]],
  examples: ["token remove tokens.json --id ops"],
  notes: ["Services refuse the token within a second and end its event streams.\n\nExit codes: 4 no such token."],
  run: async (context, options, [file = "", named]) => {
    const id = named ?? options.id;
    if (id === undefined) throw new UsageError("No token is named; give --id, such as --id gateway.");
    if (named !== undefined && options.id !== undefined && named !== options.id) {
      throw new UsageError(`The id is given twice, "${named}" and "${options.id}"; give one.`);
    }
    const { findEntry, removeToken } = await import("../../server/token-file.ts");
    if (context.options.dryRun === true) findEntry(file, id);
    else await whileLocked(file, (real) => removeToken(real, id));
    return printChange(context, { id, deleted: true }, () => `Removed the token ${id} from ${file}.\n`);
  },
});

/**
 * Reads and changes a file while no other process of this command does. `work` gets the file itself where a link was named, so that
 * the link stays.
 */
export async function whileLocked<Value>(file: string, work: (file: string) => Value): Promise<Value> {
  const { locked } = await import("../../local/kept-folder.ts");
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
