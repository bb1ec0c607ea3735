import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

async function prepared(t: TestContext) {
  const file = tempFile(t);
  const where = ["--store", `sqlite:${file}`];
  assert.equal((await here(["init", ...where])).code, 0);
  const limiter = await RateLimiter.open({ store: `sqlite:${file}` });
  t.after(() => limiter.close());
  await limiter.setResourceDefaults("api", [
    Limit.perMinute("rpm", 100),
    Limit.quota("month", 10, { reset: "monthly" }),
  ]);
  await limiter.createEntity({ id: "key-1" });
  await limiter.createPlan({ id: "gold" });
  await limiter.setLimits("key-1", [Limit.perMinute("rpm", 5)]);
  return { file, where, limiter };
}

const errorOf = (stderr: string) => (JSON.parse(stderr) as { error: { code: string } }).error.code;

test("namespace recover --dry-run tells what recover does: active, without its deletion; 1 where the name is taken", async (t) => {
  const { where, limiter } = await prepared(t);
  const { id } = await limiter.registerNamespace("tenant");
  const active = await here(["namespace", "recover", id, "--dry-run", "--json", ...where]);
  assert.deepEqual([active.code, errorOf(active.stderr)], [1, "namespace_not_deleted"]);
  await limiter.deleteNamespace("tenant");
  const planned = await here(["namespace", "recover", id, "--dry-run", "--json", ...where]);
  const { dryRun, ...wouldBe } = JSON.parse(planned.stdout);
  assert.deepEqual([planned.code, dryRun, "deletedAtMs" in wouldBe], [0, true, false]);
  await limiter.registerNamespace("tenant");
  for (const dry of [["--dry-run"], []]) {
    const taken = await here(["namespace", "recover", id, "--json", ...dry, ...where]);
    assert.deepEqual([taken.code, errorOf(taken.stderr)], [1, "namespace_name_taken"]);
  }
  await limiter.deleteNamespace("tenant");
  const done = await here(["namespace", "recover", id, "--json", ...where]);
  assert.deepEqual(JSON.parse(done.stdout), wouldBe, "as it was told");
  const nobody = await here(["namespace", "recover", "nobody", "--dry-run", "--json", ...where]);
  assert.deepEqual([nobody.code, errorOf(nobody.stderr)], [4, "namespace_not_found"]);
});

test("system set-defaults --on-unavailable keeps limits that are changed while it runs", async (t) => {
  const { where, limiter } = await prepared(t);
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);
  const ran = here(["system", "set-defaults", "--on-unavailable", "allow", "--json", ...where]);
  const set = limiter.setSystemDefaults([Limit.perMinute("rpm", 2)]);
  assert.equal((await ran).code, 0);
  await set;
  const { limits, onUnavailable } = await limiter.getSystemDefaults();
  assert.deepEqual([limits, onUnavailable], [[Limit.perMinute("rpm", 2)], "allow"]);
  const { events } = await limiter.auditEvents({ entityId: "$SYSTEM" });
  const own = events.find(({ details }) => details?.onUnavailable === "allow");
  assert.ok(own !== undefined && !("limits" in (own.details ?? {})), "it writes what it was asked to, and no limits");
});

test("T6: a dry run refuses what the real one refuses: principal, idempotency key, amounts", async (t) => {
  const { where, limiter, file } = await prepared(t);
  const manifest = `${file}.yaml`;
  writeFileSync(manifest, "resources: { api: { limits: { rpm: 5 } } }\n");
  await limiter.registerNamespace("tenant");
  await limiter.registerNamespace("gone");
  const { id } = await limiter.deleteNamespace("gone");
  const changing = [
    ["entity", "create", "new-1"],
    ["entity", "update", "key-1", "--name", "K"],
    ["entity", "delete", "key-1"],
    ["entity", "set-limits", "key-1", "-l", "rpm:9"],
    ["entity", "delete-limits", "key-1"],
    ["resource", "set-defaults", "api", "-l", "rpm:9"],
    ["resource", "delete-defaults", "api"],
    ["system", "set-defaults", "-l", "rpm:9"],
    ["access", "set", "disabled", "-e", "key-1"],
    ["cascade", "set", "on", "-e", "key-1"],
    ["namespace", "register", "other"],
    ["namespace", "delete", "tenant"],
    ["namespace", "recover", id],
    ["namespace", "purge", id],
    ["bucket", "reset", "key-1", "api"],
    ["bucket", "top-up", "key-1", "api", "-a", "rpm=5"],
    ["plan", "create", "silver"],
    ["plan", "update", "gold", "--name", "G"],
    ["plan", "delete", "gold"],
    ["limits", "apply", "-f", manifest],
  ];
  for (const args of changing) {
    for (const dry of [["--dry-run"], []]) {
      for (const [more, env] of [
        [["--principal", "white space"], {}],
        [[], { ZAEL_PRINCIPAL: "white space" }],
      ] as const) {
        const ran = await here([...args, "--yes", "--json", ...more, ...dry, ...where], { env });
        assert.deepEqual([ran.code, ran.stdout], [2, ""], `${[...args, ...more, ...dry].join(" ")}: ${ran.stderr}`);
        assert.equal(errorOf(ran.stderr), "principal_invalid");
      }
    }
  }
  for (const [args, code] of [
    [["bucket", "top-up", "key-1", "api", "-a", "rpm=5", "--idempotency-key", "no way"], "idempotency_key_invalid"],
    [["bucket", "reset", "key-1", "api", "--idempotency-key", "no way"], "idempotency_key_invalid"],
    [["bucket", "top-up", "key-1", "api", "-a", "rpm=99999999999999"], "amount_invalid"],
    [["bucket", "top-up", "key-1", "api", "-a", "rpm=0"], "consume_empty"],
    [["bucket", "top-up", "key-1", "api", "-a", "nope=1"], "limit_unknown"],
    [["bucket", "top-up", "other", "api", "-a", "month=9000000000000", "--allow-unknown"], "top_up_too_large"],
  ] as const) {
    for (const dry of [["--dry-run"], []]) {
      const ran = await here([...args, "--json", ...dry, ...where]);
      assert.deepEqual(
        [ran.code, ran.stderr === "" ? "" : errorOf(ran.stderr)],
        [2, code],
        [...args, ...dry].join(" "),
      );
    }
  }
});

test("entity update --version 3 is told of --if-version, and prints no version of the tool", async (t) => {
  const { where } = await prepared(t);
  const ran = await here(["entity", "update", "key-1", "--version", "3", "--name", "K", ...where]);
  assert.deepEqual([ran.code, ran.stdout], [2, ""]);
  assert.match(ran.stderr, /--if-version/);
  assert.match((await here(["entity", "--version"])).stdout, /^\d+\.\d+\.\d+\n$/);
});

test("entity update --name '' gives the id as the name, as entity create does", async (t) => {
  const { where } = await prepared(t);
  const created = await here(["entity", "create", "key-2", "--name", "", "--json", ...where]);
  const updated = await here(["entity", "update", "key-1", "--name", "", "--json", ...where]);
  assert.deepEqual([JSON.parse(created.stdout).name, JSON.parse(updated.stdout).name], ["key-2", "key-1"]);
});
