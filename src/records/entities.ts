import type { AuditEvent } from "../domain/config/audit.ts";
import {
  type Entity,
  type EntityChange,
  type Hierarchy,
  LEVELS_MAX,
  type PlansKnown,
  parentProblem,
  planProblem,
  updateOf,
} from "../domain/config/entity.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { Steps } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { CreateReply, DeleteReply, EntityStore, UpdateReply } from "../ports/entity-store.ts";
import type { ListedRecord, RecordList, StoredRecord } from "../ports/record-store.ts";
import { entityOf, entityPut } from "./bodies.ts";
import type { Decision } from "./changes.ts";
import { stintPuts } from "./histories.ts";
import { entityKey, planKey, stintsOf } from "./keys.ts";
import type { RecordParts } from "./parts.ts";
import type { Reading } from "./reading.ts";

export class RecordEntities implements EntityStore {
  readonly #parts: RecordParts;
  readonly #namespaceId: string;

  constructor(parts: RecordParts, namespaceId: string) {
    this.#parts = parts;
    this.#namespaceId = namespaceId;
  }

  create(entity: Entity, event: AuditEvent): MaybePromise<CreateReply> {
    const { id, parentId, planId } = entity;
    const keys = [entityKey(id), stintsOf(id), ...planKeys(planId)];
    return this.#parts.changes.make(this.#namespaceId, keys, event, function* ([known, stints, plan], reading): Steps<
      Decision<CreateReply>
    > {
      if (known !== undefined) return { reply: { kind: "exists" } };
      const hierarchy = yield* hierarchyOf(reading, id, parentId, plan);
      const problem =
        (parentId === undefined ? undefined : parentProblem(id, parentId, hierarchy)) ?? planProblem(planId, hierarchy);
      if (problem !== undefined) return { reply: problem };
      const puts = [entityPut(entity), ...stintPuts(stints, undefined, entity, reading.timeOf(event))];
      return { reply: { kind: "created" }, write: { puts } };
    });
  }

  get(id: string): MaybePromise<Entity | undefined> {
    return this.#parts.lists.one(this.#namespaceId, entityKey(id), entityOf);
  }

  update(id: string, change: EntityChange, event: AuditEvent): MaybePromise<UpdateReply> {
    const { parentId, planId } = change.patch;
    const keys = [entityKey(id), stintsOf(id), ...planKeys(planId)];
    return this.#parts.changes.make(this.#namespaceId, keys, event, function* ([record, stints, plan], reading): Steps<
      Decision<UpdateReply>
    > {
      const before = record && entityOf(record);
      const update = updateOf(before, change, yield* hierarchyOf(reading, id, parentId, plan));
      if (update.kind !== "updated") return { reply: update };
      const puts = [entityPut(update.entity), ...stintPuts(stints, before, update.entity, reading.timeOf(event))];
      return { reply: update, write: { puts } };
    });
  }

  delete(id: string, event: AuditEvent): MaybePromise<DeleteReply> {
    return this.#parts.changes.make(this.#namespaceId, [entityKey(id)], event, function* ([known], reading): Steps<
      Decision<DeleteReply>
    > {
      if (known === undefined) return { reply: { kind: "missing" } };
      const [child] = yield* reading.list({ kind: "entity", of: "parent", parentId: id }, undefined, 1);
      if (child !== undefined) return { reply: { kind: "children", childId: child.key[0] as string } };
      return { reply: { kind: "deleted" }, write: { deletes: [{ kind: "everythingOf", entityId: id }] } };
    });
  }

  children(id: string, page: PageRequest): MaybePromise<Page<Entity>> {
    return this.#page({ kind: "entity", of: "parent", parentId: id }, page);
  }

  list(page: PageRequest): MaybePromise<Page<Entity>> {
    return this.#page({ kind: "entity", of: "all" }, page);
  }

  #page(list: RecordList, page: PageRequest): MaybePromise<Page<Entity>> {
    return this.#parts.lists.page(this.#namespaceId, list, page, 1, listedEntity);
  }
}

export function listedEntity({ key, body }: ListedRecord): Entity {
  return entityOf({ kind: "entity", key, body });
}

function planKeys(planId: string | null | undefined) {
  return typeof planId === "string" ? [planKey(planId)] : [];
}

/** What the check of a hierarchy looks at: the line above the new parent, and below the entity the longest one. */
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
