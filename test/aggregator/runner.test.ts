import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { describeArchive } from "../s3/moto.ts";
import { S3Proxy } from "../s3/s3-proxy.ts";
import { CREDENTIALS, collect } from "./archive-kit.ts";
import { newExpiringTable } from "./expiring-table.ts";
import { type FollowOptions, follow, prepareTable, readArchive, verifyArchive } from "./package.ts";

await describeArchive("the runner on DynamoDB Local and S3", ({ dynamodb, s3 }) => {
  test("once: events that expired are in the archive, a second run adds nothing, and it verifies", async (t) => {
    const table = await newExpiringTable(t, dynamodb);
    const place = { archive: `s3://${await s3.newBucket()}/some`, s3Endpoint: s3.endpoint };
    const options = { ...table.way, ...place, once: true, logLevel: "error" } as const;
    const events = await table.change(5);
    assert.equal(events.length, 5);
    assert.equal((await quiet(options).done).archived, 0, "nothing has expired yet");
    await table.expireAll();
    const report = await quiet(options).done;
    assert.equal(report.archived, 5);
    assert.equal(report.gaps, 0);
    const archived = await collect(readArchive({ ...place, credentials: CREDENTIALS, region: "us-east-1" }));
    assert.deepEqual(archived.map(({ eventId }) => eventId).sort(), [...events].sort());
    assert.deepEqual(
      archived.map(({ eventId }) => eventId),
      [...events],
      "newest first, as the audit log shows them",
    );
    assert.equal((await quiet(options).done).archived, 0);
    const days = await collect(verifyArchive({ ...table.way, ...place }));
    assert.deepEqual(
      days.map(({ ok, events: count }) => ({ ok, count })),
      [{ ok: true, count: 5 }],
    );
  });

  test("once: a put that fails is an error, the checkpoint stays, and the next run archives it", async (t) => {
    const table = await newExpiringTable(t, dynamodb);
    const proxy = await S3Proxy.open(t, s3.endpoint);
    const place = { archive: `s3://${await s3.newBucket()}`, s3Endpoint: proxy.endpoint };
    const options = { ...table.way, ...place, once: true, sweep: false, logLevel: "error" } as const;
    await table.change(3);
    await table.expireAll();
    proxy.choose = ({ method }) => (method === "PUT" ? "refuse" : "pass");
    await assert.rejects(quiet(options).done, { code: "archive_unavailable" });
    await assert.rejects(quiet(options).done, { code: "archive_unavailable" });
    proxy.choose = () => "pass";
    assert.equal((await quiet(options).done).archived, 3);
  });

  test("three at once share the stream; nothing is lost when they come and go", async (t) => {
    const table = await newExpiringTable(t, dynamodb);
    const place = { archive: `s3://${await s3.newBucket()}`, s3Endpoint: s3.endpoint };
    const options = { ...table.way, ...place, sweep: false, logLevel: "error" } as const;
    const runners = ["a", "b", "c"].map((runner) => quiet({ ...options, runner }));
    const events = [...(await table.change(4))];
    await table.expireAll();
    await runners[0]!.stop();
    events.push(...(await table.change(4)));
    await table.expireAll();
    await Promise.all(runners.map((runner) => runner.stop()));
    await quiet({ ...options, once: true }).done;
    const archived = await collect(readArchive({ ...place, credentials: CREDENTIALS, region: "us-east-1" }));
    assert.deepEqual(archived.map(({ eventId }) => eventId).sort(), events.sort());
  });

  test("killed in the middle of its work, it loses nothing", async (t) => {
    const table = await newExpiringTable(t, dynamodb);
    const proxy = await S3Proxy.open(t, s3.endpoint);
    const place = { archive: `s3://${await s3.newBucket()}`, s3Endpoint: proxy.endpoint };
    const events = await table.change(6);
    await table.expireAll();
    // Each is killed at a put: before S3 has it, then after S3 has it but before anybody heard of it.
    for (const passage of ["reset", "answerLost"] as const) {
      let isDead = false;
      await new Promise<void>((resolve) => {
        const child = runner({ ...table.way, ...place, runner: "the-same", sweep: false, logLevel: "error" });
        child.once("exit", () => {
          isDead = true;
          resolve();
        });
        proxy.choose = ({ method }) => {
          if (method !== "PUT" || isDead) return "pass";
          child.kill("SIGKILL");
          return passage;
        };
      });
    }
    proxy.choose = () => "pass";
    await quiet({ ...table.way, ...place, runner: "the-same", once: true, logLevel: "error" }).done;
    const archived = await collect(readArchive({ ...place, credentials: CREDENTIALS, region: "us-east-1" }));
    assert.deepEqual(archived.map(({ eventId }) => eventId).sort(), [...events].sort());
  });

  test("a table without a stream, and one of another version, are told apart with a remedy", async (t) => {
    const table = await newExpiringTable(t, dynamodb);
    const place = { archive: `s3://${await s3.newBucket()}`, s3Endpoint: s3.endpoint };
    const bare = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    await assert.rejects(quiet({ ...table.way, ...place, stack: bare, once: true }).done, { code: "version_missing" });
    await prepareTable({ ...table.way, stack: bare });
    await assert.rejects(quiet({ ...table.way, ...place, stack: bare, once: true }).done, { code: "stream_missing" });
    await assert.rejects(quiet({ ...table.way, ...place, stack: "no-such-table", once: true }).done, (error: Error) => {
      assert.match(String(error), /no-such-table/);
      return true;
    });
    assert.throws(() => follow({ ...table.way, sweep: false }), { code: "option_invalid" });
    await assert.rejects(quiet({ ...table.way, archive: "bucket", once: true }).done, { code: "archive_invalid" });
  });
});

/** Says nothing. */
function quiet(options: FollowOptions) {
  return follow({ ...options, write: () => {} });
}

function runner(options: FollowOptions) {
  const entry = JSON.stringify(fileURLToPath(new URL("package.ts", import.meta.url)));
  const script = `const { follow } = await import(${entry}); await follow(${JSON.stringify(options)}).done;`;
  return spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "ignore" });
}
