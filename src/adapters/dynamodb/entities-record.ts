import type { ConfigScope } from "../../domain/config/config.ts";
import { type PlanStint, stintsFrom, stintsText, withStint } from "../../domain/config/config-versions.ts";
import type { Entity } from "../../domain/config/entity.ts";
import type { Plan } from "../../domain/config/plan.ts";
import { given } from "../../domain/names/given.ts";
import { type Attributes, decodeJson, instantOf, instantText, textOrNull } from "./codec.ts";
import type { Records } from "./records.ts";
import {
  all,
  type Condition,
  deleteRecord,
  exists,
  isStill,
  putRecord,
  type RecordWrite,
  texts,
  updateRecord,
} from "./records-write.ts";
import {
  CASCADE,
  CREATED_AT,
  ENTITY_ID,
  entityIndexKeys,
  entityPk,
  GSI1PK,
  GSI1SK,
  GSI4PK,
  GSI4SK,
  INCARNATION,
  METADATA,
  NAME,
  PARENT_GENERATION,
  PARENT_ID,
  PLAN_ID,
  PLAN_SEQ,
  planKey,
  planMemberIndexKeys,
  planMemberKey,
  planPk,
  type TableKey,
  UPDATED_AT,
} from "./schema.ts";

/** Ours: grows by 1 with every change. */
export const VERSION = "version";
/** Ours: the record was deleted, and its items are being removed. Callers no longer see it. */
export const DELETING = "deleting";

/** The attributes of a plan that an update replaces, which an entity has, too. */
export function namedAttributes({ name, metadata, version, updatedAtMs }: Plan | Entity): Attributes {
  const entries = Object.entries(metadata).map(([key, S]) => [key, { S }] as const);
  return {
    [NAME]: { S: name },
    [METADATA]: { M: Object.fromEntries(entries) },
    [VERSION]: { N: String(version) },
    [UPDATED_AT]: { S: instantText(updatedAtMs) },
  };
}

function namedIn(item: Attributes, id: string): Plan {
  const createdAtMs = instantOf(item[CREATED_AT]?.S);
  const updatedAt = item[UPDATED_AT]?.S;
  const metadata = Object.entries(item[METADATA]?.M ?? {}).map(
    ([key, value]) => [key, value.S ?? JSON.stringify(decodeJson(value))] as const,
  );
  return {
    id,
    name: item[NAME]?.S ?? id,
    metadata: Object.fromEntries(metadata),
    // The original does not count changes.
    version: Number(item[VERSION]?.N ?? 1),
    createdAtMs,
    updatedAtMs: updatedAt === undefined ? createdAtMs : instantOf(updatedAt),
  };
}

/** True if it is deleted for every caller, but not all of its items are removed yet. */
export function isBeingDeleted(item: Attributes | undefined): boolean {
  return item?.[DELETING] !== undefined;
}

/** Ours: counts the children that were ever attached. A deletion is conditional on it, so that it never misses a new child. */
export const CHILD_SEQ = "kin";

/** Ours: the plans that the entity had over time (domain/config/plan-stints.ts). */
export const PLAN_HISTORY = "plan_history";

/** The item of a new entity. `incarnation`: 16 hex digits, never used twice. */
export function entityItem(
  namespaceId: string,
  entity: Entity,
  { incarnation, atMs }: { readonly incarnation: string; readonly atMs: number },
): Attributes {
  const { id, parentId, createdAtMs } = entity;
  return {
    ...texts({ [ENTITY_ID]: id, [CREATED_AT]: instantText(createdAtMs), [INCARNATION]: incarnation }),
    ...texts(entityIndexKeys(namespaceId, id, parentId)),
    [PARENT_GENERATION]: { N: String(Math.max(0, createdAtMs)) },
    ...changeable(entity),
    ...planHistory(undefined, entity, atMs),
  };
}

/** The attributes that an update replaces, except the keys in the index of children. */
export function changeable(entity: Entity): Attributes {
  const { parentId, planId, cascade } = entity;
  return {
    ...namedAttributes(entity),
    [PARENT_ID]: textOrNull(parentId),
    ...texts(given({ [PLAN_ID]: planId })),
    [CASCADE]: { BOOL: cascade },
  };
}

/** The plan history of an entity after a change; nothing if its plan stays. */
export function planHistory(before: Attributes | undefined, { planId }: Entity, atMs: number): Attributes {
  if (before?.[PLAN_ID]?.S === planId) return {};
  const stints = withStint(stintsIn(before), before?.[PLAN_ID]?.S, planId, { atMs });
  return stints === undefined ? {} : { [PLAN_HISTORY]: { S: stintsText(stints) } };
}

