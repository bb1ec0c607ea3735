import assert from "node:assert/strict";
import { test } from "node:test";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";
import { onFile } from "./on-file.ts";

test("a namespace is frozen and unfrozen by name, and commands say why it refuses", async (t) => {
  const { run } = await onFile(t, "entity create acme", "resource set-defaults api -l rpm:60/min");
  const acquire = "acquire acme api -c rpm=1";
  const dry = await run("namespace freeze default --reason moving --dry-run --json");
  assert.deepEqual(
    [dry.code, JSON.parse(dry.stdout)],
    [0, { name: "default", frozen: { reason: "moving" }, dryRun: true }],
  );
  assert.equal((await run(acquire)).code, 0);
  const frozen = await run("namespace freeze default --reason moving");
  assert.deepEqual([frozen.code, frozen.stdout], [0, "default is frozen (moving).\n"]);
  assert.match((await run("namespace show default")).stdout, /^ *frozen +yes: moving$/m);
  assert.deepEqual(JSON.parse((await run("namespace show default --json")).stdout).frozen, { reason: "moving" });
  const refused = await run(acquire);
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /The namespace is frozen \(moving\): .* unfreeze it with `zae-limiter namespace unfreeze`/,
  );
  assert.equal((await run(`${acquire} --dry-run`)).stderr, refused.stderr);
  assert.equal(JSON.parse((await run(`${acquire} --json`)).stderr).error.code, "namespace_frozen");
  assert.equal((await run("bucket top-up acme api -a rpm=1")).code, 1);
  assert.match(
    (await run("explain acme api")).stdout,
    /acme may take nothing from api: the namespace is frozen \(moving\)\./,
  );
  assert.equal(
    (await run("access show -e acme")).stdout.split("\n")[1],
    "The namespace is frozen: nothing is taken, whatever access is set.",
  );
  assert.deepEqual(JSON.parse((await run("access show -e acme --json")).stdout).frozen, { reason: "moving" });
  assert.match((await run("audit list")).stdout, /namespace frozen +default/);
  const warm = await run("namespace unfreeze default");
  assert.deepEqual([warm.code, warm.stdout], [0, "default is not frozen.\n"]);
  assert.equal((await run(acquire)).code, 0);
  assert.ok(!(await run("namespace show default")).stdout.includes("frozen"));
  for (const line of ["namespace freeze nobody", "namespace unfreeze nobody"]) assert.equal((await run(line)).code, 4);
});

test("a copy that freezes its source says that it stays so, and how long it took", async (t) => {
  const { run } = await onFile(t, "entity create acme");
  const from = (await run("namespace show default --json")).stdout;
  assert.ok(from.includes("default"));
  const [source, target] = [`sqlite:${tempFile(t)}`, `sqlite:${tempFile(t)}`];
  for (const store of [source, target]) assert.equal((await here(["init", "--store", store])).code, 0);
  const done = await here(["copy", source, target, "--freeze", "--yes"]);
  assert.equal(done.code, 0, done.stderr);
  assert.match(
    done.stdout,
    /frozen in sqlite:\S+, and stays so until `namespace unfreeze default`; not frozen in the copy/,
  );
  const [, tookMs] = / -> \S+, (\d+) ms\.$/m.exec(done.stdout) ?? [];
  assert.ok(Number(tookMs) >= 2_000, done.stdout);
  assert.doesNotMatch(done.stdout, /granted twice/);
  const shown = async (store: string) =>
    JSON.parse((await here(["access", "show", "-e", "a", "--json", "--store", store])).stdout);
  assert.deepEqual(
    [(await shown(source)).frozen, (await shown(target)).frozen],
    [{ reason: "copied to another store" }, undefined],
  );
  const other = `sqlite:${tempFile(t)}`;
  assert.equal((await here(["init", "--store", other])).code, 0);
  assert.equal((await here(["namespace", "unfreeze", "default", "--store", source])).code, 0);
  const taking = await here(["copy", source, other, "--yes"]);
  assert.match(
    taking.stdout,
    /at most that much is granted twice\. Whoever goes on taking from sqlite:\S+ is limited by it alone\.$/m,
  );
});
