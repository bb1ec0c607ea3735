import { checkPatch, type EntityPatch, newEntity, patched } from "../../domain/config/entity.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { ConflictError, ExistsError, ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { Entity } from "../../entry/index.ts";
import type { CommandGroup, OptionsOf } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { entityOf, requireEntity, requireParent, requirePlan } from "../known.ts";
import { limitsText } from "../limit-text.ts";
import {
  CREATE_NAME,
  CREATE_OPTIONS,
  ENTITY_COLUMNS,
  entityText,
  metadataAfter,
  readAndWrite,
  UPDATE_NAME,
  UPDATE_OPTIONS,
} from "../named-records.ts";
import type { CommandLimiter } from "../on-store.ts";
import { change, list, show } from "../plain-commands.ts";
import { type ListSource, mapped, pageFrom } from "../print.ts";
import { countOf, pairsOf } from "../values.ts";

const entityCreate = change({
  arguments: [["<id>", "letters, digits and _ . - : @"]],
  options: [
    CREATE_NAME,
    ["--parent <id>", "the parent, charged too unless --no-cascade"],
    ["--plan <plan>", "its limits apply where the entity has none of its own"],
    ["--cascade", "charge the parent too; the default with --parent"],
    ["--no-cascade", "do not charge the parent"],
    ...CREATE_OPTIONS,
  ],
  examples: ["entity create team-a --name 'Team A' --plan gold", "entity create key-2 --parent proj-1 --cascade"],
  notes: ["Exit codes: 1 the entity exists, without --if-absent, 4 no such parent or plan."],
  read: ({ displayName: name, parent: parentId, plan: planId, cascade, meta, ifAbsent }, [id = ""]) => {
    const metadata = meta === undefined ? undefined : pairsOf(meta, "--meta");
    const fields = given({ id, name, parentId, planId, cascade, metadata });
    return { id, fields, planned: newEntity(fields, Date.now()), isEnsured: ifAbsent === true };
  },
  plan: async (limiter, { id, fields, planned, isEnsured }) => {
    const existing = await entityOf(limiter, id);
    if (existing !== undefined && isEnsured) return existing;
    await requireReferences(limiter, fields);
    if (existing === undefined) return planned;
    throw new ExistsError(
      "entity_exists",
      `Entity ${id} exists already; change it with \`zae-limiter entity update\`, or pass --if-absent to leave it unchanged.`,
    );
  },
  make: async (limiter, { id, fields, isEnsured }, by) => {
    const existing = isEnsured ? await entityOf(limiter, id) : undefined;
    if (existing !== undefined) return existing;
    await requireReferences(limiter, fields);
    return isEnsured ? limiter.ensureEntity(fields, by) : limiter.createEntity(fields, by);
  },
  text: entityText,
});

/** Throws if the parent or the plan is missing. */
async function requireReferences(
  limiter: CommandLimiter,
  { parentId, planId }: Pick<EntityPatch, "parentId" | "planId">,
): Promise<void> {
  if (typeof parentId === "string") await requireParent(limiter, parentId);
  if (typeof planId === "string") await requirePlan(limiter, planId);
}

export const entityUpdate = change({
  arguments: [["<id>", "the entity"]],
  options: [
    UPDATE_NAME,
    ["--parent <id>", "the new parent"],
    ["--no-parent", "remove the parent"],
    ["--plan <plan|none>", "the new plan, or none"],
    ["--cascade", "charge the parent too"],
    ["--no-cascade", "do not charge the parent"],
    ...UPDATE_OPTIONS,
    ["--if-version <n>", "only if this is still its version"],
  ],
  examples: [
    "entity update key-1 --name 'Build server' --meta owner=ops",
    "entity update key-1 --plan gold",
    "entity update key-1 --no-cascade --dry-run",
  ],
  notes: ["Exit codes: 1 it was changed in the meantime, 4 no such entity, parent or plan."],
  read: (options, [id = ""]) => {
    const { displayName: name, parent, plan, cascade, meta, unsetMeta, ifVersion } = options;
    const version = ifVersion === undefined ? undefined : countOf(ifVersion, "--if-version");
    const parentId = typeof parent === "boolean" ? null : parent;
    const patch: EntityPatch = given({ name, parentId, planId: plan === "none" ? null : plan, cascade });
    if (meta !== undefined) pairsOf(meta, "--meta");
    if (Object.keys(patch).length === 0 && meta === undefined && unsetMeta === undefined) {
      throw new UsageError(
        "No change is given; give --name, --parent, --plan, --cascade, --meta or another option of `entity update --help`.",
      );
    }
    return { id, patch, version, options };
  },
  before: (limiter, { patch }) => requireReferences(limiter, patch),
  plan: async (limiter, { id, patch, version, options }) => {
    const before = await requireAtVersion(limiter, id, version);
    if (typeof patch.parentId === "string") await requireNoCycle(limiter, id, patch.parentId);
    return patched(before, checkPatch(id, withMetadata(patch, before, options)), Date.now());
  },
  make: (limiter, { id, patch, version, options }, by) =>
    readAndWrite(
      version === undefined ? "entity_changed" : undefined,
      () => requireAtVersion(limiter, id, version),
      (before) => limiter.updateEntity(id, withMetadata(patch, before, options), { version: before.version, ...by }),
    ),
  text: entityText,
});

