import assert from "node:assert/strict";
import { test } from "node:test";
import { atDepth } from "../depth.ts";
import { playBucketWorld } from "./bucket-fuzz.ts";
import { keptBucketStories } from "./bucket-stories.ts";
import { BUCKET_STORES } from "./bucket-world.ts";
import { shrunk } from "./shrink.ts";
import { simulate } from "./simulation.ts";
import { assertSound } from "./sound.ts";
import { openFor } from "./stores.ts";
import { keptWorldStories, playWorldStory } from "./world-stories.ts";

// One bucket and no engine: what was found there, told as short stories (test/simulation/stories-found), and some thousand
// worlds that nobody has chosen.

for (const { name, stores, seed, world } of keptBucketStories()) {
  for (const store of stores) {
    test(`${name}, on ${store}: nothing is granted above the promise`, async () => {
      const { violations, lastSteps } = await playBucketWorld({ ...world, store }, seed);
      assert.deepEqual(violations, [], lastSteps.join("\n"));
    });
  }
}

for (const { name, ...story } of keptWorldStories()) {
  test(`${name}, on ${story.store}: the promise is kept`, async () => {
    const { violations, lastSteps } = await playWorldStory(story, false);
    assert.deepEqual(violations, [], lastSteps.join("\n"));
  });
}

test("a world plays the same way again from what was drawn", async () => {
  for (const store of ["memory", "conditional"] as const) {
    for (const seed of atDepth([5], [5, 8, 13, 21])) {
      const first = await simulate(seed, { open: () => openFor(store, seed), verbose: false });
      assert.deepEqual(await playWorldStory({ store, seed, script: first.script! }, false), first);
    }
  }
});

test("a list is shortened to what it fails with", async () => {
  const fails = async (some: readonly number[]) => some.includes(3) && some.includes(17);
  const all = Array.from({ length: 40 }, (_, i) => i);
  assert.deepEqual(await shrunk(all, fails), [3, 17]);
});

const WORLDS = {
  "bucket-memory": {
    ...{ quick: 30, deep: 8_000 },
    least: { "claims taken": 30_000, "claims short": 15_000, "forgotten limits that come back": 300 },
  },
  "bucket-sqlite": { quick: 6, deep: 120, least: { "claims taken": 400, "claims short": 200 } },
  "bucket-conditional": {
    ...{ quick: 15, deep: 3_000 },
    least: { "claims taken": 15_000, "with 2 shards": 15_000, "with 8 shards": 150, fail: 2_000 },
  },
} as const;

for (const store of BUCKET_STORES) {
  test(`worlds of one bucket on ${store} keep the promise`, () => assertSound({ store, ...WORLDS[store] }));
}
