import assert from "node:assert/strict";
import { test } from "node:test";
import { onFile } from "./on-file.ts";

test("set-limits --dry-run shows what was there and what it would hide", async (t) => {
  const { run } = await onFile(
    t,
    "system set-defaults -l day:5/day",
    "resource set-defaults gpt-4 -l rpm:100 -l tpm:10k/min:20k --inherit",
    "plan create gold",
    "plan set-limits gold -r gpt-4 -l rpm:500 --inherit",
    "entity create key-1 --plan gold",
    "entity set-limits key-1 -l tpm:1k --inherit",
  );
  const wins = await run("entity set-limits key-1 -l tpm:2k --dry-run");
  assert.equal(
    wins.stdout,
    [
      "Dry run, nothing was changed. The result would be:",
      "key-1",
      "  tpm:2000/min",
      "Replaces:",
      "  tpm:1000/min",
      "  inherits limits of less specific levels",
      "Limits that would no longer apply:",
      "  rpm:500/min  of the plan on gpt-4",
      "  tpm:10k/min:20k  of the resource gpt-4, replaced",
      "  day:5/day  of the system on gpt-4",
      "With --inherit, limits of other names stay.",
      "",
    ].join("\n"),
  );
  assert.equal(wins.stderr, "");
  const json = JSON.parse((await run("entity set-limits key-1 -l tpm:2k --inherit --dry-run --json")).stdout);
  assert.deepEqual(
    json.hides.map(({ resource, source, limit, replaced }: Record<string, { name: string }>) => [
      ...[resource, source, limit?.name, replaced],
    ]),
    [["gpt-4", "resource", "tpm", true]],
  );
  assert.deepEqual([json.dryRun, json.changed, json.before.inherit], [true, true, true]);
  assert.match((await run("entity get-limits key-1")).stdout, /tpm:1000\/min/);
});

test("limits that hide those of another level say so when they are set, and only to people", async (t) => {
  const { run } = await onFile(t, "resource set-defaults gpt-4 -l rpm:100 -l tpm:10k", "entity create proj-1");
  const set = await run("entity set-limits proj-1 -l month:2M,reset=monthly");
  assert.equal(set.stderr, "These limits hide others: rpm, tpm of the resource gpt-4. With --inherit they stay.\n");
  assert.equal((await run("entity set-limits proj-1 -l month:3M,reset=monthly --inherit")).stderr, "");
  assert.equal((await run("entity set-limits proj-1 -l month:4M,reset=monthly --quiet")).stderr, "");
  for (const _ of ["written", "there already"]) {
    assert.equal((await run("entity set-limits proj-1 -l month:5M,reset=monthly --json")).stderr, "");
  }
  assert.equal((await run("entity set-totals proj-1 -l usd:5,reset=daily")).stderr, "");
  await run("system set-totals -l day:9,reset=daily");
  const hides = JSON.parse((await run("entity set-totals proj-1 -l usd:6,reset=daily --dry-run --json")).stdout).hides;
  assert.deepEqual([hides.length, hides[0].resource, hides[0].source], [1, "*", "systemTotal"]);
});
