import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { here } from "./in-process.ts";
import { started } from "./run-bin.ts";

const { DatabaseSync } = process.getBuiltinModule("node:sqlite");

/** Two files with stores, the first with something in it. */
async function twoFiles(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-copy-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [from, to] = ["from", "to"].map((name) => `sqlite:${join(folder, `${name}.db`)}`) as [string, string];
  for (const store of [from, to]) assert.equal((await here(["init", "--store", store])).code, 0);
  for (const args of [
    ["entity", "create", "acme"],
    ["resource", "set-defaults", "api", "-l", "rpm:60/min"],
    ["acquire", "acme", "api", "-c", "rpm=7", "--allow-unknown"],
  ]) {
    const { code, stderr } = await here([...args, "--store", from]);
    assert.equal(code, 0, stderr);
  }
  return { folder, from, to };
}

test("a store is copied, and the copy goes on where it was", async (t) => {
  const { from, to } = await twoFiles(t);
  const dry = await here(["copy", from, to, "--dry-run", "--json"]);
  assert.equal(dry.code, 0, dry.stderr);
  const { dryRun, namespaces } = JSON.parse(dry.stdout);
  assert.deepEqual([dryRun, namespaces[0].copied.entities, namespaces[0].active], [true, 1, false]);
  const done = await here(["copy", from, to, "--yes"]);
  assert.equal(done.code, 0, done.stderr);
  assert.match(done.stdout, /^default: entities 1, levels 1, buckets 1, hours of usage 1, audit events 2$/m);
  const shown = await here(["bucket", "show", "acme", "api", "--store", to, "--json"]);
  assert.equal(shown.code, 0, shown.stderr);
  assert.equal(
    JSON.parse((await here(["usage", "summary", "-e", "acme", "--store", to, "--json"])).stdout).total.rpm,
    7,
  );
  const again = await here(["copy", from, to, "--yes"]);
  assert.deepEqual([again.code, /target_not_empty|has a/.test(again.stderr)], [1, true]);
});

test("a copy asks, and ends with the code that says why it is none", async (t) => {
  const { folder, from, to } = await twoFiles(t);
  const declined = await here(["copy", from, to], { answer: "n" });
  assert.equal(declined.code, 1);
  const cases: readonly (readonly [code: number, args: readonly string[], says: RegExp])[] = [
    [2, [from, from], /to itself/],
    [2, [from, "memory"], /memory/],
    [2, ["nonsense", to], /nonsense/],
    [2, [from, to, "--resume", "--restart"], /give one/],
    [2, [from, to, "--store", from], /leave --store/],
    [4, [from, `sqlite:${join(folder, "none.db")}`], /no store/],
    [4, [from, to, "--namespace", "nobody"], /nobody/],
  ];
  for (const [code, args, says] of cases) {
    const ended = await here(["copy", ...args, "--yes"]);
    assert.equal(ended.code, code, `${args.join(" ")}: ${ended.stderr}`);
    assert.match(ended.stderr, says);
  }
});

test("a copy that differs ends with 1 and stays hidden; begun anew it is whole", async (t) => {
  const { folder, from, to } = await twoFiles(t);
  const database = new DatabaseSync(join(folder, "to.db"));
  // A database that loses what is written, and says that it did not.
  database.exec("CREATE TRIGGER lost BEFORE INSERT ON usage BEGIN SELECT RAISE(IGNORE); END");
  const differs = await here(["copy", from, to, "--yes"]);
  assert.equal(differs.code, 1, differs.stderr);
  assert.match(differs.stdout, /^default: .*; not active$/m);
  assert.match(differs.stdout, /^ {2}differs: usage \S+ requests: 1 in the source, 0 in the copy$/m);
  assert.match(differs.stderr, /The copy of default differs from its source/);
  const json = await here(["copy", from, to, "--restart", "--yes", "--json"]);
  const [{ active, differences }] = JSON.parse(json.stdout).namespaces;
  assert.deepEqual([json.code, active, differences.length > 0], [1, false, true]);
  assert.equal(JSON.parse(json.stderr).error.code, "copy_differs");
  assert.match((await here(["namespace", "orphans", "--store", to])).stdout, /default .* copying/);
  database.exec("DROP TRIGGER lost");
  database.close();
  const unfinished = await here(["copy", from, to, "--yes"]);
  assert.deepEqual([unfinished.code, /--resume.*--restart/.test(unfinished.stderr)], [1, true]);
  const whole = await here(["copy", from, to, "--resume", "--yes"]);
  assert.equal(whole.code, 0, whole.stderr + whole.stdout);
});

test("a store that does not answer, or has an older schema, ends a copy with 3", async (t) => {
  const { folder, from, to } = await twoFiles(t);
  const away = await here(["copy", "postgres://nobody@127.0.0.1:1/none", to, "--yes", "--timeout", "500ms"]);
  assert.equal(away.code, 3, away.stderr);
  const database = new DatabaseSync(join(folder, "to.db"));
  database.exec("PRAGMA user_version = 2");
  database.close();
  const older = await here(["copy", from, to, "--yes"]);
  assert.equal(older.code, 3, older.stderr);
  assert.match(older.stderr, /schema version 2/);
});

test("Ctrl-C ends a copy with 130: the source stays frozen, the target has nothing", async (t) => {
  const { folder, from, to } = await twoFiles(t);
  const database = new DatabaseSync(join(folder, "from.db"), { readOnly: true });
  t.after(() => database.close());
  const frozen = database.prepare("SELECT count(*) AS frozen FROM config WHERE frozen IS NOT NULL");
  const run = started(["copy", from, to, "--freeze", "--yes"]);
  while (Number(frozen.get()?.frozen) === 0) {
    assert.equal(run.child.exitCode, null, run.said.stderr);
    await new Promise((resolve) => setImmediate(resolve));
  }
  run.child.kill("SIGINT");
  assert.equal((await run.ended).code, 130);
  assert.equal((await here(["acquire", "acme", "api", "-c", "rpm=1", "--store", from])).code, 1);
  assert.equal(JSON.parse((await here(["namespace", "orphans", "--store", to, "--json"])).stdout).items.length, 0);
});
