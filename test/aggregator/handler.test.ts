import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { type AggregatorAnswer, createHandler, type StreamRecord } from "../../src/entry/aggregator.ts";
import { describeArchive } from "../s3/moto.ts";
import { S3Proxy } from "../s3/s3-proxy.ts";
import { CREDENTIALS } from "./archive-kit.ts";
import { newExpiringTable } from "./expiring-table.ts";
import { auditImage, removal } from "./stream-records.ts";

const expired = (sequence: string): StreamRecord =>
  removal(
    auditImage({
      ...{ namespaceId: "ns1", entityId: "secret-key", timestamp: "2026-03-15T12:00:00Z" },
      eventId: `01J${sequence.padStart(23, "0")}`,
    }),
    "lambda",
    sequence,
  );

await describeArchive("the handler of the Lambda function", ({ dynamodb, s3 }) => {
  test("tells a batch from a tick, by the environment of its stack, and prints metrics", async (t) => {
    const table = await newExpiringTable(t, dynamodb);
    const bucket = await s3.newBucket();
    const events = [
      { Records: [expired("1"), expired("2")] },
      { source: "aws.events", "detail-type": "Scheduled Event" },
    ];
    const entry = JSON.stringify(fileURLToPath(new URL("../../src/entry/aggregator.ts", import.meta.url)));
    const script = `
      const { handler } = await import(${entry});
      for (const event of ${JSON.stringify(events)}) {
        console.error(JSON.stringify(await handler(event, { getRemainingTimeInMillis: () => 60_000 })));
      }
      process.exit(0);`;
    const { stdout, stderr, code } = await ran(script, {
      ...{ TABLE_NAME: table.stack, ARCHIVE_BUCKET_NAME: bucket, ARCHIVE_PREFIX: "some/", SWEEP_AFTER_HOURS: "3" },
      ...{ LOG_LEVEL: "INFO", AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" },
      ...{ AWS_ENDPOINT_URL_S3: s3.endpoint, AWS_ENDPOINT_URL_DYNAMODB: dynamodb.endpoint },
    });
    assert.equal(code, 0, stderr);
    const [batch, tick] = stderr
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.deepEqual(batch, { batchItemFailures: [] });
    assert.equal(tick.complete, true);
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    const metrics = lines.filter((line) => "_aws" in line);
    assert.equal(metrics.length, 2);
    assert.deepEqual([metrics[0].Stack, metrics[0].Records, metrics[0].Archived], [table.stack, 2, 2]);
    assert.ok("BucketsSwept" in metrics[1]);
    assert.ok(!stdout.includes("secret-key"), "no entity is named");
    const listed = await (await s3.send("GET", `${bucket}?list-type=2`)).text();
    assert.match(listed, /<Key>some\/audit\/year=2026\/month=03\/day=15\/audit-[0-9a-f]{16}-1-2\.jsonl\.gz<\/Key>/);
  });

  test("a failed put is reported from its record on, and an invocation that cannot open the table is an error", async (t) => {
    const table = await newExpiringTable(t, dynamodb);
    const proxy = await S3Proxy.open(t, s3.endpoint);
    const place = { archive: `s3://${await s3.newBucket()}`, s3Endpoint: proxy.endpoint, credentials: CREDENTIALS };
    const handler = createHandler({ ...table.way, ...place, write: () => {} });
    proxy.choose = ({ method }) => (method === "PUT" ? "refuse" : "pass");
    const answer: AggregatorAnswer = await handler({ Records: [expired("5"), expired("6")] });
    assert.deepEqual(answer, { batchItemFailures: [{ itemIdentifier: "5" }] });
    proxy.choose = () => "pass";
    assert.deepEqual(await handler({ Records: [expired("5"), expired("6")] }), { batchItemFailures: [] });
    assert.deepEqual(await handler({ Records: [] }), { batchItemFailures: [] });
    const nowhere = createHandler({ ...table.way, ...place, stack: "no-such-table", write: () => {} });
    await assert.rejects(nowhere({ Records: [expired("5")] }), { code: "table_not_found" });
  });
});

function ran(script: string, env: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    env: { PATH: process.env.PATH ?? "", ...env },
  });
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) child[name].on("data", (chunk) => (said[name] += chunk));
  return new Promise<typeof said & { code: number | null }>((resolve) =>
    child.once("close", (code) => resolve({ ...said, code })),
  );
}
