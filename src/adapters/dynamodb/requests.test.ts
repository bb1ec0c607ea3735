import assert from "node:assert/strict";
import { test } from "node:test";
import { stories } from "../../../test/dynamodb/item-stories.ts";
import { fc } from "../../../test/properties.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import type { ItemWrite } from "../../ports/item-store.ts";
import { ItemRequests } from "./requests.ts";
import { Shapes } from "./requests-shape.ts";

const requests = new ItemRequests({ tableName: "limits", namespaceId: "ns" });
const key = { bucket: bucketKey("a", "api"), shard: 0 };
const KEY = { PK: { S: "ns/BUCKET#a#api#0" }, SK: { S: "#STATE" } };
const PLACE = {
  entity_id: { S: "a" },
  resource: { S: "api" },
  GSI2PK: { S: "ns/RESOURCE#api" },
  GSI2SK: { S: "BUCKET#a#0" },
  GSI3PK: { S: "ns/ENTITY#a" },
  GSI3SK: { S: "BUCKET#api#0" },
  GSI4PK: { S: "ns" },
  GSI4SK: { S: "BUCKET#a#api#0" },
};

function write(given: Partial<ItemWrite>): ItemWrite {
  return { key, kind: "update", item: "exists", when: [], set: {}, add: {}, remove: [], trace: undefined, ...given };
}

function sent(given: Partial<ItemWrite>) {
  const { operation, body } = requests.write(write(given));
  return { operation, input: JSON.parse(body) };
}

test("an update says its condition and its effects by numbers, and wants the item back, however it ends", () => {
  const { operation, input } = sent({
    when: [
      [{ name: "rf", is: "=", value: 5 }],
      [
        { name: "vu", is: "absent" },
        { name: "vu", is: ">", value: 7 },
      ],
      [{ name: "b_x.y-z_tk", is: "present" }],
    ],
    set: { rf: 6, cfl: "a b" },
    add: { "b_x.y-z_tk": -1000 },
    remove: ["vu"],
  });
  assert.equal(operation, "UpdateItem");
  assert.deepEqual(input, {
    TableName: "limits",
    Key: KEY,
    ConditionExpression:
      "attribute_exists(PK) AND #0 = :0 AND (attribute_not_exists(#1) OR #1 > :1) AND attribute_exists(#2)",
    UpdateExpression: "SET #0 = :2, #3 = :3 ADD #2 :4 REMOVE #1",
    ExpressionAttributeNames: { "#0": "rf", "#1": "vu", "#2": "b_x.y-z_tk", "#3": "cfl" },
    ExpressionAttributeValues: {
      ":0": { N: "5" },
      ":1": { N: "7" },
      ":2": { N: "6" },
      ":3": { S: "a b" },
      ":4": { N: "-1000" },
    },
    ReturnValues: "ALL_NEW",
    ReturnValuesOnConditionCheckFailure: "ALL_OLD",
  });
});

test("what is copied is what was there before, or 0", () => {
  const { input } = sent({ copy: { b_x_tp: "b_x_tc", b_rqp: "b_rq" }, set: { b_x_tc: 5 } });
  assert.equal(input.UpdateExpression, "SET #1 = :0, #0 = if_not_exists(#1, :none), #2 = if_not_exists(#3, :none)");
  assert.deepEqual(input.ExpressionAttributeNames, { "#0": "b_x_tp", "#1": "b_x_tc", "#2": "b_rqp", "#3": "b_rq" });
  assert.deepEqual(input.ExpressionAttributeValues, { ":none": { N: "0" }, ":0": { N: "5" } });
});

test("unequal means there, of the same type, and unequal: DynamoDB alone would take what is missing for unequal", () => {
  const { input } = sent({
    when: [
      [
        { name: "n0", is: "<>", value: 5 },
        { name: "x", is: "<>", value: "a" },
        { name: "y", is: "<>", value: true },
      ],
    ],
  });
  assert.equal(
    input.ConditionExpression,
    "attribute_exists(PK) AND ((attribute_type(#0, :N) AND #0 <> :0) OR " +
      "(attribute_type(#1, :S) AND #1 <> :1) OR (attribute_type(#2, :BOOL) AND #2 <> :2))",
  );
  assert.deepEqual(input.ExpressionAttributeValues, {
    ":N": { S: "N" },
    ":S": { S: "S" },
    ":BOOL": { S: "BOOL" },
    ":0": { N: "5" },
    ":1": { S: "a" },
    ":2": { BOOL: true },
  });
});

