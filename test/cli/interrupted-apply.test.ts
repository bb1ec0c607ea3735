import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { atDepth } from "../depth.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";
import { started } from "./run-bin.ts";

const DatabaseSync = process.getBuiltinModule("node:sqlite").DatabaseSync;
const ENTITIES = atDepth(700, 1_500);

test("Ctrl-C stops `limits apply` on SQLite after the change at hand, with 130, and apply goes on from there", async (t) => {
  const file = tempFile(t);
  const store = ["--store", `sqlite:${file}`];
  assert.equal((await here(["init", ...store])).code, 0);
  const manifest = `${file}.yaml`;
  const lines = Array.from({ length: ENTITIES }, (_, i) => `  e-${i}: { resources: { api: { limits: { rpm: 5 } } } }`);
  writeFileSync(manifest, `entities:\n${lines.join("\n")}\n`);
  const database = new DatabaseSync(file, { timeout: 0 });
  t.after(() => database.close());
  const rows = database.prepare("SELECT count(*) AS made FROM config WHERE entity > ''");
  const made = () => Number(rows.get()?.made);
  const run = started(["limits", "apply", "-f", manifest, "--yes", "--json", ...store]);
  // Nothing is written while this process has the lock, however long it takes to send the signal. Waiting for the lock, SQLite sleeps, and
  // a command that writes without pause could be through before it is awake: the lock is asked for again instead.
  const signalled = () => {
    if (!hasLock(database)) return false;
    const isTime = made() >= 3;
    if (isTime) run.child.kill("SIGINT");
    database.exec("ROLLBACK");
    return isTime;
  };
  // The event loop is not given free: it would load the other test files of this process, for longer than the command writes.
  const giveUpMs = performance.now() + 120_000;
  while (!signalled()) assert.ok(performance.now() < giveUpMs, "The command wrote nothing for two minutes.");
  const { code, stdout } = await run.ended;
  assert.equal(code, 130);
  const left = made();
  assert.ok(left < ENTITIES, `all ${left} were written`);
  const changes = (JSON.parse(stdout) as { changes: { done: boolean; what: string }[] }).changes;
  const limits = changes.filter(({ done, what }) => done && what === "limits").length;
  // What is told as done is done; the one at hand may be written and not entered.
  assert.ok(left - limits <= 1 && left >= limits, `${left} written, ${limits} told`);
  assert.equal((await here(["limits", "apply", "-f", manifest, "--yes", "--json", ...store])).code, 0);
  assert.equal(made(), ENTITIES);
});

function hasLock(database: { exec(sql: string): void }): boolean {
  try {
    database.exec("BEGIN IMMEDIATE");
    return true;
  } catch (error) {
    if (error instanceof Error && /database is locked/.test(error.message)) return false;
    throw error;
  }
}
