import type { RateLimiter } from "../../entry/rate-limiter.ts";
import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { limitsText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { type ListPart, mapped, pageFrom, printList } from "../print.ts";

interface ResourceListOptions extends ListOptions {
  readonly withEntityLimits?: boolean;
}

export const resourceList: CommandFile<ResourceListOptions> = {
  configure: (command) => {
    listOptions(command)
      .option("--with-entity-limits", "those on which entities have limits of their own")
      .addHelpText("after", examples("zae-limiter resource list", "zae-limiter resource list --with-entity-limits"));
  },
  run: (context, options) =>
    onStore(context, options, (limiter) => {
      const isWithEntities = options.withEntityLimits === true;
      return printList(context, options, {
        page: async (request) =>
          mapped(
            isWithEntities ? await withEntityLimits(limiter, request) : await pageFrom(limiter.listResources(request)),
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

/** Whoever has limits of its own was given them by name; resources are read from there, in order. */
async function withEntityLimits(
  limiter: RateLimiter,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string },
): Promise<ListPart<string>> {
  const found = new Set<string>();
  for await (const resource of limiter.listResources()) {
    if ((await limiter.listEntitiesWithLimits(resource, { limit: 1 })).length > 0) found.add(resource);
  }
  for await (const { id } of limiter.listEntities()) {
    for await (const { resource } of limiter.listLimits(id)) if (resource !== undefined) found.add(resource);
  }
  const rest = [...found].sort().filter((resource) => cursor === undefined || resource > cursor);
  const items = rest.slice(0, limit);
  return rest.length > limit ? { items, cursor: items.at(-1) } : { items };
}
