import {
  type Entity,
  type Hierarchy,
  LEVELS_MAX,
  type PlansKnown,
  parentProblem,
  planProblem,
  updateOf,
} from "../domain/config/entity.ts";
import type { Steps } from "../domain/steps.ts";
import type { CreateReply, DeleteReply, EntityStore, UpdateReply } from "../ports/config-store.ts";
import type { ListedRecord, StoredRecord } from "../ports/record-store.ts";
import { entityKey, entityOf, entityPut, planKey, stintPuts, stintsOf } from "./bodies.ts";
import type { Reading } from "./reading.ts";
import type { Decision, ScopedRecords } from "./scoped-records.ts";

export function entitiesOn(records: ScopedRecords): EntityStore {
  return {
    create: (entity, event) => {
      const { id, parentId, planId } = entity;
      const keys = [entityKey(id), stintsOf(id), ...planKeys(planId)];
      return records.make(keys, event, function* ([known, stints, plan], reading): Steps<Decision<CreateReply>> {
        if (known !== undefined) return { reply: { kind: "exists" } };
        const hierarchy = yield* hierarchyOf(reading, id, parentId, plan);
        const ofParent = parentId === undefined ? undefined : parentProblem(id, parentId, hierarchy);
        const problem = ofParent ?? planProblem(planId, hierarchy);
        if (problem !== undefined) return { reply: problem };
        const puts = [entityPut(entity), ...stintPuts(stints, undefined, entity, reading.timeOf(event))];
        return { reply: { kind: "created" }, write: { puts } };
      });
    },
    get: (id) => records.one(entityKey(id), entityOf),
    update: (id, change, event) => {
      const { parentId, planId } = change.patch;
      const keys = [entityKey(id), stintsOf(id), ...planKeys(planId)];
      return records.make(keys, event, function* ([record, stints, plan], reading): Steps<Decision<UpdateReply>> {
        const before = record && entityOf(record);
        const update = updateOf(before, change, yield* hierarchyOf(reading, id, parentId, plan));
        if (update.kind !== "updated") return { reply: update };
        const puts = [entityPut(update.entity), ...stintPuts(stints, before, update.entity, reading.timeOf(event))];
        return { reply: update, write: { puts } };
      });
    },
    delete: (id, event) =>
      records.make([entityKey(id)], event, function* ([known], reading): Steps<Decision<DeleteReply>> {
        if (known === undefined) return { reply: { kind: "missing" } };
        const [child] = yield* reading.list({ kind: "entity", of: "parent", parentId: id }, undefined, 1);
        if (child !== undefined) return { reply: { kind: "children", childId: child.key[0] as string } };
        return { reply: { kind: "deleted" }, write: { deletes: [{ kind: "everythingOf", entityId: id }] } };
      }),
    children: (id, page) => records.page({ kind: "entity", of: "parent", parentId: id }, page, 1, listedEntity),
    list: (page) => records.page({ kind: "entity", of: "all" }, page, 1, listedEntity),
  };
}

export function listedEntity({ key, body }: ListedRecord): Entity {
  return entityOf({ kind: "entity", key, body });
}

function planKeys(planId: string | null | undefined) {
  return typeof planId === "string" ? [planKey(planId)] : [];
}

/** The check of a hierarchy looks at the line above the new parent, and at the longest one below the entity. */
function* hierarchyOf(
  reading: Reading,
  id: string,
  parentId: string | null | undefined,
  plan: StoredRecord | undefined,
): Steps<Hierarchy & PlansKnown> {
  const isHung = typeof parentId === "string";
  // One more than may be: that there are too many is seen.
  const max = LEVELS_MAX + 1;
  const above = isHung ? yield* reading.list({ kind: "entity", of: "above", id: parentId }, undefined, max) : [];
  const below = isHung ? yield* reading.list({ kind: "entity", of: "below", id }, undefined, max) : [];
  const known = new Map(above.map((record) => [record.key[0], listedEntity(record)]));
  const line = [id, ...below.map(({ key }) => key[0] as string)];
  return {
    hasPlan: () => plan !== undefined,
    parentOf: (one) => known.get(one),
    childrenOf: (one) => {
      const next = line[line.indexOf(one) + 1];
      return next === undefined ? [] : [next];
    },
  };
}
