import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { onStore } from "../on-store.ts";
import { pageFrom, printList } from "../print.ts";
import { PLAN_COLUMNS } from "../show-plan.ts";

export const planList: CommandFile<ListOptions> = {
  configure: (command) => {
    listOptions(command).addHelpText("after", examples("zae-limiter plan list", "zae-limiter plan list --json"));
  },
  run: (context, options) =>
    onStore(context, options, (limiter) =>
      printList(context, options, {
        page: (request) => pageFrom(limiter.listPlans(request)),
        columns: PLAN_COLUMNS,
        empty: "There are no plans; create one with `zae-limiter plan create ID`.",
      }),
    ),
};
