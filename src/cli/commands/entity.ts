import { ConflictError } from "../../domain/errors.ts";
import type { Limit } from "../../domain/limit.ts";
import type { CommandGroup, ListOptions } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { requireEntity } from "../known.ts";
import { requirePlan } from "../known-plan.ts";
import { limitsText } from "../limit-print.ts";
import { change, list, show } from "../plain-commands.ts";
import { type ListSource, mapped, pageFrom } from "../print.ts";
import { ENTITY_COLUMNS, entityText } from "../show-entity.ts";

interface EntityListOptions extends ListOptions {
  /** Of `--with-limits` and `--with-custom-limits`. */
  readonly withCustomLimits?: string;
  readonly plan?: string;
}

const THE_ENTITY = ["<id>", "the entity"] as const;

export const ENTITY_COMMANDS: CommandGroup = {
  "entity show": show({
    argument: THE_ENTITY,
    examples: ["entity show key-1", "entity show key-1 --json"],
    note: "Exit codes: 4 no such entity.",
    get: requireEntity,
    text: entityText,
  }),
  "entity delete": change({
    argument: THE_ENTITY,
    examples: ["entity delete key-1 --dry-run", "entity delete key-1 --yes"],
    note: "Exit codes: 1 the entity has children, or declined; 4 no such entity.",
    ask: async (limiter, id) => {
      await requireEntity(limiter, id);
      const [child] = await limiter.getChildren(id, { limit: 1 });
      if (child !== undefined) {
        throw new ConflictError(
          "entity_has_children",
          `Entity ${id} has children, such as ${child.id}; move or delete them first.`,
        );
      }
      return `Delete ${id} with its limits, buckets and usage?`;
    },
    planned: (_, id) => ({ id, deleted: true }),
    made: (limiter, id, by) => limiter.deleteEntity(id, by),
    text: ({ id }) => `${id} is deleted.\n`,
  }),
  "entity list": list<unknown, EntityListOptions>({
    options: (command) =>
      command
        .option(
          "--with-limits, --with-custom-limits <resource>",
          "only those with limits of their own on this resource",
        )
        .option("--plan <plan>", "only those of this plan"),
    examples: [
      "entity list",
      "entity list --plan gold",
      "entity list --with-limits gpt-4 --json",
      "entity list --max 10",
    ],
    source: async (limiter, { withCustomLimits: resource, plan: planId }) => {
      if (planId !== undefined) {
        if (resource !== undefined) throw new UsageError("--plan and --with-limits exclude each other; give one.");
        await requirePlan(limiter, planId);
      }
      if (resource === undefined) {
        return {
          page: (request) => pageFrom(limiter.listEntities(planId === undefined ? request : { ...request, planId })),
          columns: ENTITY_COLUMNS,
          empty:
            planId === undefined
              ? "There are no entities; create one with `zae-limiter entity create ID`."
              : `No entity has the plan ${planId}.`,
        };
      }
      const withLimits: ListSource<{ entityId: string; resource: string; limits: readonly Limit[] }> = {
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
      };
      return withLimits;
    },
  }),
  "entity children": list({
    argument: THE_ENTITY,
    examples: ["entity children proj-1"],
    note: "Exit codes: 4 no such entity.",
    source: async (limiter, _, id) => {
      await requireEntity(limiter, id);
      return {
        page: (request) => pageFrom(limiter.getChildren(id, request)),
        columns: ENTITY_COLUMNS,
        empty: `${id} has no children.`,
      };
    },
  }),
  "entity list-limits": list({
    argument: THE_ENTITY,
    examples: ["entity list-limits key-1"],
    source: (limiter, _, id) => ({
      page: (request) => pageFrom(limiter.listLimits(id, request)),
      columns: [
        { title: "RESOURCE", text: ({ resource }) => resource ?? "(all others)" },
        {
          title: "WITH",
          text: ({ inherit, appliesTo }) => [inherit ? "inherit" : "", appliesTo ?? ""].filter(Boolean).join(", "),
        },
        { title: "LIMITS", text: ({ limits }) => limitsText(limits), flexible: true },
      ],
      empty: `${id} has no limits of its own.`,
    }),
  }),
};
