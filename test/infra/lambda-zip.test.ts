import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { unzipSync } from "fflate";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import { newExpiringTable } from "../aggregator/expiring-table.ts";
import { auditImage, removal } from "../aggregator/stream-records.ts";
import { here } from "../cli/in-process.ts";
import { isDeep } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { serve } from "../engines/http-kit.ts";
import { describeArchive } from "../s3/moto.ts";
import { S3Proxy } from "../s3/s3-proxy.ts";

// The code of the functions as Lambda gets it: exported, unpacked, run by plain Node beside nothing but the AWS SDK, which the runtime has.

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The zip of a function, exported by the command and unpacked. */
async function unpacked(t: TestContext, name: "aggregator" | "provisioner"): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "zael-lambda-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "lambda.zip");
  const { code, stdout, stderr } = await here(["lambda-export", "--function", name, "--output", file, "--json"]);
  assert.equal(code, 0, stderr);
  const bytes = readFileSync(file);
  const { sha256 } = JSON.parse(stdout) as { sha256: string };
  assert.equal(sha256, createHash("sha256").update(bytes).digest("base64"));
  const files = unzipSync(bytes);
  assert.ok("index.mjs" in files);
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(join(root, "node_modules/@aws-sdk"), join(folder, "node_modules/@aws-sdk"));
  rmSync(file);
  return folder;
}

/** Calls the handler once for each event, in a process of its own; what it answered, and what it printed. */
async function invoked(folder: string, events: readonly unknown[], env: Readonly<Record<string, string>>) {
  const script = `
    const { handler } = await import("./index.mjs");
    for (const event of ${JSON.stringify(events)}) {
      const told = await handler(event, { getRemainingTimeInMillis: () => 60_000 }).catch((error) => ({ error: error.code }));
      console.error(JSON.stringify(told));
    }
    process.exit(0);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    cwd: folder,
    env: {
      ...{ AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test", AWS_SESSION_TOKEN: "t" },
      ...env,
    },
  });
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) child[name].on("data", (chunk) => (said[name] += chunk));
  const code = await new Promise((resolve) => child.once("close", resolve));
  assert.equal(code, 0, said.stderr);
  const answers = said.stderr
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  return { answers, stdout: said.stdout };
}

const expired = (sequence: string) =>
  removal(
    auditImage({
      ...{ namespaceId: "ns1", entityId: "key", timestamp: "2026-03-15T12:00:00Z" },
      eventId: `01J${sequence.padStart(23, "0")}`,
    }),
    "lambda",
    sequence,
  );

test("a file that is there is not overwritten without --force, and the zip is the same every time", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zael-zip-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "lambda.zip");
  const line = ["lambda-export", "--function", "aggregator", "--output", file, "--json"];
  const first = await here(line);
  assert.equal(first.code, 0, first.stderr);
  const bytes = readFileSync(file);
  assert.ok(bytes.length < 1_000_000, `${bytes.length} bytes`);
  const again = await here(line);
  assert.deepEqual([again.code, JSON.parse(again.stderr).error.code], [1, "file_exists"]);
  assert.equal((await here([...line, "--force"])).stdout, first.stdout);
  assert.deepEqual(readFileSync(file), bytes);
  const info = await here(["lambda-export", "--info", "--json"]);
  assert.equal(JSON.parse(info.stdout).sha256, JSON.parse(first.stdout).sha256);
  assert.equal((await here(["lambda-export", "--function", "other"])).code, 2);
  assert.equal((await here(["lambda-export", "--output", join(folder, "no/such/folder.zip")])).code, 3);
});

if (isDeep) {
  await describeArchive("the exported code, with an archive", ({ dynamodb, s3 }) => {
    test("of the aggregator archives, reports what S3 refuses, and sweeps", async (t) => {
      const folder = await unpacked(t, "aggregator");
      const table = await newExpiringTable(t, dynamodb);
      const bucket = await s3.newBucket();
      const proxy = await S3Proxy.open(t, s3.endpoint);
      const env = {
        ...{ TABLE_NAME: table.stack, ARCHIVE_BUCKET_NAME: bucket, SWEEP_AFTER_HOURS: "2", LOG_LEVEL: "info" },
        ...{ USAGE_KEPT_DAYS: "90", ZAE_LIMITER_SCHEMA_VERSION: "0.10.0" },
        ...{ AWS_ENDPOINT_URL_S3: proxy.endpoint, AWS_ENDPOINT_URL_DYNAMODB: dynamodb.endpoint },
      };
      const batch = { Records: [expired("1"), expired("2")] };
      proxy.choose = ({ method }) => (method === "PUT" ? "refuse" : "pass");
      const refused = await invoked(folder, [batch], env);
      assert.deepEqual(refused.answers, [{ batchItemFailures: [{ itemIdentifier: "1" }] }]);
      proxy.choose = () => "pass";
      const { answers, stdout } = await invoked(folder, [batch, { source: "aws.events" }], env);
      assert.deepEqual(answers[0], { batchItemFailures: [] });
      assert.equal(answers[1].complete, true);
      const listed = await (await s3.send("GET", `${bucket}?list-type=2`)).text();
      assert.match(listed, /<Key>audit\/year=2026\/month=03\/day=15\/audit-[0-9a-f]{16}-1-2\.jsonl\.gz<\/Key>/);
      assert.match(stdout, /"CloudWatchMetrics"/);
      const lost = await invoked(folder, [batch], { ...env, TABLE_NAME: "no-such-table" });
      assert.deepEqual(lost.answers, [{ error: "table_not_found" }]);
    });
  });
}

await describeDynamo("the exported code", (dynamodb) => {
  test("of the provisioner applies declared limits and answers CloudFormation", async (t) => {
    const folder = await unpacked(t, "provisioner");
    const table = await newExpiringTable(t, dynamodb);
    const put: string[] = [];
    const { url } = await serve(t, async (request, response) => {
      let text = "";
      for await (const chunk of request) text += chunk;
      put.push(text);
      response.end();
    });
    const event = {
      ...{ RequestType: "Create", RequestId: "1", LogicalResourceId: "Limits", ResponseURL: `${url}/answer` },
      StackId: "arn:aws:cloudformation:eu-west-1:123456789012:stack/app/1",
      ResourceProperties: {
        ...{ ServiceToken: "arn:aws:lambda:x", TableName: table.stack, Namespace: "default" },
        Resources: { api: { Limits: { rpm: { Capacity: "7" } } } },
      },
    };
    const env = { TABLE_NAME: table.stack, LOG_LEVEL: "error", AWS_ENDPOINT_URL_DYNAMODB: dynamodb.endpoint };
    const { answers } = await invoked(folder, [event], env);
    assert.equal(answers[0].Status, "SUCCESS", answers[0].Reason);
    assert.equal(JSON.parse(put[0] ?? "{}").Status, "SUCCESS");
    const { stack, ...way } = table.way;
    const limiter = await RateLimiter.open({ store: `dynamodb:${stack}`, ...way });
    t.after(() => limiter.close());
    assert.equal((await limiter.getResourceDefaults("api"))[0]?.capacity, 7);
  });
});
