import { checkPatch, type EntityPatch, newEntity, patched } from "../../domain/config/entity.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { ConflictError, ExistsError, NotFoundError, ValidationError } from "../../domain/names/errors.ts";
import type { Entity } from "../../entry/index.ts";
import {
  type CommandFile,
  type CommandGroup,
  examples,
  type GlobalOptions,
  type ListOptions,
  repeated,
} from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { requireEntity, requireParent } from "../known.ts";
import { requirePlan } from "../known-plan.ts";
import { limitsText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { change, list, show } from "../plain-commands.ts";
import { principalOf } from "../principal.ts";
import { type ListSource, mapped, pageFrom, printChange } from "../print.ts";
import { ENTITY_COLUMNS, entityText } from "../show-entity.ts";
import { countOf, metadataOf } from "../values.ts";

interface EntityCreateOptions extends GlobalOptions {
  /** Of `--name` and `--display-name`. */
  readonly displayName?: string;
  readonly parent?: string;
  readonly plan?: string;
  readonly cascade?: boolean;
  readonly meta?: readonly string[];
  readonly ifAbsent?: boolean;
}

const entityCreate: CommandFile<EntityCreateOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "letters, digits and _ . - : @")
      .option("--name, --display-name <text>", "display name; default: the id")
      .option("--parent <id>", "the parent, charged too unless --no-cascade")
      .option("--plan <plan>", "its limits apply where the entity has none of its own")
      .option("--cascade", "charge the parent too; the default with --parent")
      .option("--no-cascade", "do not charge the parent")
      .option("--meta <key=value>", "free text of yours; repeated", repeated)
      .option("--if-absent", "if it exists, leave it unchanged and show it")
      .addHelpText(
        "after",
        examples(
          "zae-limiter entity create team-a --name 'Team A' --plan gold",
          "zae-limiter entity create key-2 --parent proj-1 --cascade",
        ),
      )
      .addHelpText("after", "\nExit codes: 1 the entity exists, without --if-absent, 4 no such parent or plan.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const { displayName: name, parent: parentId, plan: planId, cascade, meta } = options;
      const given = {
        id,
        ...(name === undefined ? {} : { name }),
        ...(parentId === undefined ? {} : { parentId }),
        ...(planId === undefined ? {} : { planId }),
        ...(cascade === undefined ? {} : { cascade }),
        ...(meta === undefined ? {} : { metadata: metadataOf(meta) }),
      };
      // Checked before the store is asked, and what would be is known.
      const planned = newEntity(given, Date.now());
      const looks = options.dryRun === true || options.ifAbsent === true;
      const existing = looks ? await entityOf(limiter, id) : undefined;
      if (existing !== undefined && options.ifAbsent === true) {
        await printChange(context, options, existing, () => entityText(existing));
        return EXIT.done;
      }
      if (parentId !== undefined) await requireParent(limiter, parentId);
      if (planId !== undefined) await requirePlan(limiter, planId);
      if (options.dryRun === true && existing !== undefined) throw entityExists(id);
      const entity =
        options.dryRun === true
          ? planned
          : await (options.ifAbsent === true
              ? limiter.ensureEntity(given, principalOf(context, options))
              : limiter.createEntity(given, principalOf(context, options)));
      await printChange(context, options, entity, () => entityText(entity));
      return EXIT.done;
    }),
};

async function entityOf(limiter: CommandLimiter, id: string): Promise<Entity | undefined> {
  try {
    return await limiter.getEntity(id);
  } catch (error) {
    if (error instanceof NotFoundError && error.code === "entity_not_found") return undefined;
    throw error;
  }
}

function entityExists(id: string): ExistsError {
  return new ExistsError(
    "entity_exists",
    `Entity ${id} exists already; change it with \`zae-limiter entity update\`, or pass --if-absent to leave it unchanged.`,
  );
}

interface EntityUpdateOptions extends GlobalOptions {
  readonly displayName?: string;
  /** False: `--no-parent`. */
  readonly parent?: string | false;
  /** An id, or `none`. */
  readonly plan?: string;
  readonly cascade?: boolean;
  readonly meta?: readonly string[];
  readonly unsetMeta?: readonly string[];
  readonly ifVersion?: string;
}

