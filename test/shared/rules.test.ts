import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL_RULES, type Rules } from "../../src/protocol/rules.ts";
import { simulateShared } from "./simulation.ts";

const SEEDS = 160;

/** Each of these, switched off, breaks the promise in some world that keeps it otherwise; and what is seen of it. */
const SEEN: readonly (readonly [rule: keyof Rules, what: RegExp])[] = [
  ["sharedRebasesOver", /left stored tokens where .* and the epoch stayed/],
  ["sharedCreditMarks", /stands over its brim and nothing says so/],
  ["sharedReadsAfter", /were brought to an item that went by version/],
  ["sharedKeepsShards", /the number of shards was changed/],
  ["sharedPinsTerms", /where .* should be|above the promise|was changed in place/],
  ["sharedKeepsStored", /a take left -\d+ stored tokens/],
];

for (const [rule, what] of SEEN) {
  test(`without ${rule} some world breaks the promise`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const without = await simulateShared(seed, { verbose: false, rules: { [rule]: false } });
      if (!what.test(without.violations[0] ?? "")) continue;
      const { violations } = await simulateShared(seed, { verbose: false });
      if (violations.length === 0) return;
    }
    assert.fail(`${SEEDS} worlds keep the promise without ${rule}`);
  });
}

test("every rule of a shared table is shown to be needed, but for one that holds by the forms there are", () => {
  const shared = Object.keys(ALL_RULES).filter((rule) => rule.startsWith("shared"));
  // What has expired is never replaced: ours makes an item only where there is none.
  const shown = [...SEEN.map(([rule]) => rule), "sharedKeepsExpired"];
  assert.deepEqual([...shown].sort(), shared.sort());
});
