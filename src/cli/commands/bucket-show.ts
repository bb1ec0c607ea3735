import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { definitionText, type ExplainedRow, rowsOf, slotLines, sourceText } from "../explain-text.ts";
import { tokensText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { ownLevel } from "../own-level.ts";
import { printValue } from "../print.ts";
import { tableOf } from "../table.ts";

export const bucketShow: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<entity>", "the entity")
      .argument("<resource>", "the resource")
      .addHelpText("after", examples("zae-limiter bucket show key-1 gpt-4"))
      .addHelpText("after", "\nExit codes: 4 no limits apply.\n");
  },
  run: (context, options, [entityId = "", resource = ""]) =>
    onStore(context, options, async (limiter) => {
      const own = await ownLevel(limiter, { entityId, resource });
      const draw = tableOf<ExplainedRow>(context, options, [
        { title: "LIMIT", text: ({ explained }) => definitionText(explained), flexible: true },
        { title: "AVAILABLE", text: ({ explained }) => tokensText(explained.limit, explained.available), right: true },
        { title: "CAPACITY", text: ({ explained }) => tokensText(explained.limit, explained.capacity), right: true },
        { title: "FROM", text: ({ source }) => sourceText(source) },
      ]);
      await printValue(context, options, { resource, ...own }, () => `${draw(rowsOf([own]))}${slotLines([own])}`);
      return EXIT.done;
    }),
};
