import { LimiterError } from "../../domain/errors.ts";
import { listStacks } from "../../infra/inspect-stack.ts";
import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { printList } from "../print.ts";
import { awsConfigOf } from "../stack-options.ts";
import { besidesStacks } from "../stack-words.ts";

export const list: CommandFile<ListOptions> = {
  configure: (command) => {
    listOptions(command)
      .addHelpText("after", examples("zae-limiter list --region eu-west-1", "zae-limiter list --json"))
      .addHelpText("after", "\nLists stacks with the tag ManagedBy=zae-limiter, including those of the original.\n");
  },
  run: async (context, options) => {
    const all = await listStacks(awsConfigOf(options)).catch((error: unknown) => {
      if (!(error instanceof LimiterError)) throw error;
      throw new LimiterError(error.code, `${error.message} ${besidesStacks("list")}`, { cause: error });
    });
    return printList(context, options, {
      page: async ({ limit, cursor }) => {
        const from = cursor === undefined ? 0 : all.findIndex(({ name }) => name > cursor);
        const items = from === -1 ? [] : all.slice(from, from + limit);
        const isMore = from !== -1 && from + limit < all.length;
        return { items, ...(isMore ? { cursor: items.at(-1)?.name } : {}) };
      },
      columns: [
        { title: "NAME", text: ({ name }) => name },
        { title: "STATUS", text: ({ status }) => status },
        { title: "VERSION", text: ({ version }) => version ?? "" },
        { title: "SCHEMA", text: ({ schemaVersion }) => schemaVersion ?? "" },
        { title: "CREATED", text: ({ createdAtMs }) => dayOf(createdAtMs) },
      ],
      empty: `No stack in this region. ${besidesStacks("list")}`,
    });
  },
};

function dayOf(atMs: number | undefined): string {
  return atMs === undefined ? "" : new Date(atMs).toISOString().slice(0, 10);
}