test("an update that may make its item gives it its place; one of an item that is there changes no key", () => {
  for (const item of ["either", "missing"] as const) {
    const { input } = sent({ item, add: { x: 1 } });
    const names = Object.values(input.ExpressionAttributeNames).sort();
    assert.deepEqual(names, [...Object.keys(PLACE), "x"].sort());
  }
  assert.deepEqual(Object.values(sent({ add: { x: 1 } }).input.ExpressionAttributeNames), ["x"]);
});

test("a put has all of its item, its place and its keys", () => {
  const { operation, input } = sent({ kind: "put", item: "missing", set: { rf: 5, disabled: true, cfl: "rpm" } });
  assert.equal(operation, "PutItem");
  assert.deepEqual(input, {
    TableName: "limits",
    Item: { ...KEY, ...PLACE, rf: { N: "5" }, disabled: { BOOL: true }, cfl: { S: "rpm" } },
    ConditionExpression: "attribute_not_exists(PK)",
    ReturnValuesOnConditionCheckFailure: "ALL_OLD",
  });
});

test("the record of an operation stands beside shard 0, in the namespace's index and in no other", () => {
  const { input } = sent({
    key: { ...key, operation: "order-1" },
    kind: "put",
    item: "either",
    set: { writer: 3, amounts: '[{"limit":"rpm","milli":5000}]', ttl: 9 },
  });
  assert.deepEqual(input.Item, {
    PK: KEY.PK,
    SK: { S: "#OP#order-1" },
    entity_id: { S: "a" },
    resource: { S: "api" },
    GSI4PK: { S: "ns" },
    GSI4SK: { S: "OP#a#api#order-1" },
    writer: { N: "3" },
    ttl: { N: "9" },
    amounts: { M: { rpm: { N: "5" } } },
  });
});

test("a delete has its condition; without one it deletes whatever is there", () => {
  const { operation, input } = sent({ kind: "delete", item: "exists", when: [[{ name: "rf", is: "=", value: 5 }]] });
  assert.equal(operation, "DeleteItem");
  assert.equal(input.ConditionExpression, "attribute_exists(PK) AND #0 = :0");
  const bare = sent({ kind: "delete", item: "either" }).input;
  assert.deepEqual(bare, { TableName: "limits", Key: KEY, ReturnValuesOnConditionCheckFailure: "ALL_OLD" });
});

test("a check alone is a transaction of one: nothing else looks at a condition without writing", () => {
  const { operation, input } = sent({ kind: "check", item: "missing" });
  assert.equal(operation, "TransactWriteItems");
  const check = { TableName: "limits", Key: KEY, ConditionExpression: "attribute_not_exists(PK)" };
  assert.deepEqual(input, {
    TransactItems: [{ ConditionCheck: { ...check, ReturnValuesOnConditionCheckFailure: "ALL_OLD" } }],
  });
});

