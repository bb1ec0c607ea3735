import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { auditImage, change, type Remover, removal } from "../../test/aggregator/stream-records.ts";
import { SeededRandom } from "../testing/random.ts";
import { identityOf } from "./archive-line.ts";
import { planArchive } from "./plan-archive.ts";
import type { StreamRecord } from "./stream-source.ts";

const ULID = "01HZZZZZZZZZZZZZZZZZZZZZZZ";
const item = { namespaceId: "ns1", entityId: "key-1", eventId: ULID, timestamp: "2026-03-15T12:00:00.000Z" };

test("an event that expired becomes one line of its day, with its namespace", () => {
  for (const remover of ["lambda", "sdk", "local"] as const) {
    const { objects, unreadable } = planArchive([removal(auditImage(item), remover, "100")], { shard: "shardId-7" });
    assert.deepEqual(unreadable, []);
    assert.deepEqual(objects, [
      {
        key: "audit/year=2026/month=03/day=15/audit-shardId-7-100-100.jsonl.gz",
        day: "2026-03-15",
        lines: [
          {
            ...{ event_id: ULID, entity_id: "key-1", action: "limits_set", timestamp: "2026-03-15T12:00:00.000Z" },
            ...{ principal: "ops", resource: null, namespace_id: "ns1", own_event_id: `own-${ULID}` },
            details: { limits: [{ name: "rpm", capacity: 10 }] },
          },
        ],
        places: [0],
      },
    ]);
  }
});

test("what was deleted by hand, or is no audit event, is not archived", () => {
  const expired = { ...auditImage(item), PK: { S: "ns1/ENTITY#AUDIT#x" } };
  const records = [
    removal(auditImage(item), "somebody", "1"),
    removal({ ...auditImage(item), SK: { S: "#STATE" } }, "lambda", "2"),
    removal(expired, "lambda", "3"),
    { ...removal(auditImage(item), "lambda", "4"), eventName: "MODIFY" },
    change("ns1/AUDIT#a", "#AUDIT#x", "5"),
    {},
  ];
  assert.deepEqual(planArchive(records), { objects: [], unreadable: [] });
});

test("an event that came without its content is told, not passed over", () => {
  const { dynamodb, ...rest } = removal(auditImage(item), "lambda", "1");
  const { OldImage: _, ...bare } = dynamodb!;
  assert.deepEqual(planArchive([{}, { ...rest, dynamodb: bare }]), { objects: [], unreadable: [1] });
});

test("the day is the event's: by its time in whichever spelling, else by its id, else by the removal", () => {
  const dayOf = (timestamp: string, eventId: string) =>
    planArchive([removal(auditImage({ ...item, timestamp, eventId }), "lambda", "1")]).objects[0]?.day;
  assert.equal(dayOf("2026-03-15T23:59:59.999Z", ULID), "2026-03-15");
  assert.equal(dayOf("2026-03-15T23:30:00-01:00", ULID), "2026-03-16");
  assert.equal(dayOf("2026-03-15T00:00:00.123456+00:00", ULID), "2026-03-15");
  assert.equal(dayOf("2026-03-15T00:00:00.123456", ULID), "2026-03-15");
  // From the ULID specification: 01ARYZ6S41 is 2016-07-30.
  assert.equal(dayOf("nonsense", "01ARYZ6S41TSV4RRFFQ69G5FAV"), "2016-07-30");
  assert.equal(dayOf("nonsense", "nonsense"), "2026-09-21");
});

test("batches of two shards with the same sequence numbers never overwrite each other", () => {
  const other = { ...item, eventId: "01J00000000000000000000000" };
  const plan = (which: typeof item, shard?: string) =>
    planArchive([removal(auditImage(which), "lambda", "1")], shard === undefined ? {} : { shard }).objects[0]?.key;
  assert.notEqual(plan(item), plan(other));
  assert.notEqual(plan(item, "a"), plan(item, "b"));
  assert.equal(plan(item), plan(item));
});

describe("random streams, split into batches anywhere and replayed", () => {
  const STREAMS = 500;
  const BATCHES_EACH = 20;

  test(`${STREAMS * BATCHES_EACH} batches: every expired event is there, nothing else is, a key never changes its content`, () => {
    let batches = 0;
    for (let seed = 1; seed <= STREAMS; seed++) {
      const random = new SeededRandom(seed);
      const stream = randomStream(random);
      const archive = new Map<string, string>();
      const shown = new Map<string, string>();
      const shard = random.integer(0, 1) === 0 ? { shard: `shard-${seed}` } : {};
      for (const [from, to] of coveringBatches(random, stream.records.length, BATCHES_EACH)) {
        batches += 1;
        for (const { key, day, lines, places } of planArchive(stream.records.slice(from, to), shard).objects) {
          const text = JSON.stringify(lines);
          assert.equal(archive.get(key) ?? text, text, `seed ${seed}: ${key} got other content`);
          archive.set(key, text);
          assert.equal(new Set(lines.map(identityOf)).size, lines.length, `seed ${seed}: an event twice in one object`);
          assert.ok(places.every((place) => place >= 0 && place < to - from));
          for (const line of lines) {
            assert.equal(line.timestamp.slice(0, 10), day, `seed ${seed}`);
            assert.ok(key.includes(`year=${day.slice(0, 4)}/month=${day.slice(5, 7)}/day=${day.slice(8)}/`));
            assert.equal(shown.get(identityOf(line)) ?? day, day, `seed ${seed}: one event on two days`);
            shown.set(identityOf(line), day);
          }
        }
      }
      assert.deepEqual([...shown.keys()].sort(), [...stream.expired].sort(), `seed ${seed}`);
    }
    assert.equal(batches, STREAMS * BATCHES_EACH);
  });
});

function randomStream(random: SeededRandom): { records: StreamRecord[]; expired: Set<string> } {
  const expired = new Set<string>();
  const records = Array.from({ length: 1 + random.integer(0, 59) }, (_, i): StreamRecord => {
    const sequence = String(1_000 + i);
    const remover = (["lambda", "sdk", "local", "somebody"] as const)[random.integer(0, 3)] as Remover;
    if (random.integer(0, 2) === 0) return change(`ns${random.integer(0, 2)}/BUCKET#e#r#0`, "#STATE", sequence);
    const namespaceId = `ns${random.integer(0, 2)}`;
    const eventId = `01J${String(i).padStart(23, "0")}`;
    const timestamp = new Date(Date.UTC(2026, 0, 31, 22) + random.integer(0, 5) * 3_600_000).toISOString();
    if (remover !== "somebody") expired.add(`${namespaceId}/${eventId}`);
    return removal(
      auditImage({ namespaceId, entityId: `e${random.integer(0, 2)}`, eventId, timestamp }),
      remover,
      sequence,
    );
  });
  return { records, expired };
}

/** Draws `count` batches that cover everything together, in any order, most of it more than once. */
function coveringBatches(random: SeededRandom, length: number, count: number): [from: number, to: number][] {
  const batches: [number, number][] = [];
  // First in order, from end to end.
  for (let from = 0; from < length && batches.length < count / 2; ) {
    const to = batches.length === count / 2 - 1 ? length : Math.min(length, from + 1 + random.integer(0, length - 1));
    batches.push([from, to]);
    from = to;
  }
  while (batches.length < count) {
    const from = random.integer(0, length - 1);
    batches.push([from, Math.min(length, from + 1 + random.integer(0, 19))]);
  }
  return batches;
}
