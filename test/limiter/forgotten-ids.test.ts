import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { here } from "../cli/in-process.ts";
import { NS, problem, serviceOf } from "../server/service-kit.ts";
import { tempFile } from "../sqlite/temp-store.ts";

const WRONG = ["", "a#b", "a b", null, 7, {}, "$RESOURCE:", "$RESOURCE:a b", "$PLAN:", "$NAMESPACE:", "$OTHER:x", "$"];
const GOOD = ["key-1", "$SYSTEM", "$RESOURCE:api/v1", "$PLAN:gold", "$NAMESPACE:tenant", "$NAMESPACE:_a-B9"];

test("T7: audit of an id that can never be is refused, and not told as nothing happened", async () => {
  const limiter = await RateLimiter.open({ store: "memory" });
  for (const entityId of WRONG) {
    await assert.rejects(
      async () => limiter.auditEvents({ entityId } as never),
      { name: "ValidationError" },
      String(entityId),
    );
  }
  for (const entityId of GOOD) assert.deepEqual((await limiter.auditEvents({ entityId })).events, []);
  await limiter.close();
});

test("T7: an idempotency key of null is refused, as it would charge again on a repeat", async () => {
  const limiter = await RateLimiter.open({ store: "memory" });
  await limiter.setResourceDefaults("api", [Limit.quota("money", 10, { reset: "monthly" })]);
  const on = { entityId: "key-1", resource: "api", idempotencyKey: null } as never as {
    entityId: string;
    resource: string;
  };
  await assert.rejects(limiter.topUp({ ...on, amounts: { money: 5 } }), { code: "idempotency_key_invalid" });
  await assert.rejects(limiter.resetBucket(on), { code: "idempotency_key_invalid" });
  await limiter.close();
});

test("T7: the same by the command and over HTTP, events included", async (t) => {
  const where = ["--store", `sqlite:${tempFile(t)}`];
  await here(["init", ...where]);
  for (const args of [
    ["audit", "list", "-e", ""],
    ["audit", "list", "-e", "a#b"],
    ["audit", "list", "-r", "a b"],
    ["audit", "list", "-r", ""],
  ]) {
    const { code, stdout } = await here([...args, "--json", ...where]);
    assert.deepEqual([code, stdout], [2, ""], args.join(" "));
  }
  const { call } = await serviceOf(t);
  for (const query of ["audit?entityId=", "audit?entityId=a%23b", "events?entityId=a%23b", "events?resource=a%20b"]) {
    const answer = await call("GET", `${NS}/${query}`);
    assert.equal(answer.status, 400, query);
    problem(answer, 400, answer.body.code);
  }
  assert.equal((await call("GET", `${NS}/audit?entityId=%24SYSTEM`)).status, 200);
});

test("utilization is a number that people would write: 29 of 100 are 29", async () => {
  const limiter = await RateLimiter.open({ store: "memory" });
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 100)]);
  await limiter.acquire({ entityId: "key-1", resource: "api", consume: { rpm: 29 } });
  const { utilizationPct, entities } = await limiter.resourceCapacity("api", "rpm");
  assert.deepEqual([utilizationPct, entities[0]?.utilizationPct], [29, 29]);
  await limiter.close();
});
