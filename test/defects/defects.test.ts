import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isDeep } from "../depth.ts";
import { everyDefect } from "./every.ts";
import { rpm } from "./kit.ts";
import { memoryKit } from "./kit-memory.ts";
import { localDefects } from "./local.ts";

describe("no defect of the original shows in memory", () => {
  const kit = memoryKit();
  everyDefect(kit);
  localDefects(kit);

  // The engine remembers, whatever the store. So many ids take some seconds; in `npm test` bounded-map.test.ts has the bound.
  if (isDeep) {
    test("X18: what is remembered does not grow with every entity ever seen", async () => {
      const { limiter } = await kit.open();
      await limiter.setSystemDefaults(rpm(10));
      for (let i = 0; i < 210_000; i++) {
        limiter.tryAcquireSync({ entityId: `e${i}`, resource: "api", consume: { rpm: 1 } });
      }
      assert.ok(limiter.cacheStats().size <= 200_000, `${limiter.cacheStats().size} levels are remembered`);
    });
  }
});
