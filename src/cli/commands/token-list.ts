import { type CommandFile, examples, type ListOptions } from "../command.ts";
import { printList } from "../print.ts";

export const tokenList: CommandFile<ListOptions> = {
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
