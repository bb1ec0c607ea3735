import type { CommandGroup } from "../command.ts";
import { limitsText, tokensText } from "../limit-text.ts";
import { list, show } from "../plain-commands.ts";
import { mapped, pageFrom } from "../print.ts";

export const resourceList = list({
  options: [["--with-entity-limits", "only those on which entities have limits of their own"]],
  examples: ["resource list", "resource list --with-entity-limits"],
  read: ({ withEntityLimits }) => withEntityLimits === true,
  source: (limiter, isWithEntities) => ({
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
  }),
});

export const RESOURCE_COMMANDS: CommandGroup = {
  "resource list": resourceList,
  "resource capacity": show({
    arguments: [
      ["<resource>", "the resource"],
      ["<limit>", "the limit"],
    ],
    examples: ["resource capacity gpt-4 tpm"],
    read: (_, [resource = "", limit = ""]) => ({ resource, limit }),
    isLong: true,
    get: (limiter, { resource, limit }) => limiter.resourceCapacity(resource, limit),
    text: ({ totalAvailable, totalCapacity, utilizationPct, entities }, view, { resource, limit }) => {
      if (entities.length === 0) return `No ${limit} has been taken on ${resource} yet.\n`;
      const left = `${tokensText(limit, totalAvailable)} of ${tokensText(limit, totalCapacity)} left`;
      const table = view.table(
        [
          { title: "ENTITY", text: ({ entityId }) => entityId },
          { title: "AVAILABLE", text: ({ available }) => tokensText(limit, available), right: true },
          { title: "CAPACITY", text: ({ capacity }) => tokensText(limit, capacity), right: true },
          { title: "USED", text: (entity) => `${Math.round(entity.utilizationPct)}%`, right: true },
          { title: "WITHIN", text: ({ within }) => within ?? "" },
        ],
        entities,
      );
      return `${limit} on ${resource}: ${left}, ${Math.round(utilizationPct)}% used.\n\n${table}`;
    },
  }),
};
