import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { onStore } from "../on-store.ts";
import { pageFrom, printList } from "../print.ts";
import { NAMESPACE_COLUMNS } from "../show-namespace.ts";

export const namespaceOrphans: CommandFile<ListOptions> = {
  configure: (command) => {
    listOptions(command).addHelpText("after", examples("zae-limiter namespace orphans"));
  },
  run: (context, options) =>
    onStore(context, options, (limiter) =>
      printList(context, options, {
        page: (request) => pageFrom(limiter.listOrphanNamespaces(request)),
        columns: NAMESPACE_COLUMNS,
        empty: "No deleted namespace has data left.",
      }),
    ),
};
