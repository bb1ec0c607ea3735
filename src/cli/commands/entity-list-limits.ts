import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { limitsText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { pageFrom, printList } from "../print.ts";

export const entityListLimits: CommandFile<ListOptions> = {
  configure: (command) => {
    listOptions(command.argument("<id>", "the entity")).addHelpText(
      "after",
      examples("zae-limiter entity list-limits key-1"),
    );
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, (limiter) =>
      printList(context, options, {
        page: (request) => pageFrom(limiter.listLimits(id, request)),
        columns: [
          { title: "RESOURCE", text: ({ resource }) => resource ?? "(all others)" },
          {
            title: "WITH",
            text: ({ inherit, appliesTo }) => [inherit ? "inherit" : "", appliesTo ?? ""].filter(Boolean).join(", "),
          },
          { title: "LIMITS", text: ({ limits }) => limitsText(limits), flexible: true },
        ],
        empty: `${id} has no limits of its own.`,
      }),
    ),
};
