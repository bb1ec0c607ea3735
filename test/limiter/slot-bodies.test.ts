import assert from "node:assert/strict";
import { test } from "node:test";
import { seeds } from "../depth.ts";
import { GROUNDS, playBodies } from "./slot-bodies.ts";

for (const [name, ground] of Object.entries(GROUNDS)) {
  test(`on ${name} no more bodies run at once than there are slots, and all slots come back`, async () => {
    for (const seed of seeds(8, 60)) assert.equal(await playBodies(ground, seed), undefined, `seed ${seed}`);
  });
}
