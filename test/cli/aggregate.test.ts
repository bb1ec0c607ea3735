import assert from "node:assert/strict";
import { test } from "node:test";
import { newExpiringTable } from "../aggregator/expiring-table.ts";
import { isDeep } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { describeArchive } from "../s3/moto.ts";
import { S3Proxy } from "../s3/s3-proxy.ts";
import { here } from "./in-process.ts";
import { PLAIN, started, zaeLimiter } from "./run-bin.ts";

// The AWS SDK looks for them in the process itself.
Object.assign(process.env, PLAIN);

test("help, version and mistakes: nothing is opened, and the exit code says which it was", async () => {
  const bare = await here([]);
  assert.deepEqual([bare.code, bare.stderr], [0, ""]);
  assert.match(bare.stdout, /^Usage: zae-limiter/);
  assert.match((await here(["--version"])).stdout, /^\d+\.\d+\.\d+\n$/);
  const group = await here(["audit"]);
  assert.deepEqual([group.code, group.stdout], [2, ""]);
  assert.match(group.stderr, /list/);
  const help = await here(["aggregate", "--help"]);
  assert.equal(help.code, 0);
  assert.match(help.stdout, /--archive <location>/);
  assert.match(help.stdout, /Examples:/);
  for (const [args, message] of [
    [["agregate"], /Unknown command 'agregate'; did you mean aggregate\?/],
    [["aggregate", "--onec"], /Unknown option '--onec'; did you mean --once\?/],
    [["aggregate"], /give --store dynamodb:STACK/],
    [["aggregate", "--store", "sqlite:x.db"], /works on a DynamoDB table/],
    [["aggregate", "--store", "dynamodb:a", "--stack", "b"], /give one/],
    [["aggregate", "--stack", "a", "--from", "yesterday"], /give oldest or latest/],
    [["aggregate", "--stack", "a", "--sweep-after", "soon"], /whole number of hours/],
    [["aggregate", "--stack", "a", "--no-sweep"], /^Nothing to do:/],
    [["aggregate", "--stack", "a", "--snapshots", "weekly"], /give hourly, daily/],
    [["aggregate", "--stack", "a", "--archive", "bucket"], /give s3:\/\/BUCKET/],
    [["audit", "list", "--archive", "s3://archive", "--max", "none"], /give a whole number/],
    [["audit", "list", "--archive", "s3://archive", "--cursor", "x"], /the cursor that the previous list ended with/],
    [["audit", "verify", "--archive", "s3://archive"], /works on a DynamoDB table/],
  ] as const) {
    const { code, stdout, stderr } = await here(args);
    assert.deepEqual([code, stdout], [2, ""], `${args.join(" ")}: ${stderr}`);
    assert.match(stderr, message);
    assert.equal(stderr.trimEnd().split("\n").length, 1, stderr);
  }
  const { stderr } = await here(["aggregate", "--json"]);
  assert.equal(JSON.parse(stderr).error.code, "usage");
});

await describeDynamo("zae-limiter aggregate without an archive", (dynamodb) => {
  test("once sweeps the table and ends with 0", async (t) => {
    const table = await newExpiringTable(t, dynamodb);
    const where = ["--store", `dynamodb:${table.stack}`, "--endpoint", table.way.endpoint];
    const { code, stdout, stderr } = await here(["aggregate", ...where, "--once", "--json"]);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.equal(JSON.parse(stdout).sweep.complete, true);
  });
});

