import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { onStore } from "../on-store.ts";
import { pageFrom, printList } from "../print.ts";
import { NAMESPACE_COLUMNS } from "../show-namespace.ts";

export const namespaceList: CommandFile<ListOptions> = {
  configure: (command) => {
    listOptions(command).addHelpText("after", examples("zae-limiter namespace list"));
  },
  run: (context, options) =>
    onStore(context, options, (limiter) =>
      printList(context, options, {
        page: (request) => pageFrom(limiter.listNamespaces(request)),
        columns: NAMESPACE_COLUMNS,
        empty: "There are no namespaces.",
      }),
    ),
};
