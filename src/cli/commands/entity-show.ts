import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { requireEntity } from "../known.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { entityText } from "../show-entity.ts";

export const entityShow: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "the entity")
      .addHelpText("after", examples("zae-limiter entity show key-1", "zae-limiter entity show key-1 --json"))
      .addHelpText("after", "\nExit codes: 4 no such entity.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const entity = await requireEntity(limiter, id);
      await printValue(context, options, entity, () => entityText(entity));
      return EXIT.done;
    }),
};
