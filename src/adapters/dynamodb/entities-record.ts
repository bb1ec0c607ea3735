import type { Entity } from "../../domain/config/entity.ts";
import { type PlanStint, stintsFrom, stintsText, withStint } from "../../domain/config/plan-stints.ts";
import { type Attributes, decodeJson, instantOf, instantText } from "./codec.ts";
import { all, type Condition, isStill, texts } from "./records-write.ts";
import {
  CASCADE,
  CREATED_AT,
  ENTITY_ID,
  entityIndexKeys,
  entityPk,
  GSI1PK,
  GSI1SK,
  INCARNATION,
  METADATA,
  NAME,
  PARENT_GENERATION,
  PARENT_ID,
  PLAN_ID,
  type TableKey,
  UPDATED_AT,
} from "./schema.ts";

/** Ours: grows by 1 with every change. */
export const VERSION = "version";
/** Ours: how often a child was attached. A deletion is conditional on it, so that it never misses a child that just came. */
export const CHILD_SEQ = "kin";
/** Ours: the entity was deleted, and what belongs to it is being removed. No caller sees it any more. */
export const DELETING = "deleting";

/** Ours: the plans that the entity had over time (domain/config/plan-stints.ts). */
const PLAN_HISTORY = "plan_history";

/** An entity that is made now. `incarnation`: 16 hex digits, never twice. */
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

/** The attributes that a change replaces, except the keys in the index of children. */
export function changeable({ name, parentId, planId, cascade, metadata, version, updatedAtMs }: Entity): Attributes {
  const entries = Object.entries(metadata).map(([key, S]) => [key, { S }] as const);
  return {
    [NAME]: { S: name },
    [PARENT_ID]: parentId === undefined ? { NULL: true } : { S: parentId },
    ...(planId === undefined ? {} : { [PLAN_ID]: { S: planId } }),
    [CASCADE]: { BOOL: cascade },
    [METADATA]: { M: Object.fromEntries(entries) },
    [VERSION]: { N: String(version) },
    [UPDATED_AT]: { S: instantText(updatedAtMs) },
  };
}

/** The plans of an entity that is changed at an instant, in place of `before`; nothing where they stay. */
export function planHistory(before: Attributes | undefined, { planId }: Entity, atMs: number): Attributes {
  if (before?.[PLAN_ID]?.S === planId) return {};
  const stints = withStint(stintsIn(before), before?.[PLAN_ID]?.S, planId, { atMs });
  return stints === undefined ? {} : { [PLAN_HISTORY]: { S: stintsText(stints) } };
}

export function stintsIn(item: Attributes | undefined): readonly PlanStint[] | undefined {
  const text = item?.[PLAN_HISTORY]?.S;
  return text === undefined ? undefined : stintsFrom(text);
}

/** The entity of an item; undefined where there is no item, or the entity was deleted. */
export function entityOf(item: Attributes | undefined): Entity | undefined {
  if (item === undefined || isBeingDeleted(item)) return undefined;
  const id = item[ENTITY_ID]?.S ?? "";
  const parentId = parentIn(item);
  const planId = item[PLAN_ID]?.S;
  const createdAtMs = instantOf(item[CREATED_AT]?.S);
  const updatedAt = item[UPDATED_AT]?.S;
  const metadata = Object.entries(item[METADATA]?.M ?? {}).map(([key, value]) => {
    const { S } = value;
    return [key, S ?? JSON.stringify(decodeJson(value))] as const;
  });
  return {
    id,
    name: item[NAME]?.S ?? id,
    ...(parentId === undefined ? {} : { parentId }),
    ...(planId === undefined ? {} : { planId }),
    cascade: item[CASCADE]?.BOOL ?? false,
    metadata: Object.fromEntries(metadata),
    // The original counts no changes.
    version: Number(item[VERSION]?.N ?? 1),
    createdAtMs,
    updatedAtMs: updatedAt === undefined ? createdAtMs : instantOf(updatedAt),
  };
}

/** It is gone for every caller, but not everything of it is removed yet. */
export function isBeingDeleted(item: Attributes | undefined): boolean {
  return item?.[DELETING] !== undefined;
}

export function parentIn(item: Attributes): string | undefined {
  return item[PARENT_ID]?.S;
}

/** It is as it was read. Compares the numbers of both programs, for the original does not raise our version. */
export function isUnchanged(item: Attributes): Condition {
  const pinned = [VERSION, PARENT_GENERATION, INCARNATION, PARENT_ID, DELETING];
  return all(...pinned.map((name) => isStill(name, item[name])));
}

/** Its parent is the one that was read, and it is not deleted. */
export function standsBelow(item: Attributes): Condition {
  return all(isStill(PARENT_ID, item[PARENT_ID]), isStill(DELETING, undefined), (e) => {
    return `attribute_exists(${e.name(ENTITY_ID)})`;
  });
}

export const CHILD_KEYS = [GSI1PK, GSI1SK] as const;

/**
 * Ours: a record of each child beside its parent, because the index of children follows a moment later, and an entity that has
 * children must not be deleted. A record may be left over where the original moved or deleted the child.
 */
export function childLinkKey(namespaceId: string, parentId: string, childId: string): TableKey {
  return { pk: entityPk(namespaceId, parentId), sk: `${CHILD_LINK}${childId}` };
}

export function childLinkItem(namespaceId: string, parentId: string): Attributes {
  return texts(entityIndexKeys(namespaceId, parentId, undefined));
}

export const CHILD_LINK = "#CHILD#";
