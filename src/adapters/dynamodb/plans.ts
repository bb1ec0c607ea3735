import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Entity } from "../../domain/config/entity.ts";
import { type Plan, type PlanChange, type PlanUpdate, planUpdate } from "../../domain/config/plan.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { CreatePlanReply, DeletePlanReply, PlanStore } from "../../ports/config-store.ts";
import type { Attributes, AttributeValue } from "./codec.ts";
import { encodeConfig, historyAfter, isHistoryOnly } from "./config-codec.ts";
import { DELETING, entityOf, namedAttributes, planItem, planOf, VERSION } from "./entities-record.ts";
import { NamedRecords } from "./named-records.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { chunksOf, collected, idOf, pageAfter } from "./paging.ts";
import { tablePartition } from "./records.ts";
import { all, checkRecord, deleteRecord, isStill, keyIn, missing, putRecord, updateRecord } from "./records-write.ts";
import { entityKey, META_SK, PLAN_SEQ, parseConfigKey, parseMemberSk, planMemberRange, planPk } from "./schema.ts";
import { notShared } from "./version-gate.ts";

/**
 * Plans of one namespace. The partition of a plan has the plan, its limits, and a record of each entity that refers to it.
 */
export class DynamoPlans implements PlanStore {
  readonly #namespaceId: string;
  readonly #parts: NamespaceParts;
  readonly #plans: NamedRecords<Plan>;

  constructor(parts: NamespaceParts) {
    this.#namespaceId = parts.namespaceId;
    this.#parts = parts;
    this.#plans = new NamedRecords(parts, {
      pkOf: planPk,
      decode: planOf,
      finish: (id, mark, atMs) => this.#finish(id, mark, atMs),
      what: (id) => `The plan ${id}`,
    });
  }

  async create(plan: Plan, event: AuditEvent): Promise<CreatePlanReply> {
    if (this.#parts.shared) throw notShared("Plans");
    return this.#plans.change<CreatePlanReply>(plan.id, event, async (before) => {
      if (before !== undefined) return { reply: { kind: "exists" } };
      const put = putRecord(this.#plans.key(plan.id), planItem(this.#namespaceId, plan), missing);
      return { reply: { kind: "created" }, writes: [put] };
    });
  }

  get(id: string): Promise<Plan | undefined> {
    return this.#plans.get(id);
  }

  update(id: string, change: PlanChange, event: AuditEvent): Promise<PlanUpdate> {
    return this.#plans.change<PlanUpdate>(id, event, async (item) => {
      const update = planUpdate(planOf(item), change);
      if (update.kind !== "updated") return { reply: update };
      const unchanged = all(isStill(VERSION, item?.[VERSION]), isStill(DELETING, undefined));
      const set = namedAttributes(update.plan);
      return { reply: update, writes: [updateRecord(this.#plans.key(id), { set }, unchanged)] };
    });
  }

  delete(id: string, event: AuditEvent): Promise<DeletePlanReply> {
    return this.#plans.delete<DeletePlanReply>(id, event, async (item) => {
      const [entity] = (await this.listEntities(id, { limit: 1 })).items;
      if (entity !== undefined) return { reply: { kind: "inUse", entityId: entity.id } };
      const mark = { S: event.eventId };
      // An entity that was added since the check has raised the number.
      const isUnused = all(
        isStill(DELETING, undefined),
        isStill(PLAN_SEQ, item[PLAN_SEQ]),
        isStill(VERSION, item[VERSION]),
      );
      return {
        reply: { kind: "deleted" },
        // From here on it is deleted for every process.
        writes: [updateRecord(this.#plans.key(id), { set: { [DELETING]: mark } }, isUnused)],
        onApplied: () => {
          this.#parts.recent.note();
          return this.#finish(id, mark, event.atMs);
        },
      };
    });
  }

  list(page: PageRequest): Promise<Page<Plan>> {
    return this.#plans.list(page);
  }

  listEntities(planId: string, page: PageRequest): Promise<Page<Entity>> {
    return pageAfter(page, (after, count) => this.#entitiesOf(planId, after, count), idOf);
  }

  async *#entitiesOf(id: string, after: string | undefined, count: number): AsyncGenerator<Entity> {
    const { records } = this.#parts;
    const members = records.query({
      ...tablePartition(planPk(this.#namespaceId, id), planMemberRange(after)),
      keysOnly: true,
      pageSize: count,
    });
    const keyOf = (member: Attributes) => entityKey(this.#namespaceId, parseMemberSk(keyIn(member).sk));
    for await (const [, item] of records.lookUp(members, count, keyOf)) {
      const entity = entityOf(item);
      if (entity?.planId === id) yield entity;
    }
  }

  /**
   * Deletes limits and totals, then the plan; every step is conditional on the mark of this deletion. Former versions of the
   * limits stay: entities that had the plan may still need them.
   */
  async #finish(id: string, mark: AttributeValue, atMs: number): Promise<void> {
    const { records } = this.#parts;
    const key = this.#plans.key(id);
    const marked = isStill(DELETING, mark);
    const found = await collected(records.query(tablePartition(key.pk)));
    const writes = found.flatMap((item) => this.#removal(item, atMs));
    for (const chunk of chunksOf(writes, ITEMS_AT_ONCE)) {
      const reply = await records.transact([checkRecord(key, marked), ...chunk]);
      // Another process has finished it.
      if (reply.kind === "failed") return;
    }
    await records.transact([deleteRecord(key, marked)]);
  }

  /** The write for one item of the plan's partition when the plan is deleted. */
  #removal(item: Attributes, atMs: number) {
    const key = keyIn(item);
    if (key.sk === META_SK || isHistoryOnly(item)) return [];
    const scope = parseConfigKey(key);
    const namespaceId = this.#namespaceId;
    const left = scope && encodeConfig(undefined, item, { namespaceId, scope }, historyAfter(item, undefined, atMs));
    return [left === undefined ? deleteRecord(key, undefined) : putRecord(key, left, undefined)];
  }
}

const ITEMS_AT_ONCE = 50;
