import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { currentLease, Limit, RateLimiter, withCurrentLease } from "../../src/entry/index.ts";

const limiter = await RateLimiter.open({ store: "memory" });
const limits = [Limit.perMinute("rpm", 60)];
const take = (entityId: string) => limiter.acquire({ entityId, resource: "api", limits, consume: { rpm: 1 } });

test("the current lease is that of the innermost call, through awaits, and none outside", async () => {
  assert.equal(currentLease(), undefined);
  const [outer, inner, other] = [await take("a"), await take("b"), await take("c")];
  const seen = withCurrentLease(outer, async () => {
    await setImmediate();
    const within = withCurrentLease(inner, async () => {
      await setImmediate();
      return currentLease();
    });
    return [await within, currentLease()];
  });
  const beside = withCurrentLease(other, async () => {
    await setImmediate();
    return currentLease();
  });
  assert.deepEqual(await seen, [inner, outer]);
  assert.equal(await beside, other);
  assert.equal(currentLease(), undefined);
  assert.throws(() => withCurrentLease(outer, undefined as never), /needs a function/);
});

test("a runtime without AsyncLocalStorage runs the function, and knows no current lease", () => {
  const program = `
    process.getBuiltinModule = undefined;
    globalThis.AsyncLocalStorage = undefined;
    const { currentLease, withCurrentLease } = await import(${JSON.stringify(fileURLToPath(new URL("../../src/engine/lease/current-lease.ts", import.meta.url)))});
    console.log(withCurrentLease({}, () => [currentLease() === undefined, 7].join()));
  `;
  assert.equal(
    execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" }),
    "true,7\n",
  );
});