export function stintsIn(item: Attributes | undefined): readonly PlanStint[] | undefined {
  const text = item?.[PLAN_HISTORY]?.S;
  return text === undefined ? undefined : stintsFrom(text);
}

/** The entity of an item; undefined if there is no item, or the entity was deleted. */
export function entityOf(item: Attributes | undefined): Entity | undefined {
  if (item === undefined || isBeingDeleted(item)) return undefined;
  return {
    ...namedIn(item, item[ENTITY_ID]?.S ?? ""),
    ...given({ parentId: parentIn(item), planId: item[PLAN_ID]?.S }),
    cascade: item[CASCADE]?.BOOL ?? false,
  };
}

export function parentIn(item: Attributes): string | undefined {
  return item[PARENT_ID]?.S;
}

/**
 * The condition that an entity is unchanged. It compares the numbers of both programs, because the original does not raise our
 * version.
 */
export function isUnchanged(item: Attributes): Condition {
  const pinned = [VERSION, PARENT_GENERATION, INCARNATION, PARENT_ID, DELETING];
  return all(...pinned.map((name) => isStill(name, item[name])));
}

/** The condition that an entity still has the parent that was read, and is not deleted. */
export function standsBelow(item: Attributes): Condition {
  return all(isStill(PARENT_ID, item[PARENT_ID]), isStill(DELETING, undefined), (e) => {
    return `attribute_exists(${e.name(ENTITY_ID)})`;
  });
}

export const CHILD_KEYS = [GSI1PK, GSI1SK] as const;

/**
 * Ours: a record of each child beside its parent, because the index of children lags, and an entity with children must
 * not be deleted. A record is stale where the original moved or deleted the child.
 */
export function childLinkKey(namespaceId: string, parentId: string, childId: string): TableKey {
  return { pk: entityPk(namespaceId, parentId), sk: `${CHILD_LINK}${childId}` };
}

export function childLinkItem(namespaceId: string, parentId: string): Attributes {
  return texts(entityIndexKeys(namespaceId, parentId, undefined));
}

export const CHILD_LINK = "#CHILD#";

const PLAN_ID_OF = "id";

export function planItem(namespaceId: string, plan: Plan): Attributes {
  return {
    ...texts({ [GSI4PK]: namespaceId, [GSI4SK]: planPk(namespaceId, plan.id), [PLAN_ID_OF]: plan.id }),
    [CREATED_AT]: { S: instantText(plan.createdAtMs) },
    ...namedAttributes(plan),
  };
}

/** The plan of an item; undefined if there is no item, or the plan was deleted. */
export function planOf(item: Attributes | undefined): Plan | undefined {
  return item === undefined || isBeingDeleted(item) ? undefined : namedIn(item, item[PLAN_ID_OF]?.S ?? "");
}

/** True if the entity or plan that a scope belongs to was deleted. An entity need not exist. */
export function isOwnerGone(scope: ConfigScope, owner: Attributes | undefined): boolean {
  return "planId" in scope ? planOf(owner) === undefined : isBeingDeleted(owner);
}

/** The condition that a plan exists and is not deleted. */
export const isPlan: Condition = all(exists, isStill(DELETING, undefined));

/** True if the plan exists, by a strongly consistent read. */
export async function hasPlan(records: Records, namespaceId: string, planId: string): Promise<boolean> {
  return planOf(await records.get(planKey(namespaceId, planId))) !== undefined;
}

/** The writes beside an entity whose plan changes. */
export function planMoved(
  namespaceId: string,
  entityId: string,
  { from, to }: { readonly from: string | undefined; readonly to: string | undefined },
): readonly RecordWrite[] {
  if (from === to) return [];
  const left = from === undefined ? [] : [deleteRecord(planMemberKey(namespaceId, from, entityId), undefined)];
  if (to === undefined) return left;
  const member = texts(planMemberIndexKeys(namespaceId, to, entityId));
  return [
    ...left,
    // The deletion of the plan is conditional on this number, so it fails if an entity was added meanwhile.
    updateRecord(planKey(namespaceId, to), { add: { [PLAN_SEQ]: { N: "1" } } }, isPlan),
    putRecord(planMemberKey(namespaceId, to, entityId), member, undefined),
  ];
}