if (isDeep) {
  await describeArchive("zae-limiter aggregate, audit list, audit verify", ({ dynamodb, s3 }) => {
    test("once archives what expired; the list shows it, and it verifies", async (t) => {
      const table = await newExpiringTable(t, dynamodb);
      const bucket = await s3.newBucket();
      const where = ["--store", `dynamodb:${table.stack}`, "--endpoint", table.way.endpoint];
      const archive = ["--archive", `s3://${bucket}/p`, "--s3-endpoint", s3.endpoint];
      const events = await table.change(3);
      await table.expireAll();
      const once = await zaeLimiter(["aggregate", ...where, ...archive, "--once", "--json"]);
      assert.deepEqual([once.code, once.stderr], [0, ""]);
      assert.equal(JSON.parse(once.stdout).archived, 3);
      assert.equal(JSON.parse(once.stdout).sweep.complete, true);

      const list = await zaeLimiter([...where, "audit", "list", ...archive, "--json"]);
      assert.deepEqual([list.code, list.stderr], [0, ""]);
      const { items, cursor } = JSON.parse(list.stdout) as { items: { eventId: string }[]; cursor?: string };
      assert.deepEqual(
        items.map(({ eventId }) => eventId),
        events,
      );
      assert.equal(cursor, undefined);
      const first = JSON.parse((await here(["audit", "list", ...where, ...archive, "--json", "--max", "2"])).stdout);
      assert.equal(first.items.length, 2);
      const rest = await here(["audit", "list", ...where, ...archive, "--ndjson", "--cursor", first.cursor]);
      assert.equal(JSON.parse(rest.stdout).eventId, events[2]);
      const text = await here(["audit", "list", ...where, ...archive, "-e", "e0"]);
      // Drawn as the list of the store is.
      assert.match(text.stdout, /^WHEN +WHAT +ON +BY\n\d{4}-\d\d-\d\d [\d:]+Z +access set +e0 on api/);
      // An archive without its table: the namespace is an id then.
      assert.equal(JSON.parse((await here(["audit", "list", ...archive, "--json"])).stdout).items.length, 3);
      assert.deepEqual(JSON.parse((await here(["audit", "list", ...archive, "--json", "-N", "x"])).stdout), {
        items: [],
      });
      const unknown = await here(["audit", "list", ...where, ...archive, "-N", "tenant", "--json"]);
      assert.deepEqual([unknown.code, unknown.stdout], [4, ""]);
      assert.match(JSON.parse(unknown.stderr).error.message, /no namespace "tenant"; known: default/);
      const nowhere = await here(["audit", "list", "--archive", "s3://no-such-bucket", "--s3-endpoint", s3.endpoint]);
      assert.equal(nowhere.code, 4);

      const fine = await zaeLimiter(["audit", "verify", ...where, ...archive, "--json"]);
      assert.deepEqual([fine.code, JSON.parse(fine.stdout).ok], [0, true]);
      const keys = await (await s3.send("GET", `${bucket}?list-type=2`)).text();
      const [, key] = /<Key>([^<]+)<\/Key>/.exec(keys) ?? [];
      await s3.send("DELETE", `${bucket}/${key}`);
      const lost = await here(["audit", "verify", ...where, ...archive]);
      assert.equal(lost.code, 1);
      assert.match(lost.stdout, /0 of 3 are there: .* is gone/);
    });

    test("once with a put that fails: 3, and the next run archives it", async (t) => {
      const table = await newExpiringTable(t, dynamodb);
      const proxy = await S3Proxy.open(t, s3.endpoint);
      const where = ["--store", `dynamodb:${table.stack}`, "--endpoint", table.way.endpoint];
      const archive = ["--archive", `s3://${await s3.newBucket()}`, "--s3-endpoint", proxy.endpoint];
      await table.change(2);
      await table.expireAll();
      proxy.choose = ({ method }) => (method === "PUT" ? "unavailable" : "pass");
      const failed = await zaeLimiter(["aggregate", ...where, ...archive, "--once", "--json"]);
      assert.deepEqual([failed.code, failed.stdout], [3, ""], failed.stderr);
      proxy.choose = () => "pass";
      const again = await here(["aggregate", ...where, ...archive, "--once", "--json"]);
      assert.equal(JSON.parse(again.stdout).archived, 2);
    });

    test("SIGTERM ends a runner after what it has in hand: 143, its lease is given back", async (t) => {
      const table = await newExpiringTable(t, dynamodb);
      const where = ["--store", `dynamodb:${table.stack}`, "--endpoint", table.way.endpoint];
      const archive = ["--archive", `s3://${await s3.newBucket()}`, "--s3-endpoint", s3.endpoint];
      const run = started(["aggregate", ...where, ...archive, "--json"]);
      await table.proxy.until(1, ({ operation }) => operation === "GetRecords");
      run.child.kill("SIGTERM");
      const { code, stdout } = await run.ended;
      assert.equal(code, 143);
      assert.equal(JSON.parse(stdout.trimEnd().split("\n").at(-1)!).archived, 0);
      const items = await dynamodb.client.send(
        "Scan",
        JSON.stringify({
          TableName: table.stack,
          FilterExpression: "attribute_exists(#o)",
          ExpressionAttributeNames: { "#o": "owner" },
        }),
        { timeoutMs: 10_000 },
      );
      assert.equal(items.kind === "answered" ? items.body.Count : undefined, 0);
    });
  });
}
