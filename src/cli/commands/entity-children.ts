import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { requireEntity } from "../known.ts";
import { onStore } from "../on-store.ts";
import { pageFrom, printList } from "../print.ts";
import { ENTITY_COLUMNS } from "../show-entity.ts";

export const entityChildren: CommandFile<ListOptions> = {
  configure: (command) => {
    listOptions(command.argument("<id>", "the entity"))
      .addHelpText("after", examples("zae-limiter entity children proj-1"))
      .addHelpText("after", "\nExit codes: 4 no such entity.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      await requireEntity(limiter, id);
      return printList(context, options, {
        page: (request) => pageFrom(limiter.getChildren(id, request)),
        columns: ENTITY_COLUMNS,
        empty: `${id} has no children.`,
      });
    }),
};
