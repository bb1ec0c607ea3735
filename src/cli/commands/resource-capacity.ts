import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { tokensText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { printValue, unlessInterrupted } from "../print.ts";
import { tableOf } from "../table.ts";

export const resourceCapacity: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<resource>", "the resource")
      .argument("<limit>", "the limit")
      .addHelpText("after", examples("zae-limiter resource capacity gpt-4 tpm"));
  },
  run: (context, options, [resource = "", limit = ""]) =>
    onStore(context, options, async (limiter) => {
      const capacity = await unlessInterrupted(context, limiter.resourceCapacity(resource, limit));
      const draw = tableOf<(typeof capacity.entities)[number]>(context, options, [
        { title: "ENTITY", text: ({ entityId }) => entityId },
        { title: "AVAILABLE", text: ({ available }) => tokensText(limit, available), right: true },
        { title: "CAPACITY", text: (entity) => tokensText(limit, entity.capacity), right: true },
        { title: "USED", text: ({ utilizationPct }) => `${Math.round(utilizationPct)}%`, right: true },
        { title: "WITHIN", text: ({ within }) => within ?? "" },
      ]);
      await printValue(context, options, capacity, () => {
        const { totalAvailable, totalCapacity, utilizationPct, entities } = capacity;
        if (entities.length === 0) return `No ${limit} has been taken on ${resource} yet.\n`;
        const total = `${limit} on ${resource}: ${tokensText(limit, totalAvailable)} of ${tokensText(limit, totalCapacity)} left, ${Math.round(utilizationPct)}% used.`;
        return `${total}\n\n${draw(entities)}`;
      });
      return EXIT.done;
    }),
};
