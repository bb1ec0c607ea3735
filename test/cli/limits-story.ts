import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { here } from "./in-process.ts";

const MANIFEST = `owner: platform
resources:
  gpt-4: { limits: { rpm: 100 } }
entities:
  proj-1: { name: Production }
  key-1: { parent: proj-1, resources: { gpt-4: { limits: { rpm: 10/min } } } }
`;

/** Declared limits from the file to the store and back, on whatever store, and over a service. */
export async function limitsStory(t: TestContext, where: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-limits-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "limits.yaml");
  const run = async (line: string) => {
    const ran = await here([...line.split(" "), "-f", file, "--json", ...where]);
    return { ...ran, json: JSON.parse(ran.stdout || ran.stderr) };
  };
  writeFileSync(file, MANIFEST);
  // A service has a store.
  if (!where.includes("--url")) assert.equal((await here(["init", "--yes", ...where])).code, 0);
  assert.deepEqual((await run("limits validate")).json.pieces, 4);
  const planned = await run("limits plan --exit-code");
  assert.deepEqual([planned.code, planned.json.summary.create], [1, 4]);
  const applied = await run("limits apply --yes");
  assert.deepEqual([applied.code, applied.stderr], [0, ""]);
  assert.ok(applied.json.changes.every(({ done }: { done: boolean }) => done));
  assert.deepEqual([(await run("limits plan --exit-code")).code, (await run("limits diff")).json.drift], [0, []]);

  const whole = await here(["limits", "export", ...where]);
  assert.match(whole.stdout, /^namespace: default\nowner: platform$/m);
  writeFileSync(file, whole.stdout);
  const { owner, pieces } = (await run("limits validate")).json;
  assert.deepEqual([owner, pieces], ["platform", 4]);
  assert.deepEqual([(await run("limits plan --exit-code")).code, (await run("limits diff")).code], [0, 0]);

  assert.equal((await here(["resource", "set-defaults", "gpt-4", "-l", "rpm:1", ...where])).code, 0);
  const drift = await here(["limits", "diff", "--owner", "platform", ...where]);
  assert.equal(drift.code, 1);
  assert.match(drift.stdout, /^~ the limits of the resource gpt-4: rpm:100\/min -> rpm:1\/min/);

  const exported = await here(["limits", "export", "--owner", "platform", ...where]);
  assert.deepEqual([exported.code, exported.stderr], [0, ""]);
  assert.match(exported.stdout, /key-1:/);

  writeFileSync(file, "owner: platform\nresources: {}\n");
  const refused = await run("limits apply --yes");
  assert.deepEqual([refused.code, refused.json.error.code], [1, "deletions_need_prune"]);
  assert.equal((await run("limits apply --yes --prune")).code, 0);
  const { items } = JSON.parse((await here(["entity", "list", "--json", ...where])).stdout);
  assert.deepEqual(items, []);
}