export const entityUpdate: CommandFile<EntityUpdateOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "the entity")
      .option("--name, --display-name <text>", "display name")
      .option("--parent <id>", "the new parent")
      .option("--no-parent", "remove the parent")
      .option("--plan <plan|none>", "the new plan, or none")
      .option("--cascade", "charge the parent too")
      .option("--no-cascade", "do not charge the parent")
      .option("--meta <key=value>", "set this key, keep the others; repeated", repeated)
      .option("--unset-meta <key>", "remove this key; repeated", repeated)
      .option("--if-version <n>", "only if this is still its version")
      .addHelpText(
        "after",
        examples(
          "zae-limiter entity update key-1 --name 'Build server' --meta owner=ops",
          "zae-limiter entity update key-1 --plan gold",
          "zae-limiter entity update key-1 --no-cascade --dry-run",
        ),
      )
      .addHelpText("after", "\nExit codes: 1 it was changed in the meantime, 4 no such entity, parent or plan.\n");
  },
  run: (context, options, [id = ""]) => {
    const { meta, unsetMeta, ifVersion } = options;
    const version = ifVersion === undefined ? undefined : countOf(ifVersion, "--if-version");
    const changes = meta === undefined ? undefined : metadataOf(meta);
    const patch: EntityPatch = patchOf(options);
    if (Object.keys(patch).length === 0 && changes === undefined && unsetMeta === undefined) {
      throw new UsageError(
        "No change is given; give --name, --parent, --plan, --cascade, --meta or another option of `entity update --help`.",
      );
    }
    return onStore(context, options, async (limiter) => {
      if (typeof patch.parentId === "string") await requireParent(limiter, patch.parentId);
      if (typeof patch.planId === "string") await requirePlan(limiter, patch.planId);
      for (;;) {
        const before = await requireEntity(limiter, id);
        requireVersion(before, version);
        const whole = withMetadata(patch, before, { changes, unset: unsetMeta });
        if (options.dryRun === true) {
          if (typeof patch.parentId === "string") await requireNoCycle(limiter, id, patch.parentId);
          const entity = patched(before, checkPatch(id, whole), Date.now());
          await printChange(context, options, entity, () => entityText(entity));
          return EXIT.done;
        }
        try {
          const made = { version: before.version, ...principalOf(context, options) };
          const entity = await limiter.updateEntity(id, whole, made);
          await printChange(context, options, entity, () => entityText(entity));
          return EXIT.done;
        } catch (error) {
          // Somebody else changed it since it was read: metadata that he set must stay, so it is read again.
          const isMeanwhile = error instanceof ConflictError && error.code === "entity_changed";
          if (!isMeanwhile || version !== undefined) throw error;
        }
      }
    });
  },
};

function patchOf({ displayName, parent, plan, cascade }: EntityUpdateOptions): EntityPatch {
  return {
    ...(displayName === undefined ? {} : { name: displayName }),
    ...(parent === undefined ? {} : { parentId: parent === false ? null : parent }),
    ...(plan === undefined ? {} : { planId: plan === "none" ? null : plan }),
    ...(cascade === undefined ? {} : { cascade }),
  };
}

function withMetadata(
  patch: EntityPatch,
  { metadata }: Entity,
  {
    changes,
    unset,
  }: { readonly changes: Readonly<Record<string, string>> | undefined; readonly unset: readonly string[] | undefined },
): EntityPatch {
  if (changes === undefined && unset === undefined) return patch;
  const kept = Object.entries(metadata).filter(([key]) => unset?.includes(key) !== true);
  return { ...patch, metadata: { ...Object.fromEntries(kept), ...changes } };
}

function requireVersion({ id, version }: Entity, wanted: number | undefined): void {
  if (wanted === undefined || wanted === version) return;
  throw new ConflictError(
    "entity_changed",
    `Entity ${id} is at version ${version}, not ${wanted}: it was changed in the meantime. Show it again before you change it.`,
  );
}

/** What the store checks within the change itself. */
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

interface EntityListOptions extends ListOptions {
  /** Of `--with-limits` and `--with-custom-limits`. */
  readonly withCustomLimits?: string;
  readonly plan?: string;
}

const THE_ENTITY = ["<id>", "the entity"] as const;

export const ENTITY_COMMANDS: CommandGroup = {
  "entity create": entityCreate,
  "entity update": entityUpdate,
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
