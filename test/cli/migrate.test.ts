import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { migrateTable } from "../../src/migrate/migrate.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { contents, fill, migrating, oldTable } from "../dynamodb/migrate-kit.ts";
import { Wire } from "../dynamodb/store-kit.ts";
import { here } from "./in-process.ts";

const GUIDE = readFileSync(new URL("../../docs/guide/migrating.md", import.meta.url), "utf8");

interface Report {
  readonly from: string;
  readonly to: string;
  readonly steps: readonly { readonly version: string; readonly title: string; readonly items: number }[];
  readonly dryRun?: boolean;
  readonly removed?: number;
  readonly wayBack?: string;
}

await describeDynamo("zae-limiter migrate", (dynamodb) => {
  Object.assign(process.env, { AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" });
  const at = (table: string) => ["--name", table, "--endpoint", dynamodb.endpoint];
  const errorOf = (stderr: string) => (JSON.parse(stderr) as { error: { code: string; message: string } }).error;

  test("planned, asked for, done, and nothing left to do", async (t) => {
    const table = await oldTable(dynamodb, t, "0.6");
    const before = await contents(dynamodb, table);
    const refused = await here(["resource", "list", "--stack", table, "--endpoint", dynamodb.endpoint, "--json"]);
    assert.deepEqual([refused.code, errorOf(refused.stderr).code], [3, "schema_version"]);
    assert.match(
      errorOf(refused.stderr).message,
      new RegExp(`has schema 0\\.6\\.0.*zae-limiter migrate --name ${table}`),
    );

    const planned = await here(["migrate", ...at(table), "--dry-run", "--json"]);
    assert.deepEqual([planned.code, planned.stderr], [0, ""]);
    const plan = JSON.parse(planned.stdout) as Report;
    assert.deepEqual([plan.from, plan.to, plan.dryRun], ["0.6.0", "0.10.0", true]);
    assert.deepEqual(
      plan.steps.map(({ version }) => version),
      ["0.8.0", "0.9.0", "0.10.0"],
    );
    const shown = await here(["migrate", ...at(table), "--dry-run"]);
    const [, inGuide] = /\$ zae-limiter migrate --name limits --dry-run\n([^`]+)```/.exec(GUIDE) ?? [];
    // DynamoDB Local does not know the question; the service does.
    const printed = shown.stdout.replaceAll(table, "limits").replace("is unknown", "is off");
    assert.equal(printed, inGuide, "the guide shows what is printed");

    const unasked = await here(["migrate", ...at(table), "--json"]);
    assert.deepEqual([unasked.code, errorOf(unasked.stderr).code], [2, "confirmation_required"]);
    const declined = await here(["migrate", ...at(table)], { answer: "n" });
    assert.equal(declined.code, 1);
    assert.match(
      declined.stderr,
      /0\.8\.0 {2}One item.*\n.*\n.*\nNo backup will be made and .*\nAll its clients must be stopped, and there is no way back\. Migrate the table .*\? \[y\/N\] /,
    );
    assert.ok(["none", "unknown"].includes(String(plan.wayBack)), plan.wayBack);
    assert.deepEqual(await contents(dynamodb, table), before, "so far nothing was written");

    const done = await here(["migrate", ...at(table), "--yes", "--json"]);
    assert.deepEqual([done.code, done.stderr], [0, ""]);
    const { dryRun: _, ...report } = plan;
    assert.deepEqual(JSON.parse(done.stdout), report);
    const again = await here(["migrate", ...at(table), "--json"]);
    assert.deepEqual([again.code, JSON.parse(again.stdout)], [0, { from: "0.10.0", to: "0.10.0", steps: [] }]);
    const sentence = await here(["migrate", "--stack", table, "--endpoint", dynamodb.endpoint]);
    assert.equal(sentence.stdout, `${table} is at 0.10.0 already; nothing to do.\n`);
    const listed = await here(["resource", "list", "--stack", table, "--endpoint", dynamodb.endpoint, "--json"]);
    const { items } = JSON.parse(listed.stdout) as { items: readonly { resource: string }[] };
    assert.deepEqual(
      items.map(({ resource }) => resource),
      ["openai/gpt-4"],
    );
  });

  test("--abort --dry-run tells what would be taken back, and takes back nothing", async (t) => {
    for (const layout of ["0.6", "0.9"] as const) {
      const table = await oldTable(dynamodb, t, layout);
      // Cut off once all is copied and a part was compared, before anything is deleted.
      const wire = new Wire(dynamodb.client);
      let receipts = 0;
      wire.fault = async ({ input, send }) =>
        JSON.stringify(input).includes("#MIGRATED#0") && ++receipts > 1
          ? { kind: "failed", status: 400, code: "AccessDeniedException", message: "cut off", body: {} }
          : send();
      await assert.rejects(migrateTable(migrating(wire, table)));
      const before = await contents(dynamodb, table);
      const planned = await here(["migrate", ...at(table), "--abort", "--dry-run", "--json"]);
      assert.deepEqual([planned.code, planned.stderr], [0, ""]);
      const report = JSON.parse(planned.stdout) as Report;
      assert.equal(report.dryRun, true);
      assert.ok((report.removed ?? 0) > 5, planned.stdout);
      assert.match((await here(["migrate", ...at(table), "--abort", "--dry-run"])).stdout, /items would be removed/);
      assert.deepEqual(await contents(dynamodb, table), before);
      const done = await here(["migrate", ...at(table), "--abort", "--yes", "--json"]);
      const { dryRun: _, ...same } = report;
      assert.deepEqual(JSON.parse(done.stdout), same);
    }
  });

  test("what is wrong with the options is told before the table is asked; one that is not there is 4", async (t) => {
    for (const [args, sentence] of [
      [["--abort", "--backup", "b"], /without --backup/],
      [["--abort", "--take-over"], /without --backup and --take-over/],
      [["--stack", "other"], /give one/],
    ] as const) {
      const { code, stderr } = await here(["migrate", "--name", "nowhere", ...args, "--yes"]);
      assert.equal(code, 2, stderr);
      assert.match(stderr, sentence);
    }
    const sqlite = await here(["migrate", "--store", "sqlite:limits.db", "--yes"]);
    assert.deepEqual([sqlite.code, /DynamoDB table/.test(sqlite.stderr)], [2, true]);
    const gone = await here(["migrate", ...at("nobody-made-it"), "--yes", "--json"]);
    assert.deepEqual([gone.code, errorOf(gone.stderr).code], [4, "store_not_found"]);
    const table = await oldTable(dynamodb, t, "0.8");
    const nothing = await here(["migrate", ...at(table), "--abort", "--yes", "--json"]);
    assert.deepEqual(JSON.parse(nothing.stdout), { from: "0.8.0", to: "0.8.0", steps: [], removed: 0 });
    // A schema that is not known yet.
    await fill(dynamodb, table, [{ PK: { S: "_/SYSTEM#" }, SK: { S: "#VERSION" }, schema_version: { S: "0.11.0" } }]);
    const newer = await here(["migrate", ...at(table), "--yes", "--json"]);
    assert.deepEqual([newer.code, errorOf(newer.stderr).code], [3, "schema_version"]);
    assert.match(errorOf(newer.stderr).message, /update this package/);
  });
});
