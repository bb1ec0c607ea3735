import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";
import { limitsStory } from "./limits-story.ts";
import { operatorStory, refusalStory, usageStory } from "./story.ts";

test("an operator's daily work on a SQLite file", async (t) => {
  const store = `sqlite:${tempFile(t)}`;
  await operatorStory(["--store", store], store);
});

test("declared limits on a SQLite file", async (t) => limitsStory(t, ["--store", `sqlite:${tempFile(t)}`]));

test("resources of entities that were never created are listed, too", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  await here(["init", ...store]);
  await here(["entity", "set-limits", "ghost", "-r", "only-here", "-l", "rpm:1", "--allow-unknown", ...store]);
  const { stdout } = await here(["resource", "list", "--with-entity-limits", "--json", ...store]);
  assert.deepEqual(JSON.parse(stdout), { items: [{ resource: "only-here", limits: [] }] });
});

test("a dry run of a take from several resources asks about each of them", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  await here(["init", ...store]);
  for (const [resource, limit] of [
    ["api", "rpm:10"],
    ["gpu", "slots:2/day"],
  ] as const) {
    await here(["resource", "set-defaults", resource, "-l", limit, ...store]);
  }
  const dry = (also: string) =>
    here(["acquire", "a", "api", "-c", "rpm=1", "--also", also, "--allow-unknown", "--dry-run", "--json", ...store]);
  assert.equal((await dry("gpu:slots=2")).code, 0);
  await here(["acquire", "a", "gpu", "-c", "slots=1", "--allow-unknown", ...store]);
  const refused = await dry("gpu:slots=2");
  const { ok, primary, dryRun } = JSON.parse(refused.stdout);
  assert.deepEqual([refused.code, ok, primary.limit, dryRun], [1, false, "slots", true]);
});

test("refusals on a SQLite file", async (t) => refusalStory(["--store", `sqlite:${tempFile(t)}`]));

test("usage on a SQLite file", async (t) => usageStory(["--store", `sqlite:${tempFile(t)}`]));

test("what reads leaves every byte of the file as it was", async (t) => {
  const file = tempFile(t);
  const at = (line: string) => here([...line.split(" "), "--store", `sqlite:${file}`]);
  await at("init");
  await at("resource set-defaults gpt-4 -l rpm:100");
  await at("entity create key-1");
  await at("acquire key-1 gpt-4 -c rpm=1");
  const before = readFileSync(file);
  for (const line of [
    ...["doctor", "version", "entity list", "entity show key-1", "entity children key-1", "entity list-limits key-1"],
    ...[
      "resource list",
      "resource get-defaults gpt-4",
      "resource capacity gpt-4 rpm",
      "access show -e key-1",
      "cascade show -e key-1",
    ],
    ...[
      "namespace list",
      "namespace orphans",
      "namespace show default",
      "available key-1 gpt-4",
      "explain key-1 gpt-4 -c rpm=5",
    ],
    ...[
      "bucket show key-1 gpt-4",
      "bucket list -r gpt-4",
      "watch --once --interval 10ms",
      "usage list",
      "usage summary",
      "usage export",
    ],
    ...[
      "refusals list",
      "refusals top",
      "usage chart",
      "audit list",
      "entity create key-2 --dry-run",
      "entity delete key-1 --dry-run",
    ],
    ...["acquire key-1 gpt-4 -c rpm=1 --dry-run", "bucket reset key-1 gpt-4 --dry-run", "init --dry-run"],
  ]) {
    const { code, stderr } = await at(line);
    assert.equal(code, 0, `${line}: ${stderr}`);
    assert.deepEqual(readFileSync(file), before, line);
  }
});