function withMetadata(patch: EntityPatch, before: Entity, options: OptionsOf<typeof UPDATE_OPTIONS>): EntityPatch {
  return given({ ...patch, metadata: metadataAfter(before, options) });
}

async function requireAtVersion(limiter: CommandLimiter, id: string, wanted: number | undefined): Promise<Entity> {
  const entity = await requireEntity(limiter, id);
  const { version } = entity;
  if (wanted === undefined || wanted === version) return entity;
  throw new ConflictError(
    "entity_changed",
    `Entity ${id} is at version ${version}, not ${wanted}: it was changed in the meantime. Show it again before you change it.`,
  );
}

/** Throws if the parent is a descendant, which the store would refuse. */
async function requireNoCycle(limiter: CommandLimiter, id: string, parentId: string): Promise<void> {
  const path = [id];
  for (
    let above: string | undefined = parentId;
    above !== undefined;
    above = (await limiter.getEntity(above)).parentId
  ) {
    path.push(above);
    if (above === id) {
      throw new ValidationError(
        "entity_cycle",
        `${id} cannot be its own ancestor: ${path.join(" -> ")}. Choose another parent.`,
      );
    }
  }
}

const THE_ENTITY = [["<id>", "the entity"]] as const;

export const ENTITY_COMMANDS: CommandGroup = {
  "entity create": entityCreate,
  "entity update": entityUpdate,
  "entity show": show({
    arguments: THE_ENTITY,
    examples: ["entity show key-1", "entity show key-1 --json"],
    notes: ["Exit codes: 4 no such entity."],
    get: requireEntity,
    text: entityText,
  }),
  "entity delete": change({
    arguments: THE_ENTITY,
    examples: ["entity delete key-1 --dry-run", "entity delete key-1 --yes"],
    notes: ["Exit codes: 1 the entity has children, or declined; 4 no such entity."],
    before: async (limiter, id) => {
      await requireEntity(limiter, id);
      const [child] = await limiter.getChildren(id, { limit: 1 });
      if (child === undefined) return `Delete ${id} with its limits, buckets and usage?`;
      throw new ConflictError(
        "entity_has_children",
        `Entity ${id} has children, such as ${child.id}; move or delete them first.`,
      );
    },
    plan: (_, id) => ({ id, deleted: true }),
    make: (limiter, id, by) => limiter.deleteEntity(id, by),
    text: ({ id }) => `${id} is deleted.\n`,
  }),
  "entity list": list({
    options: [
      ["--with-limits, --with-custom-limits <resource>", "only those with limits of their own on this resource"],
      ["--plan <plan>", "only those of this plan"],
    ],
    examples: [
      "entity list",
      "entity list --plan gold",
      "entity list --with-limits gpt-4 --json",
      "entity list --max 10",
    ],
    read: ({ withCustomLimits: resource, plan: planId }) => {
      if (planId === undefined || resource === undefined) return { resource, planId };
      throw new UsageError("--plan and --with-limits exclude each other; give one.");
    },
    source: async (limiter, { resource, planId }): Promise<ListSource<unknown>> => {
      if (planId !== undefined) await requirePlan(limiter, planId);
      if (resource === undefined) {
        return {
          page: (request) => pageFrom(limiter.listEntities(given({ ...request, planId }))),
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
    arguments: THE_ENTITY,
    examples: ["entity children proj-1"],
    notes: ["Exit codes: 4 no such entity."],
    source: async (limiter, id) => {
      await requireEntity(limiter, id);
      return {
        page: (request) => pageFrom(limiter.getChildren(id, request)),
        columns: ENTITY_COLUMNS,
        empty: `${id} has no children.`,
      };
    },
  }),
  "entity list-limits": list({
    arguments: THE_ENTITY,
    examples: ["entity list-limits key-1"],
    source: (limiter, id) => ({
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
