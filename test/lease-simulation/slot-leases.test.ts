import assert from "node:assert/strict";
import { test } from "node:test";
import { atDepth, seeds } from "../depth.ts";
import { GROUNDS } from "./lease-grounds.ts";
import { playSlotLeases } from "./slot-leases.ts";

for (const [name, open] of Object.entries(GROUNDS)) {
  test(`in worlds on ${name} stored leases end no later than their slots, and leave none held`, async () => {
    const tally: Record<string, number> = {};
    for (const seed of seeds(12, 120)) {
      const { problem, steps, ...report } = await playSlotLeases(seed, open);
      assert.equal(problem, undefined, `seed ${seed}\n${steps.join("\n")}`);
      for (const [what, times] of Object.entries(report.tally)) tally[what] = (tally[what] ?? 0) + times;
    }
    // A world in which nothing happens proves nothing.
    for (const what of ["acquire", "consume", "release", "extend", "settle", "rollback", "expire"])
      assert.ok((tally[what] ?? 0) >= atDepth(2, 20), `${what}: only ${tally[what]} times`);
  });
}
