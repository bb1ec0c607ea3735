import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { requirePlan } from "../known-plan.ts";
import { limitsText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { mapped, pageFrom, printList } from "../print.ts";
import { ENTITY_COLUMNS } from "../show-entity.ts";

interface EntityListOptions extends ListOptions {
  /** Of `--with-limits` and `--with-custom-limits`. */
  readonly withCustomLimits?: string;
  readonly plan?: string;
}

export const entityList: CommandFile<EntityListOptions> = {
  configure: (command) => {
    listOptions(command)
      .option("--with-limits, --with-custom-limits <resource>", "only those with limits of their own on this resource")
      .option("--plan <plan>", "only those of this plan")
      .addHelpText(
        "after",
        examples(
          "zae-limiter entity list",
          "zae-limiter entity list --plan gold",
          "zae-limiter entity list --with-limits gpt-4 --json",
          "zae-limiter entity list --max 10",
        ),
      );
  },
  run: (context, options) =>
    onStore(context, options, async (limiter) => {
      const { withCustomLimits: resource, plan: planId } = options;
      if (planId !== undefined) {
        if (resource !== undefined) throw new UsageError("--plan and --with-limits exclude each other; give one.");
        await requirePlan(limiter, planId);
        return printList(context, options, {
          page: (request) => pageFrom(limiter.listEntities({ ...request, planId })),
          columns: ENTITY_COLUMNS,
          empty: `No entity has the plan ${planId}.`,
        });
      }
      if (resource === undefined) {
        return printList(context, options, {
          page: (request) => pageFrom(limiter.listEntities(request)),
          columns: ENTITY_COLUMNS,
          empty: "There are no entities; create one with `zae-limiter entity create ID`.",
        });
      }
      return printList(context, options, {
        page: async (request) =>
          mapped(await pageFrom(limiter.listEntitiesWithLimits(resource, request)), async (entityId) => ({
            entityId,
            resource,
            limits: await limiter.getLimits(entityId, { resource }),
          })),
        columns: [
          { title: "ENTITY", text: ({ entityId }) => entityId },
          { title: "RESOURCE", text: (item) => item.resource },
          { title: "LIMITS", text: ({ limits }) => limitsText(limits), flexible: true },
        ],
        empty: `No entity has limits of its own on ${resource}.`,
      });
    }),
};
