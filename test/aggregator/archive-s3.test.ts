import assert from "node:assert/strict";
import { test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { type HandlerParts, handle } from "../../src/aggregator/handler.ts";
import { eventsOf, verifyArchive } from "../../src/aggregator/read-archive.ts";
import type { StreamRecord } from "../../src/aggregator/stream-source.ts";
import { archiveBatch } from "../../src/aggregator/write-archive.ts";
import { describeArchive } from "../s3/moto.ts";
import { type ArchiveGround, collect, EVERYTHING, newArchive } from "./archive-kit.ts";
import { auditImage, change, removal } from "./stream-records.ts";

const NOW_MS = Date.UTC(2026, 5, 1);

function expired(i: number, namespaceId = "ns1"): StreamRecord {
  const timestamp = new Date(Date.UTC(2026, 2, 15, 20) + i * 3_600_000).toISOString();
  const eventId = `01J${String(i).padStart(23, "0")}`;
  return removal(auditImage({ namespaceId, entityId: `secret-${i}`, eventId, timestamp }), "lambda", String(1000 + i));
}

const idOf = (i: number) => `own-01J${String(i).padStart(23, "0")}`;

function partsOf({ archive, metrics }: ArchiveGround, lines: string[]): HandlerParts {
  const sweep = () => Promise.reject(new Error("nobody asked for a sweep"));
  const clock = { now: () => NOW_MS, sleep: async () => {} };
  const write = (line: string) => lines.push(line);
  return { stack: "limits", archive, sweep, metrics, log: archive.log, write, clock };
}

await describeArchive("the audit archive in S3", (servers) => {
  test("a batch becomes one gzip object a day, which reads back as the events, newest first", async (t) => {
    const ground = await newArchive(t, servers, "some/prefix");
    const records = [expired(0), change("ns1/BUCKET#a#b#0", "#STATE", "1001"), expired(2), expired(5)];
    assert.deepEqual(await archiveBatch(records, "shard-1", ground.archive), { events: 3, failedAt: undefined });
    const keys = await collect(ground.objects.keys(""));
    assert.deepEqual(keys, [
      "audit/year=2026/month=03/day=15/audit-shard-1-1000-1002.jsonl.gz",
      "audit/year=2026/month=03/day=16/audit-shard-1-1005-1005.jsonl.gz",
    ]);
    const answer = await servers.s3.send("HEAD", `${ground.bucket}/some/prefix/${keys[0]}`);
    assert.equal(answer.headers.get("content-type"), "application/x-ndjson");
    assert.equal(answer.headers.get("content-encoding"), "gzip");
    const [first] = gunzipSync(await ground.objects.get(keys[0]!))
      .toString()
      .split("\n");
    assert.deepEqual(Object.keys(JSON.parse(first!)).sort(), [
      ...["action", "details", "entity_id", "event_id", "namespace_id", "own_event_id", "principal"],
      ...["resource", "timestamp"],
    ]);
    const events = await collect(eventsOf(ground.objects, EVERYTHING));
    assert.deepEqual(
      events.map(({ eventId }) => eventId),
      [idOf(5), idOf(2), idOf(0)],
    );
    assert.deepEqual(events[2], {
      ...{ eventId: idOf(0), atMs: Date.UTC(2026, 2, 15, 20), action: "limits_set", entityId: "secret-0" },
      ...{ principal: "ops", namespaceId: "ns1", details: { limits: [{ name: "rpm", capacity: 10 }] } },
    });
  });

  test("replayed and split elsewhere, each event is shown once, and the archive verifies", async (t) => {
    const ground = await newArchive(t, servers, "");
    const records = [expired(0), expired(1), expired(2), expired(9, "ns2")];
    await archiveBatch(records, "s", ground.archive);
    await archiveBatch(records, "s", ground.archive);
    await archiveBatch(records.slice(1, 3), "s", ground.archive);
    await archiveBatch(records.slice(0, 2), undefined, ground.archive);
    const shown = await collect(eventsOf(ground.objects, EVERYTHING));
    assert.deepEqual(
      shown.map(({ eventId }) => eventId),
      [idOf(9), idOf(2), idOf(1), idOf(0)],
    );
    const own = { ...EVERYTHING, namespaceId: "ns2" };
    assert.deepEqual((await collect(eventsOf(ground.objects, own))).length, 1);
    const some = { ...EVERYTHING, fromMs: Date.UTC(2026, 2, 15, 21), toMs: Date.UTC(2026, 2, 15, 22) };
    assert.deepEqual(
      (await collect(eventsOf(ground.objects, some))).map(({ eventId }) => eventId),
      [idOf(1)],
    );
    const days = await collect(verifyArchive(ground.objects, ground.receipts));
    assert.deepEqual(
      days.map(({ day, ok, events, recorded, found, objects }) => ({ day, ok, events, recorded, found, objects })),
      [
        { day: "2026-03-16", ok: true, events: 1, recorded: 1, found: 1, objects: 1 },
        { day: "2026-03-15", ok: true, events: 3, recorded: 7, found: 7, objects: 3 },
      ],
    );
  });

  for (const passage of ["refuse", "unavailable", "reset"] as const) {
    test(`a put that fails (${passage}) fails the batch from its first record on; what was put stays`, async (t) => {
      const ground = await newArchive(t, servers, "");
      ground.proxy.choose = ({ method, path }) => (method === "PUT" && path.includes("day=16") ? passage : "pass");
      const lines: string[] = [];
      const records = [change("x/y", "z", "999"), expired(0), expired(5), expired(1), expired(6)];
      const answer = await handle({ Records: records }, {}, partsOf(ground, lines));
      assert.deepEqual(answer, { batchItemFailures: [{ itemIdentifier: "1005" }] });
      const metrics = JSON.parse(lines[0]!);
      assert.deepEqual([metrics.Archived, metrics.ArchiveFailures, metrics.Records], [2, 1, 5]);
      assert.equal(metrics._aws.CloudWatchMetrics[0].Namespace, "zae-limiter");
      assert.deepEqual(metrics._aws.CloudWatchMetrics[0].Dimensions, [["Stack"]]);
      assert.equal((await collect(eventsOf(ground.objects, EVERYTHING))).length, 2);
      // Lambda comes again, from there.
      ground.proxy.choose = () => "pass";
      assert.deepEqual(await handle({ Records: records.slice(2) }, {}, partsOf(ground, lines)), {
        batchItemFailures: [],
      });
      assert.equal((await collect(eventsOf(ground.objects, EVERYTHING))).length, 4);
      assert.ok((await collect(verifyArchive(ground.objects, ground.receipts))).every(({ ok }) => ok));
      assert.ok(!ground.logged.join().includes("secret-"), "logs name no entity");
    });
  }

  test("a put whose answer is lost is put again, and shown once", async (t) => {
    const ground = await newArchive(t, servers, "");
    let lost = 0;
    ground.proxy.choose = ({ method }) => (method === "PUT" && lost++ === 0 ? "answerLost" : "pass");
    assert.deepEqual(await archiveBatch([expired(0)], "s", ground.archive), { events: 1, failedAt: undefined });
    assert.equal(ground.proxy.requests.filter(({ method }) => method === "PUT").length, 2);
    assert.equal((await collect(eventsOf(ground.objects, EVERYTHING))).length, 1);
  });

  test("an object that is lost, cut or changed is found by its day", async (t) => {
    const ground = await newArchive(t, servers, "p");
    await archiveBatch([expired(0), expired(1), expired(5), expired(30)], "s", ground.archive);
    const [first, second, third] = await collect(ground.objects.keys(""));
    assert.ok((await servers.s3.send("DELETE", `${ground.bucket}/p/${first}`)).ok);
    await ground.objects.put({ key: second!, body: gzipSync("{}\n") });
    const days = await collect(verifyArchive(ground.objects, ground.receipts));
    assert.deepEqual(
      days.map(({ day, ok, missing, damaged }) => ({ day, ok, missing, damaged })),
      [
        { day: "2026-03-17", ok: true, missing: [], damaged: [] },
        { day: "2026-03-16", ok: false, missing: [], damaged: [second] },
        { day: "2026-03-15", ok: false, missing: [first], damaged: [] },
      ],
    );
    await assert.rejects(collect(eventsOf(ground.objects, EVERYTHING)), { code: "archive_unreadable" });
    assert.ok(third);
  });

  test("a list of more objects than S3 shows at once is complete", async (t) => {
    const ground = await newArchive(t, servers, "");
    ground.proxy.rewrite = (path) => (path.includes("list-type=2") ? `${path}&max-keys=2` : path);
    await Promise.all([1, 2, 3, 4, 5].map((i) => archiveBatch([expired(i * 24)], "s", ground.archive)));
    assert.equal((await collect(ground.objects.keys("audit/"))).length, 5);
    assert.equal((await ground.objects.folders("audit/year=2026/month=03/")).length, 5);
    assert.equal((await collect(eventsOf(ground.objects, EVERYTHING))).length, 5);
    assert.ok(ground.proxy.requests.filter(({ path }) => path.includes("continuation-token")).length >= 4);
  });

  test("a bucket that is not there is named, with the remedy", async (t) => {
    const ground = await newArchive(
      t,
      { ...servers, s3: { ...servers.s3, newBucket: async () => "no-such-bucket" } },
      "",
    );
    await assert.rejects(collect(eventsOf(ground.objects, EVERYTHING)), { code: "archive_not_found" });
    const { failedAt, cause } = await archiveBatch([expired(0)], "s", ground.archive);
    assert.equal(failedAt, 0);
    assert.match(String(cause), /no bucket for the archive s3:\/\/no-such-bucket; create it/);
  });
});
