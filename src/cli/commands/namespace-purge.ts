import { ConflictError } from "../../domain/errors.ts";
import { confirmed } from "../ask.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { orphanMissing, orphanOf } from "../known-namespace.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { progressOf } from "../progress.ts";

export const namespacePurge: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "its id, from `namespace orphans`")
      .addHelpText("after", examples("zae-limiter namespace orphans", "zae-limiter namespace purge --help"))
      .addHelpText("after", "\nExit codes: 1 it is active, or declined; 4 no deleted namespace has that id.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const orphan = await orphanOf(limiter, id);
      if (orphan === undefined) {
        for await (const namespace of limiter.listNamespaces()) {
          if (namespace.id !== id) continue;
          const message = `The namespace ${namespace.name} (${id}) is active; delete it before purging.`;
          throw new ConflictError("namespace_active", message);
        }
        throw orphanMissing(id);
      }
      await confirmed(context, options, `Delete all data of ${orphan.name} (${id}) permanently?`);
      if (options.dryRun === true) {
        await printChange(
          context,
          options,
          { id, records: 0 },
          () => `All data of ${orphan.name} (${id}) would be deleted.\n`,
        );
        return EXIT.done;
      }
      const progress = progressOf(context, options);
      const onProgress = (records: number) => progress.tell(`${records} records removed`);
      const { records } = await limiter.purgeNamespace(id, { onProgress, ...principalOf(context, options) });
      progress.end();
      await printChange(
        context,
        options,
        { id, records },
        () => `Purged ${orphan.name} (${id}): ${records} records deleted.\n`,
      );
      return EXIT.done;
    }),
};
