import assert from "node:assert/strict";
import { test } from "node:test";
import { collected } from "../../src/adapters/dynamodb/paging.ts";
import { auditIndexKeys, auditKey } from "../../src/adapters/dynamodb/schema.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { ValidationError } from "../../src/domain/names/errors.ts";
import { allPages, T0 } from "../kit/contract-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround, S } from "./store-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];

await describeDynamo("the audit log in the table", (dynamodb) => {
  test("an event has the original's attributes, and is named as its sort key is", async (t) => {
    const { place, records, namespaceId } = await newGround(dynamodb, t);
    const event: AuditEvent = {
      ...{ eventId: "e1", atMs: T0, action: "limits_set" as const, entityId: "a", resource: "api", principal: "me" },
      details: { limits: rpm, none: null },
    };
    await place.scope.config.set({ level: "entity", entityId: "a", resource: "api" }, { limits: rpm }, event);
    const [item] = await collected(records.query({ partition: `${namespaceId}/AUDIT#a` }));
    const ulid = item?.event_id?.S ?? "";
    assert.match(ulid, /^[0-9A-HJKMNP-TV-Z]{26}$/);
    assert.deepEqual(item, {
      PK: S(`${namespaceId}/AUDIT#a`),
      SK: S(`#AUDIT#${ulid}`),
      GSI4PK: S(namespaceId),
      GSI4SK: S(`${namespaceId}/AUDIT#a`),
      entity_id: S("a"),
      event_id: S(ulid),
      own_event_id: S("e1"),
      action: S("limits_set"),
      timestamp: S("2026-03-15T12:00:00.000Z"),
      principal: S("me"),
      resource: S("api"),
      details: item?.details,
      ttl: item?.ttl,
    });
    assert.deepEqual((await place.scope.audit.list({}, { limit: 10 })).items, [event]);
  });

  test("events of the original stand among ours, by when they were written", async (t) => {
    const { place, put, namespaceId } = await newGround(dynamodb, t);
    const scope = { level: "entityDefault", entityId: "a" } as const;
    await place.scope.config.set(scope, { limits: rpm }, place.event("limits_set", "a"));
    const index = Object.entries(auditIndexKeys(namespaceId, "a")).map(([name, value]) => [name, S(value)] as const);
    for (const ulid of ["01J00000000000000000000000", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"]) {
      await put(auditKey(namespaceId, "a", ulid), {
        ...Object.fromEntries(index),
        ...{ entity_id: S("a"), event_id: S(ulid), action: S("limits_deleted"), timestamp: S("2026-01-01T00:00:00Z") },
        ...{ principal: { NULL: true }, resource: { NULL: true }, details: { M: {} } },
      });
    }
    for (const filter of [{}, { entityId: "a" }]) {
      for (const limit of [1, 2, 10]) {
        const events = await allPages((page) => place.scope.audit.list(filter, page), limit);
        const [first, second, third] = events.map(({ eventId }) => eventId);
        assert.deepEqual([first, third], ["7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01J00000000000000000000000"]);
        assert.match(second ?? "", /^event-/);
      }
    }
  });

  test("a cursor of another list is refused", async (t) => {
    const { place } = await newGround(dynamodb, t);
    for (const cursor of ["", "x", "e30", Buffer.from('["a"]').toString("base64url")]) {
      await assert.rejects(async () => place.scope.audit.list({}, { limit: 1, cursor }), ValidationError);
    }
  });
});
