import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Entity } from "../../domain/config/entity.ts";
import { type Plan, type PlanChange, type PlanUpdate, planUpdate } from "../../domain/config/plan.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { CreatePlanReply, DeletePlanReply, PlanStore } from "../../ports/plan-store.ts";
import type { DynamoAudit } from "./audit.ts";
import type { Attributes, AttributeValue } from "./codec.ts";
import { encodeConfig, historyAfter, isHistoryOnly } from "./config-codec.ts";
import type { RecentChange } from "./config-reader.ts";
import { DELETING, entityOf, VERSION } from "./entities-record.ts";
import { activeCheck, type NamespaceWatch } from "./namespaces-record.ts";
import { chunksOf, collected, cursorOf, inChunks, pageOf, placeAfter, where } from "./paging.ts";
import { changeablePlan, planItem, planOf } from "./plans-record.ts";
import { failAfterMaxConflicts, type Records } from "./records.ts";
import {
  all,
  checkRecord,
  deleteRecord,
  isStill,
  keyIn,
  missing,
  putRecord,
  type RecordWrite,
  updateRecord,
} from "./records-write.ts";
import {
  entityKey,
  GSI4PK,
  GSI4SK,
  META_SK,
  NAMESPACE_INDEX,
  namespaceIdKey,
  PK,
  PLAN_SEQ,
  parseConfigKey,
  parseMemberSk,
  planKey,
  planMemberRange,
  planPk,
  SK,
} from "./schema.ts";
import { notShared } from "./shared-table.ts";

interface PlanParts {
  readonly records: Records;
  readonly watch: NamespaceWatch;
  readonly audit: DynamoAudit;
  readonly recent: RecentChange;
  /** The original writes to this table too; it knows no plans. */
  readonly shared: boolean;
}

/** Plans of one namespace: an item each, with its limits and a record of each entity that refers to it in the same partition. */
export class DynamoPlans implements PlanStore {
  readonly #namespaceId: string;
  readonly #parts: PlanParts;
  readonly #records: Records;

  constructor(namespaceId: string, parts: PlanParts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
    this.#records = parts.records;
  }

  async create(plan: Plan, event: AuditEvent): Promise<CreatePlanReply> {
    if (this.#parts.shared) throw notShared("Plans");
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `The plan ${plan.id}`);
      const before = await this.#readToChange(plan.id);
      if (before?.[DELETING] !== undefined) {
        await this.#finish(plan.id, before[DELETING], event.atMs);
        continue;
      }
      if (before !== undefined) return { kind: "exists" };
      const reply = await this.#records.transact([
        putRecord(planKey(this.#namespaceId, plan.id), planItem(this.#namespaceId, plan), missing),
        activeCheck(this.#namespaceId),
        await this.#parts.audit.entry(event),
      ]);
      if (reply.kind === "applied") return { kind: "created" };
    }
  }

  async get(id: string): Promise<Plan | undefined> {
    return planOf(await this.#records.get(planKey(this.#namespaceId, id)));
  }

  async update(id: string, change: PlanChange, event: AuditEvent): Promise<PlanUpdate> {
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `The plan ${id}`);
      const item = await this.#readToChange(id);
      const update = planUpdate(planOf(item), change);
      if (update.kind !== "updated") return update;
      const unchanged = all(isStill(VERSION, item?.[VERSION]), isStill(DELETING, undefined));
      const reply = await this.#records.transact([
        updateRecord(planKey(this.#namespaceId, id), { set: changeablePlan(update.plan) }, unchanged),
        activeCheck(this.#namespaceId),
        await this.#parts.audit.entry(event),
      ]);
      if (reply.kind === "applied") return update;
    }
  }

