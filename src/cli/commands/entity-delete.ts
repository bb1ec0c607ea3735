import { ConflictError } from "../../domain/errors.ts";
import { confirmed } from "../ask.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { requireEntity } from "../known.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";

export const entityDelete: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "the entity")
      .addHelpText(
        "after",
        examples("zae-limiter entity delete key-1 --dry-run", "zae-limiter entity delete key-1 --yes"),
      )
      .addHelpText("after", "\nExit codes: 1 the entity has children, or declined; 4 no such entity.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      await requireEntity(limiter, id);
      const [child] = await limiter.getChildren(id, { limit: 1 });
      if (child !== undefined) {
        throw new ConflictError(
          "entity_has_children",
          `Entity ${id} has children, such as ${child.id}; move or delete them first.`,
        );
      }
      await confirmed(context, options, `Delete ${id} with its limits, buckets and usage?`);
      if (options.dryRun !== true) await limiter.deleteEntity(id, principalOf(context, options));
      await printChange(context, options, { id, deleted: true }, () => `${id} is deleted.\n`);
      return EXIT.done;
    }),
};
