import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

const rpm = (rate: number) => [Limit.perMinute("rpm", rate)];

async function prepared(t: TestContext, pieces: number) {
  const file = tempFile(t);
  const where = ["--store", `sqlite:${file}`];
  assert.equal((await here(["init", ...where])).code, 0);
  const manifest = `${file}.yaml`;
  const names = Array.from({ length: pieces }, (_, i) => `r-${String(i).padStart(2, "0")}: { limits: { rpm: 120 } }`);
  writeFileSync(manifest, `owner: o\nresources: { ${names.join(", ")} }\n`);
  const limiter = await RateLimiter.open({ store: `sqlite:${file}` });
  t.after(() => limiter.close());
  return { file, where, manifest, limiter };
}

test("limits apply: what is changed while the question stands there is not overwritten", async (t) => {
  const { where, manifest, limiter } = await prepared(t, 1);
  await limiter.setResourceDefaults("r-00", rpm(100));
  const whileAsked = () => limiter.setResourceDefaults("r-00", rpm(5), { principal: "incident-commander" });
  const ran = await here(["limits", "apply", "-f", manifest, ...where], { answer: "y", whileAsked });
  assert.deepEqual([ran.code, ran.stdout], [1, ""]);
  assert.match(ran.stderr, /rpm:100\/min -> rpm:120\/min[\s\S]*The plan is outdated/);
  assert.deepEqual(await limiter.getResourceDefaults("r-00"), rpm(5));
});

test("limits apply: deletions that were not shown are not among those that are approved", async (t) => {
  const { where, manifest, limiter } = await prepared(t, 2);
  assert.equal((await here(["limits", "apply", "-f", manifest, "--yes", ...where])).code, 0);
  writeFileSync(manifest, "owner: o\nresources: { r-00: { limits: { rpm: 120 } } }\n");
  const whileAsked = () => limiter.setResourceDefaults("r-01", rpm(5));
  const ran = await here(["limits", "apply", "-f", manifest, ...where], { answer: "y", whileAsked });
  assert.equal(ran.code, 1, ran.stderr);
  assert.deepEqual(await limiter.getResourceDefaults("r-01"), rpm(5));
});

test("limits apply --yes: what is changed while it runs is not overwritten, and nothing is planned anew", async (t) => {
  const { where, manifest, limiter } = await prepared(t, 40);
  let made: Promise<unknown> | undefined;
  const onNote = () => {
    made ??= limiter.setResourceDefaults("r-39", rpm(5));
  };
  const ran = await here(["limits", "apply", "-f", manifest, "--yes", "--color", "never", ...where], {
    answer: "",
    onNote,
  });
  await made;
  assert.equal(ran.code, 1, ran.stderr);
  assert.match(ran.stderr, /39 changes were made before; plan again/);
  assert.match(ran.stdout, /r-39: rpm:120\/min \(not done\)/);
  assert.deepEqual(await limiter.getResourceDefaults("r-39"), rpm(5));
});

test("limits plan -o FILE, limits apply FILE: applied as shown, without a question; outdated it is refused", async (t) => {
  const { file, where, manifest, limiter } = await prepared(t, 2);
  const plan = `${file}.plan`;
  await limiter.setResourceDefaults("r-00", rpm(100));
  const saved = await here(["limits", "plan", "-f", manifest, "-o", plan, ...where]);
  assert.deepEqual(
    [saved.code, saved.stderr],
    [0, `Saved; apply exactly this with \`zae-limiter limits apply ${plan}\`.\n`],
  );
  assert.equal(JSON.parse(readFileSync(plan, "utf8")).changes.length, 2);
  // The file that it was made of may be gone or changed.
  writeFileSync(manifest, "owner: o\nresources: { r-00: { limits: { rpm: 1 } } }\n");
  const dry = await here(["limits", "apply", plan, "--dry-run", "--json", ...where]);
  assert.deepEqual([dry.code, JSON.parse(dry.stdout).summary.update], [0, 1]);

  await limiter.setResourceDefaults("r-00", rpm(5));
  for (const more of [[], ["--yes"], ["--dry-run"]]) {
    const stale = await here(["limits", "apply", plan, "--json", ...more, ...where]);
    assert.deepEqual([stale.code, JSON.parse(stale.stderr).error.code], [1, "plan_outdated"]);
  }
  assert.deepEqual(await limiter.getResourceDefaults("r-01"), []);
  await limiter.setResourceDefaults("r-00", rpm(100));
  const applied = await here(["limits", "apply", plan, "--json", ...where]);
  assert.deepEqual([applied.code, JSON.parse(applied.stdout).changes.length], [0, 2], applied.stderr);
  assert.deepEqual(await limiter.getResourceDefaults("r-00"), rpm(120));
});

