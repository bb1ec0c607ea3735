import { type PlanUpdate, planUpdate } from "../domain/config/plan.ts";
import type { Steps } from "../domain/steps.ts";
import type { CreatePlanReply, DeletePlanReply, PlanStore } from "../ports/config-store.ts";
import { scopeOfPlanRow } from "../stored/config-keys.ts";
import { configKey, configOf, historyOf, planKey, planOf, planPut, versionPuts } from "./bodies.ts";
import { listedEntity } from "./entities.ts";
import type { Decision, ScopedRecords } from "./scoped-records.ts";

/** A plan that is deleted and an entity that comes to it exclude each other by the generation that both commit on. */
export function plansOn(records: ScopedRecords): PlanStore {
  return {
    create: (plan, event) =>
      records.make([planKey(plan.id)], event, ([known]): Decision<CreatePlanReply> => {
        if (known !== undefined) return { reply: { kind: "exists" } };
        return { reply: { kind: "created" }, write: { puts: [planPut(plan)] } };
      }),
    get: (id) => records.one(planKey(id), planOf),
    update: (id, change, event) =>
      records.make([planKey(id)], event, ([record]): Decision<PlanUpdate> => {
        const update = planUpdate(record && planOf(record), change);
        if (update.kind !== "updated") return { reply: update };
        return { reply: update, write: { puts: [planPut(update.plan)] } };
      }),
    delete: (id, event) =>
      records.make([planKey(id)], event, function* ([known], reading): Steps<Decision<DeletePlanReply>> {
        if (known === undefined) return { reply: { kind: "missing" } };
        const [first] = yield* reading.list({ kind: "entity", of: "plan", planId: id }, undefined, 1);
        if (first !== undefined) return { reply: { kind: "inUse", entityId: first.key[0] as string } };
        const configs = yield* reading.listAll({ kind: "config", of: "owner", owner: ["plan", id] });
        const scopes = configs.map(({ key }) => scopeOfPlanRow(id, key[2] as string));
        const histories = scopes.length === 0 ? [] : yield* reading.get(scopes.map(historyOf));
        // Entities that had it may still be brought up to now by what it said.
        const puts = scopes.flatMap((scope, i) => {
          const before = configOf({ ...configKey(scope), body: configs[i]?.body });
          return versionPuts(scope, histories[i], { before, after: undefined }, reading.timeOf(event));
        });
        return { reply: { kind: "deleted" }, write: { puts, deletes: [planKey(id), ...scopes.map(configKey)] } };
      }),
    list: (page) =>
      records.page({ kind: "plan", of: "all" }, page, 1, ({ key, body }) => planOf({ kind: "plan", key, body })),
    listEntities: (id, page) => records.page({ kind: "entity", of: "plan", planId: id }, page, 1, listedEntity),
  };
}
