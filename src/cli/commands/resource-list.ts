import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { limitsText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { mapped, pageFrom, printList } from "../print.ts";

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