test("limits apply FILE: other stores, other options and other files are refused", async (t) => {
  const { file, where, manifest } = await prepared(t, 1);
  const plan = `${file}.plan`;
  assert.equal((await here(["limits", "plan", "-f", manifest, "-o", plan, "--quiet", ...where])).code, 0);
  const other = `sqlite:${tempFile(t)}`;
  await here(["init", "--store", other]);
  for (const [args, message] of [
    [["limits", "apply", plan, "--store", other], /plan was made on sqlite:.*and this is/],
    [["limits", "apply", plan, "-f", manifest, ...where], /--file was decided when the plan was made/],
    [["limits", "apply", plan, "--prune", ...where], /--prune was decided when/],
    [["limits", "apply", plan, "-N", "tenant", ...where], /is for the namespace default/],
    [["limits", "apply", manifest, ...where], /not a plan saved/],
    [["limits", "apply", `${plan}.gone`, ...where], /cannot be read: there is no such file/],
    [["limits", "plan", "-f", manifest, "--prune", "--keep", ...where], /exclude each other/],
  ] as const) {
    const ran = await here(args);
    assert.deepEqual([ran.code, ran.stdout], [2, ""], ran.stderr);
    assert.match(ran.stderr, message);
  }
});

test("limits plan -o: a plan with conflicts is not saved, and what stood there stays", async (t) => {
  const { file, where, manifest } = await prepared(t, 1);
  const plan = `${file}.plan`;
  assert.equal((await here(["limits", "apply", "-f", manifest, "--yes", ...where])).code, 0);
  writeFileSync(manifest, "owner: other\nresources: { r-00: { limits: { rpm: 1 } } }\n");
  const ran = await here(["limits", "plan", "-f", manifest, "-o", plan, ...where]);
  assert.deepEqual([ran.code, existsSync(plan)], [1, false]);
  assert.match(ran.stderr, /declared by the owner o/);
  assert.ok(!readdirSync(dirname(file)).some((name) => name.includes(".plan")));
});

test("limits plan: 1 where apply will be refused, as for conflicts, and nothing is saved", async (t) => {
  const { file, where, manifest, limiter } = await prepared(t, 0);
  const plan = `${file}.plan`;
  writeFileSync(manifest, "owner: o\nentities: { p: { name: P }, q: { name: Q } }\n");
  assert.equal((await here(["limits", "apply", "-f", manifest, "--yes", ...where])).code, 0);
  await limiter.createEntity({ id: "child", parentId: "p" });
  writeFileSync(manifest, "owner: o\nresources: {}\n");
  const planned = await here(["limits", "plan", "-f", manifest, ...where]);
  assert.equal(planned.code, 1, planned.stdout);
  assert.match(planned.stdout, /2 to delete/);
  await limiter.deleteEntity("child");
  assert.equal((await here(["limits", "plan", "-f", manifest, ...where])).code, 0);
  const unsaved = await here(["limits", "plan", "-f", manifest, "-o", plan, "--json", ...where]);
  assert.deepEqual([unsaved.code, JSON.parse(unsaved.stderr).error.code], [1, "deletions_need_prune"]);
  assert.equal((await here(["limits", "plan", "-f", manifest, "--prune", "-o", plan, ...where])).code, 0);
  assert.equal((await here(["limits", "apply", plan, ...where])).code, 0);
  assert.deepEqual([...(await limiter.listEntities())], []);
});
