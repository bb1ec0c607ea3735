import assert from "node:assert/strict";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { newEntity } from "../../src/domain/config/entity.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { type Suite, samePaged, T0, type TestedNamespace } from "./contract-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];

/** Another set each time: one that is there already would be no change. */
const another = (i: number) => [Limit.perMinute("rpm", 10 + i)];

/** The audit log: every change with its event, no event without a change. */
export function auditContract(suite: Suite): void {
  suite.test("events come back newest first as they were written, page by page", async (place) => {
    const events: AuditEvent[] = [];
    for (let i = 0; i < 5; i++) {
      const event: AuditEvent = {
        eventId: `e${i}`,
        // The third carries an older time: it still was the third to happen.
        atMs: i === 2 ? T0 - 1000 : T0 + i,
        action: "limits_set",
        entityId: "$SYSTEM",
        ...(i % 2 === 0 ? { principal: "arn:aws:iam::1:user/x", resource: "api" } : {}),
        details: { limits: rpm, nested: { list: [1, null, "ü"] } },
      };
      await place.scope.config.set({ level: "system" }, { limits: another(i) }, event);
      events.unshift(event);
    }
    await samePaged((page) => place.scope.audit.list({}, page), events);
  });

  suite.test("the log of one entity leaves out all others, page by page", async (place) => {
    const ofA: AuditEvent[] = [];
    for (let i = 0; i < 6; i++) {
      const entityId = i % 2 === 0 ? "a" : "ab";
      const event = place.event("limits_set", entityId);
      await place.scope.config.set({ level: "entityDefault", entityId }, { limits: another(i) }, event);
      if (entityId === "a") ofA.unshift(event);
    }
    await samePaged((page) => place.scope.audit.list({ entityId: "a" }, page), ofA);
    await samePaged((page) => place.scope.audit.list({ entityId: "nobody" }, page), []);
  });

  suite.test("events that come while the log is read do not shift its pages", async (place) => {
    for (let i = 0; i < 4; i++) await place.set({ level: "system" }, another(i));
    const first = await place.scope.audit.list({}, { limit: 2 });
    await place.set({ level: "system" }, another(4));
    assert.ok(first.cursor !== undefined);
    const second = await place.scope.audit.list({}, { limit: 2, cursor: first.cursor });
    const ids = [...first.items, ...second.items].map(({ eventId }) => eventId);
    assert.deepEqual(ids, ["event-4", "event-3", "event-2", "event-1"]);
  });

  suite.test("what changed nothing leaves no event", async (place) => {
    const { entities, config } = place.scope;
    await place.create({ id: "a" });
    await place.create({ id: "b", parentId: "a" });
    const before = await actions(place);
    const event = place.event("entity_updated", "a");
    await entities.create(newEntity({ id: "a" }, T0), event);
    await entities.create(newEntity({ id: "c", parentId: "nobody" }, T0), event);
    await entities.update("a", { patch: { name: "x" }, version: 7, nowMs: T0 }, event);
    await entities.update("a", { patch: { parentId: "b" }, version: undefined, nowMs: T0 }, event);
    await entities.update("nobody", { patch: { name: "x" }, version: undefined, nowMs: T0 }, event);
    await entities.delete("a", event);
    await entities.delete("nobody", event);
    await config.delete({ level: "system" }, event, "all");
    await place.store.namespaces.delete("nobody", T0, event, place.namespaceId);
    await place.store.namespaces.recover("nobody", event, place.namespaceId);
    assert.deepEqual(await actions(place), before);
  });

  suite.test("every change of configuration leaves its event", async (place) => {
    const { entities, config } = place.scope;
    await place.create({ id: "a" });
    await entities.update(
      "a",
      { patch: { name: "x" }, version: undefined, nowMs: T0 },
      place.event("entity_updated", "a"),
    );
    await config.set({ level: "entityDefault", entityId: "a" }, { limits: rpm }, place.event("limits_set", "a"));
    await config.delete({ level: "entityDefault", entityId: "a" }, place.event("limits_deleted", "a"), "all");
    await entities.delete("a", place.event("entity_deleted", "a"));
    // The trail of an entity outlives it.
    assert.deepEqual(await actions(place, "a"), [
      "entity_deleted",
      "limits_deleted",
      "limits_set",
      "entity_updated",
      "entity_created",
    ]);
  });
}

async function actions(place: TestedNamespace, entityId?: string): Promise<readonly string[]> {
  const filter = entityId === undefined ? {} : { entityId };
  const { items } = await place.scope.audit.list(filter, { limit: 100 });
  return items.map(({ action }) => action);
}
