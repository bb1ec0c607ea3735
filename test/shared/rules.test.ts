import assert from "node:assert/strict";
import { test } from "node:test";
import {
  cutsWithoutRebase,
  givesBackUnmarked,
  installsFromCache,
  reshards,
  type SharedFaulty,
  storesBelowZero,
  trustsTheEpoch,
} from "../protocol/faulty-shared-clients.ts";
import { simulateShared } from "./simulation.ts";

const SEEDS = 160;

/** Clients that lack a rule: each breaks the promise in some world that keeps it otherwise; and what is seen of it. */
const SEEN: readonly (readonly [lacking: string, faulty: SharedFaulty, what: RegExp])[] = [
  ["a rebase over the capacity", cutsWithoutRebase, /left stored tokens where .* and the epoch stayed/],
  ["marks on what comes back", givesBackUnmarked, /stands over its brim and nothing says so/],
  ["configuration read after the item", installsFromCache, /were brought to an item that went by version/],
  ["respect for the number of shards", reshards, /the number of shards was changed/],
  ["pinned terms", trustsTheEpoch, /where .* should be|above the promise|was changed in place/],
  ["stored tokens of zero and more", storesBelowZero, /a take left -\d+ stored tokens/],
];

for (const [lacking, faulty, what] of SEEN) {
  test(`without ${lacking} some world breaks the promise`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const without = await simulateShared(seed, { verbose: false, faulty });
      if (!what.test(without.violations[0] ?? "")) continue;
      const { violations } = await simulateShared(seed, { verbose: false });
      if (violations.length === 0) return;
    }
    assert.fail(`${SEEDS} worlds keep the promise without ${lacking}`);
  });
}
