import assert from "node:assert/strict";
import { test } from "node:test";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

test("an operator sells plans, with an exception, a budget and a default for keys", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  const at = (line: string, ...more: readonly string[]) => here([...line.split(" "), ...more, ...store]);
  const json = async (line: string) => JSON.parse((await at(line, "--json")).stdout);
  await at("init");
  const made = await at("plan create gold --name Gold --meta price=10");
  assert.match(made.stdout, /^id +gold\nname +Gold\nmetadata +price=10\n/);
  assert.equal((await at("plan create gold")).code, 1);
  assert.match((await at("plan create gold --name Other --if-absent")).stdout, /Gold/);
  assert.equal((await at("plan update gold --meta price=12")).code, 0);
  assert.equal((await json("plan get gold")).metadata.price, "12");
  assert.match((await at("plan list")).stdout, /gold +Gold/);

  assert.match((await at("plan set-limits gold -l rpm:10 -l tpm:1k/min")).stdout, /^the plan gold\n {2}rpm/);
  const again = await at("plan set-limits gold -l tpm:1k/min -l rpm:10");
  assert.match(again.stderr, /Nothing differs; nothing was written\./);
  assert.equal((await json("plan set-limits gold -l rpm:99 --if-absent")).changed, false);
  const misspelled = await at("plan set-limits golf -l rpm:1");
  assert.deepEqual([misspelled.code, /did you mean gold\?/.test(misspelled.stderr)], [4, true]);
  assert.equal((await at("plan set-limits gold -r gpt-4 -l rpm:5 --inherit")).code, 0);
  assert.match((await at("plan get-limits gold -r gpt-4")).stdout, /inherits limits of less specific levels/);

  await at("entity create key-1 --plan gold");
  assert.equal((await json("entity show key-1")).planId, "gold");
  assert.equal((await at("entity create key-2 --plan golf")).code, 4);
  assert.match((await at("entity list --plan gold")).stdout, /key-1/);
  await at("entity set-limits key-1 -l rpm:500 --inherit");
  const explained = await at("explain key-1 gpt-4");
  assert.match(explained.stdout, /rpm.*its own default/);
  assert.match(explained.stdout, /tpm.*its plan\b/);

  await at("resource set-defaults gpt-4 -l rpm:3 --applies-to callers");
  assert.match((await at("resource get-defaults gpt-4")).stdout, /for callers only/);
  assert.equal((await at("resource set-defaults gpt-4 -l rpm:3 --applies-to keys")).code, 2);
  await at("entity create org");
  await at("entity create key-3 --parent org");
  assert.match((await at("explain key-3 gpt-4")).stdout, /org on gpt-4 .*for callers only/);

  for (const [owner, id] of [
    ["entity", " key-1"],
    ["plan", " gold"],
    ["system", ""],
  ]) {
    assert.equal((await at(`${owner} get-totals${id}`)).code, 4);
    const dry = await json(`${owner} set-totals${id} -l usd:100/day --dry-run`);
    assert.deepEqual([dry.dryRun, dry.changed, dry.limits.length], [true, true, 1]);
    assert.equal((await json(`${owner} set-totals${id} -l usd:100/day`)).changed, true);
    assert.equal((await json(`${owner} get-totals${id}`)).limits[0].name, "usd");
    assert.equal((await at(`${owner} delete-totals${id} --yes`)).code, 0);
  }

  assert.match((await at("plan delete gold --yes")).stderr, /such as key-1;/);
  await at("entity update key-1 --plan none");
  assert.equal((await at("plan delete gold --yes")).code, 0);
  assert.equal((await at("plan get gold")).code, 4);
});
