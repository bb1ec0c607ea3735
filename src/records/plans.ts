import type { AuditEvent } from "../domain/audit.ts";
import type { Entity } from "../domain/entity.ts";
import type { Page, PageRequest } from "../domain/paging.ts";
import { type Plan, type PlanChange, type PlanUpdate, planUpdate } from "../domain/plan.ts";
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

  create(plan: Plan, event: AuditEvent): Promise<CreatePlanReply> {
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

  async get(id: string): Promise<Plan | undefined> {
    const [record] = await this.#parts.lists.get(this.#namespaceId, [planKey(id)]);
    return record && planOf(record);
  }

  update(id: string, change: PlanChange, event: AuditEvent): Promise<PlanUpdate> {
    return this.#parts.changes.make(this.#namespaceId, [planKey(id)], event, ([record]): Decision<PlanUpdate> => {
      const update = planUpdate(record && planOf(record), change);
      if (update.kind !== "updated") return { reply: update };
      return { reply: update, write: { puts: [planPut(update.plan)] } };
    });
  }

  delete(id: string, event: AuditEvent): Promise<DeletePlanReply> {
    return this.#parts.changes.make(
      this.#namespaceId,
      [planKey(id)],
      event,
      async ([known], reading): Promise<Decision<DeletePlanReply>> => {
        if (known === undefined) return { reply: { kind: "missing" } };
        const [first] = await reading.list({ kind: "entity", of: "plan", planId: id }, undefined, 1);
        if (first !== undefined) return { reply: { kind: "inUse", entityId: first.key[0] as string } };
        const configs = await reading.listAll({ kind: "config", of: "owner", owner: ["plan", id], which: "all" });
        const scopes = configs.map(({ key }) => scopeOfPlanRow(id, key[2] as string));
        const histories = scopes.length === 0 ? [] : await reading.get(scopes.map(historyOf));
        // Entities that had it may still be brought up to now by what it said.
        const puts = scopes.flatMap((scope, i) => {
          const before = configOf({ ...configKey(scope), body: configs[i]?.body });
          return versionPuts(scope, histories[i], { before, after: undefined }, reading.timeOf(event));
        });
        return { reply: { kind: "deleted" }, write: { puts, deletes: [planKey(id), ...scopes.map(configKey)] } };
      },
    );
  }

  list(page: PageRequest): Promise<Page<Plan>> {
    return this.#parts.lists.page(this.#namespaceId, { kind: "plan", of: "all" }, page, 1, ({ key, body }) =>
      planOf({ kind: "plan", key, body }),
    );
  }

  listEntities(id: string, page: PageRequest): Promise<Page<Entity>> {
    const list = { kind: "entity", of: "plan", planId: id } as const;
    return this.#parts.lists.page(this.#namespaceId, list, page, 1, listedEntity);
  }
}
