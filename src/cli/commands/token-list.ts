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
        { title: "id", text: ({ id }) => id },
        { title: "namespaces", text: ({ namespaces }) => (namespaces === "*" ? "*" : namespaces.join(", ")) },
        { title: "scopes", text: ({ scopes }) => scopes.join(", ") },
        {
          title: "expires",
          text: ({ expiresAtMs }) => (expiresAtMs === undefined ? "never" : new Date(expiresAtMs).toISOString()),
        },
      ],
      empty: "There are no tokens.",
    });
  },
};
