import {
  type CommandFile,
  type CommandGroup,
  examples,
  type GlobalOptions,
  type ListOptions,
  listOptions,
} from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { limitsText, tokensText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { mapped, pageFrom, printList, printValue, unlessInterrupted } from "../print.ts";
import { tableOf } from "../table.ts";

interface ResourceListOptions extends ListOptions {
  readonly withEntityLimits?: boolean;
}

export const resourceList: CommandFile<ResourceListOptions> = {
  configure: (command) => {
    listOptions(command)
      .option("--with-entity-limits", "only those on which entities have limits of their own")
      .addHelpText("after", examples("zae-limiter resource list", "zae-limiter resource list --with-entity-limits"));
  },
  run: (context, options) =>
    onStore(context, options, (limiter) => {
      const isWithEntities = options.withEntityLimits === true;
      return printList(context, options, {
        page: async (request) =>
          mapped(
            await pageFrom(
              isWithEntities ? limiter.listResourcesWithEntityLimits(request) : limiter.listResources(request),
            ),
            async (resource) => ({ resource, limits: await limiter.getResourceDefaults(resource) }),
          ),
        columns: [
          { title: "RESOURCE", text: ({ resource }) => resource },
          { title: "DEFAULTS", text: ({ limits }) => limitsText(limits) || "(none)", flexible: true },
        ],
        empty: isWithEntities
          ? "No entity has limits of its own on any resource."
          : "No resource has defaults; set some with `zae-limiter resource set-defaults`.",
      });
    }),
};

const resourceCapacity: CommandFile<GlobalOptions> = {
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

export const RESOURCE_COMMANDS: CommandGroup = {
  "resource list": resourceList,
  "resource capacity": resourceCapacity,
};
