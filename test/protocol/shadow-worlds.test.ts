import assert from "node:assert/strict";
import { test } from "node:test";
import { SHADOW_MUTANTS } from "./shadow-mutants.ts";
import { playShadows } from "./shadow-world.ts";

test("in a hundred worlds of lost answers and clocks that are off a shadow holds what a hard limit would", async () => {
  for (let seed = 1; seed <= 100; seed++) assert.equal(await playShadows(seed), undefined, `seed ${seed}`);
});

/** One of so many worlds has to find each bug. */
const WORLDS = 60;

for (const [bug, spoiled] of Object.entries(SHADOW_MUTANTS)) {
  test(`the judge of shadows finds ${bug}`, async () => {
    for (let seed = 1; seed <= WORLDS; seed++) if ((await playShadows(seed, spoiled)) !== undefined) return;
    assert.fail(`not found in ${WORLDS} worlds`);
  });
}