  async delete(id: string, event: AuditEvent): Promise<DeletePlanReply> {
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `The plan ${id}`);
      const item = await this.#readToChange(id);
      if (item === undefined) return { kind: "missing" };
      // Cut off earlier: it is deleted, and the rest is cleared up now.
      if (item[DELETING] !== undefined) {
        await this.#finish(id, item[DELETING], event.atMs);
        return { kind: "deleted" };
      }
      const [entity] = (await this.listEntities(id, { limit: 1 })).items;
      if (entity !== undefined) return { kind: "inUse", entityId: entity.id };
      const mark = { S: event.eventId };
      // From here on it is deleted for every process. An entity that came since the look has raised the number.
      const reply = await this.#records.transact([
        updateRecord(
          planKey(this.#namespaceId, id),
          { set: { [DELETING]: mark } },
          all(isStill(DELETING, undefined), isStill(PLAN_SEQ, item[PLAN_SEQ]), isStill(VERSION, item[VERSION])),
        ),
        activeCheck(this.#namespaceId),
        await this.#parts.audit.entry(event),
      ]);
      if (reply.kind === "failed") continue;
      this.#parts.recent.note();
      await this.#finish(id, mark, event.atMs);
      return { kind: "deleted" };
    }
  }

  async list({ limit, cursor }: PageRequest): Promise<Page<Plan>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    return pageOf(this.#all(after, limit + 1), limit, ({ id }) => cursorOf(id));
  }

  async listEntities(id: string, { limit, cursor }: PageRequest): Promise<Page<Entity>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    return pageOf(this.#entitiesOf(id, after, limit + 1), limit, (entity) => cursorOf(entity.id));
  }

  async *#entitiesOf(id: string, after: string | undefined, count: number): AsyncGenerator<Entity> {
    const members = this.#records.query({
      partition: [PK, planPk(this.#namespaceId, id)],
      range: { name: SK, ...planMemberRange(after) },
      keysOnly: true,
      consistent: true,
      pageSize: count,
    });
    for await (const chunk of inChunks(members, count)) {
      const ids = chunk.flatMap((item) => parseMemberSk(keyIn(item).sk) ?? []);
      const keys = ids.map((entityId) => entityKey(this.#namespaceId, entityId));
      for (const item of await this.#records.getAll(keys, CONSISTENT)) {
        const entity = entityOf(item);
        if (entity?.planId === id) yield entity;
      }
    }
  }

  async *#all(after: string | undefined, count: number): AsyncGenerator<Plan> {
    const first = planPk(this.#namespaceId, "");
    const items = this.#records.query({
      index: NAMESPACE_INDEX,
      partition: [GSI4PK, this.#namespaceId],
      // `!` sorts before every character of an id, `$` right after the `#` before it.
      range: {
        name: GSI4SK,
        from: after === undefined ? first : `${planPk(this.#namespaceId, after)}!`,
        to: `${first.slice(0, -1)}$`,
      },
      keysOnly: true,
    });
    const metas = where(items, (item) => keyIn(item).sk === META_SK);
    for await (const chunk of inChunks(metas, count)) {
      for (const item of await this.#records.getAll(chunk.map(keyIn), CONSISTENT)) {
        const plan = planOf(item);
        if (plan !== undefined) yield plan;
      }
    }
  }

  /** The item as it is now, also one that is being deleted. Throws when the namespace is not active. */
  async #readToChange(id: string): Promise<Attributes | undefined> {
    const keys = [planKey(this.#namespaceId, id), namespaceIdKey(this.#namespaceId)];
    const [item, namespace] = await this.#records.getAll(keys, CONSISTENT);
    this.#parts.watch.requireActive(this.#namespaceId, namespace);
    return item;
  }

  /**
   * Removes limits and totals, then the plan itself; every step while it is marked by that very deletion. What the limits said stays:
   * entities that had the plan may still be brought up to now by it.
   */
  async #finish(id: string, mark: AttributeValue, atMs: number): Promise<void> {
    const key = planKey(this.#namespaceId, id);
    const marked = isStill(DELETING, mark);
    const partition = [PK, planPk(this.#namespaceId, id)] as const;
    const found = await collected(this.#records.query({ partition, consistent: true }));
    const writes = found.flatMap((item) => this.#ended(item, atMs));
    for (const chunk of chunksOf(writes, ITEMS_AT_ONCE)) {
      const reply = await this.#records.transact([checkRecord(key, marked), ...chunk]);
      // Another process has brought it to its end.
      if (reply.kind === "failed") return;
    }
    await this.#records.transact([deleteRecord(key, marked)]);
  }

  /** What becomes of an item of the plan's partition when the plan is deleted. */
  #ended(item: Attributes, atMs: number): readonly RecordWrite[] {
    const key = keyIn(item);
    if (key.sk === META_SK || isHistoryOnly(item)) return [];
    const scope = parseConfigKey(key);
    const namespaceId = this.#namespaceId;
    const left = scope && encodeConfig(undefined, item, { namespaceId, scope }, historyAfter(item, undefined, atMs));
    return [left === undefined ? deleteRecord(key, undefined) : putRecord(key, left, undefined)];
  }
}

const CONSISTENT = { consistent: true } as const;
const ITEMS_AT_ONCE = 50;
