import assert from "node:assert/strict";
import { test } from "node:test";
import { playBucketWorld } from "./bucket-fuzz.ts";
import { keptBucketStories } from "./bucket-stories.ts";
import { BUCKET_STORES } from "./bucket-world.ts";
import { playSeeds } from "./pool.ts";
import { shrunk } from "./shrink.ts";
import { type SeedReport, simulate } from "./simulation.ts";
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
    for (const seed of [5, 8, 13, 21]) {
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

const WORLDS = { "bucket-memory": 4_000, "bucket-sqlite": 60, "bucket-conditional": 1_500 } as const;

/** Worlds in which little happens prove little. */
const LEAST = {
  "bucket-memory": { "claims taken": 20_000, "claims short": 10_000, "forgotten limits that come back": 200 },
  "bucket-sqlite": { "claims taken": 250, "claims short": 150, "forgotten limits that come back": 1 },
  "bucket-conditional": { "claims taken": 8_000, "with 2 shards": 8_000, "with 8 shards": 100, fail: 1_000 },
} as const;

for (const store of BUCKET_STORES) {
  test(`worlds of one bucket on ${store} keep the promise`, async () => {
    const broken: SeedReport[] = [];
    const tally: Record<string, number> = {};
    await playSeeds({ from: 1, seeds: WORLDS[store], store, workers: 1 }, (report) => {
      if (report.violations.length > 0) broken.push(report);
      for (const [what, count] of Object.entries(report.tally)) tally[what] = (tally[what] ?? 0) + count;
    });
    const [first] = broken;
    assert.equal(first, undefined, `${broken.length} seeds, first ${first?.seed}: ${first?.lastSteps.join("\n")}`);
    for (const [what, count] of Object.entries(LEAST[store])) {
      assert.ok((tally[what] ?? 0) >= count, `${what}: only ${tally[what]} in all worlds, ${count} were expected`);
    }
  });
}
