import assert from "node:assert/strict";
import { test } from "node:test";
import { slotMutants } from "./slot-mutants.ts";
import { playSlots } from "./slot-world.ts";

test("in a hundred worlds of lost answers, deaths and changed limits no slot is held twice, and none is lost", async () => {
  for (let seed = 1; seed <= 100; seed++) assert.equal(await playSlots(seed), undefined, `seed ${seed}`);
});

/** One of so many worlds has to find each bug. */
const WORLDS = 200;

for (const [bug, spoiled] of Object.entries(slotMutants("parallel"))) {
  test(`the judge of slots finds ${bug}`, async () => {
    for (let seed = 1; seed <= WORLDS; seed++) if ((await playSlots(seed, spoiled)) !== undefined) return;
    assert.fail(`not found in ${WORLDS} worlds`);
  });
}
