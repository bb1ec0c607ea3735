import type { AuditEvent } from "../domain/config/audit.ts";
import type { Entity } from "../domain/config/entity.ts";
import { type Plan, type PlanChange, type PlanUpdate, planUpdate } from "../domain/config/plan.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { Steps } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { CreatePlanReply, DeletePlanReply, PlanStore } from "../ports/plan-store.ts";
import { scopeOfPlanRow } from "../stored/config-keys.ts";
import { configOf, planOf, planPut } from "./bodies.ts";
import type { Decision } from "./changes.ts";
import { listedEntity } from "./entities.ts";
import { versionPuts } from "./histories.ts";
import { configKey, historyOf, planKey } from "./keys.ts";
import type { RecordParts } from "./parts.ts";

/** A plan that is deleted and an entity that comes to it exclude each other by the generation that both commit on. */
export class RecordPlans implements PlanStore {
  readonly #parts: RecordParts;
  readonly #namespaceId: string;

  constructor(parts: RecordParts, namespaceId: string) {
    this.#parts = parts;
    this.#namespaceId = namespaceId;
  }

  create(plan: Plan, event: AuditEvent): MaybePromise<CreatePlanReply> {
    return this.#parts.changes.make(
      this.#namespaceId,
      [planKey(plan.id)],
      event,
      ([known]): Decision<CreatePlanReply> =>
        known === undefined
          ? { reply: { kind: "created" }, write: { puts: [planPut(plan)] } }
          : { reply: { kind: "exists" } },
    );
  }

  get(id: string): MaybePromise<Plan | undefined> {
    return this.#parts.lists.one(this.#namespaceId, planKey(id), planOf);
  }

  update(id: string, change: PlanChange, event: AuditEvent): MaybePromise<PlanUpdate> {
    return this.#parts.changes.make(this.#namespaceId, [planKey(id)], event, ([record]): Decision<PlanUpdate> => {
      const update = planUpdate(record && planOf(record), change);
      if (update.kind !== "updated") return { reply: update };
      return { reply: update, write: { puts: [planPut(update.plan)] } };
    });
  }

  delete(id: string, event: AuditEvent): MaybePromise<DeletePlanReply> {
    return this.#parts.changes.make(this.#namespaceId, [planKey(id)], event, function* ([known], reading): Steps<
      Decision<DeletePlanReply>
    > {
      if (known === undefined) return { reply: { kind: "missing" } };
      const [first] = yield* reading.list({ kind: "entity", of: "plan", planId: id }, undefined, 1);
      if (first !== undefined) return { reply: { kind: "inUse", entityId: first.key[0] as string } };
      const configs = yield* reading.listAll({ kind: "config", of: "owner", owner: ["plan", id], which: "all" });
      const scopes = configs.map(({ key }) => scopeOfPlanRow(id, key[2] as string));
      const histories = scopes.length === 0 ? [] : yield* reading.get(scopes.map(historyOf));
      // Entities that had it may still be brought up to now by what it said.
      const puts = scopes.flatMap((scope, i) => {
        const before = configOf({ ...configKey(scope), body: configs[i]?.body });
        return versionPuts(scope, histories[i], { before, after: undefined }, reading.timeOf(event));
      });
      return { reply: { kind: "deleted" }, write: { puts, deletes: [planKey(id), ...scopes.map(configKey)] } };
    });
  }

  list(page: PageRequest): MaybePromise<Page<Plan>> {
    return this.#parts.lists.page(this.#namespaceId, { kind: "plan", of: "all" }, page, 1, ({ key, body }) =>
      planOf({ kind: "plan", key, body }),
    );
  }

  listEntities(id: string, page: PageRequest): MaybePromise<Page<Entity>> {
    const list = { kind: "entity", of: "plan", planId: id } as const;
    return this.#parts.lists.page(this.#namespaceId, list, page, 1, listedEntity);
  }
}