test("a transaction has each write, its token, and the event as the original would log it", () => {
  const event: AuditEvent = {
    eventId: "e-1",
    atMs: Date.UTC(2026, 0, 1, 12) + 5,
    action: "bucket_topped_up",
    entityId: "a",
    resource: "api",
    details: { amounts: { rpm: 5 }, shards: 1 },
  };
  const other = { bucket: bucketKey("b", "api"), shard: 1 };
  const { operation, body } = requests.transaction(
    [
      write({ add: { rf: 1 } }),
      write({ key: other, kind: "delete" }),
      write({ key: { ...other, shard: 2 }, kind: "check", item: "either" }),
      write({ key: { ...other, shard: 3 } }),
      write({ key: { ...other, shard: 4 }, kind: "put", item: "either", set: { x: 1 } }),
    ],
    "token-1",
    { event, auditId: "01ULID", keptS: 90 * 86_400 },
  );
  assert.equal(operation, "TransactWriteItems");
  const input = JSON.parse(body);
  assert.equal(input.ClientRequestToken, "token-1");
  const kinds = input.TransactItems.flatMap((item: object) => Object.keys(item));
  // The fourth changes nothing: a transaction has no such update.
  assert.deepEqual(kinds, ["Update", "Delete", "ConditionCheck", "ConditionCheck", "Put", "Put"]);
  assert.equal(
    input.TransactItems[2].ConditionCheck.ConditionExpression,
    "(attribute_exists(#0) OR attribute_not_exists(#0))",
  );
  assert.ok(!body.includes("ReturnValues"), "a transaction shows no items");
  assert.deepEqual(input.TransactItems[5].Put.Item, {
    PK: { S: "ns/AUDIT#a" },
    SK: { S: "#AUDIT#01ULID" },
    GSI4PK: { S: "ns" },
    GSI4SK: { S: "ns/AUDIT#a" },
    entity_id: { S: "a" },
    event_id: { S: "01ULID" },
    own_event_id: { S: "e-1" },
    action: { S: "bucket_topped_up" },
    timestamp: { S: "2026-01-01T12:00:00.005Z" },
    principal: { NULL: true },
    resource: { S: "api" },
    details: { M: { amounts: { M: { rpm: { N: "5" } } }, shards: { N: "1" } } },
    ttl: { N: String(Date.UTC(2026, 0, 1, 12) / 1000 + 1 + 90 * 86_400) },
  });
});

test("a transaction of more than a hundred items, its event included, is not put together", () => {
  const writes = Array.from({ length: 100 }, (_, shard) => write({ key: { ...key, shard }, add: { x: 1 } }));
  assert.equal(JSON.parse(requests.transaction(writes, "t", undefined).body).TransactItems.length, 100);
  const event = { eventId: "e", atMs: 0, action: "bucket_reset", entityId: "a", details: {} } as const;
  const audit = { event, auditId: "x", keptS: 1 };
  assert.throws(() => requests.transaction(writes, "t", audit), /A transaction of 101 items/);
  assert.throws(() => requests.transaction([], "t", undefined), /A transaction of 0 items/);
});

test("nobody writes what follows from the key", () => {
  for (const name of ["PK", "SK", "entity_id", "resource", "GSI2SK", "GSI4PK"]) {
    assert.throws(() => requests.write(write({ set: { [name]: "x" } })), /derived from the key of an item/);
    assert.throws(() => requests.write(write({ add: { [name]: 1 } })), /derived from the key/);
    assert.throws(() => requests.write(write({ remove: [name] })), /derived from the key/);
    assert.throws(() => requests.write(write({ kind: "put", set: { [name]: "x" } })), /derived from the key/);
  }
});

test("a clause without tests, and a number that is not exact, are mistakes of ours", () => {
  assert.throws(() => requests.write(write({ when: [[]] })), /A clause without tests/);
  assert.throws(() => requests.write(write({ add: { x: 0.5 } })), /"x" is 0.5/);
});

test("writes of one shape share one text but for the values; another operator or type is another shape", () => {
  const shapes = new Shapes();
  const told = (is: "=" | "<>", value: number | string) => {
    const text = shapes.members({ ...write({ when: [[{ name: "x", is, value }]] }), place: {} });
    return text.slice(0, text.indexOf(`"ExpressionAttributeValues"`));
  };
  assert.equal(told("=", 1), told("=", 2));
  assert.equal(told("=", 1), told("=", "a"), "equality asks for no type");
  assert.notEqual(told("=", 1), told("<>", 1));
  assert.notEqual(told("<>", 1), told("<>", "a"));
});

test("what was remembered of other writes changes no request", () => {
  const options = { tableName: "limits", namespaceId: "ns" };
  const remembering = new ItemRequests(options);
  fc.assert(
    fc.property(stories, (steps) => {
      for (const step of steps) {
        const told = (made: ItemRequests) =>
          step.kind === "write" ? made.write(step.write) : made.transaction(step.writes, step.token, undefined);
        const request = told(remembering);
        assert.deepEqual(request, told(new ItemRequests(options)));
        JSON.parse(request.body);
      }
    }),
  );
});
