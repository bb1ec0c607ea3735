import assert from "node:assert/strict";
import { test } from "node:test";
import { GROUNDS } from "./lease-grounds.ts";
import { playSlotLeases } from "./slot-leases.ts";

for (const [name, open] of Object.entries(GROUNDS)) {
  test(`in thirty worlds on ${name} stored leases end no later than their slots, and leave none held`, async () => {
    const tally: Record<string, number> = {};
    for (let seed = 1; seed <= 30; seed++) {
      const { problem, steps, ...report } = await playSlotLeases(seed, open);
      assert.equal(problem, undefined, `seed ${seed}\n${steps.join("\n")}`);
      for (const [what, times] of Object.entries(report.tally)) tally[what] = (tally[what] ?? 0) + times;
    }
    // A world in which nothing happens proves nothing.
    for (const what of ["acquire", "consume", "release", "extend", "settle", "rollback", "expire"])
      assert.ok((tally[what] ?? 0) >= 5, `${what}: only ${tally[what]} times`);
  });
}
