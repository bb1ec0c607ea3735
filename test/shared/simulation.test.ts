import assert from "node:assert/strict";
import { test } from "node:test";
import { simulateShared } from "./simulation.ts";

const SEEDS = 200;

test("two hundred tables that both write keep the promise", async (t) => {
  const tally: Record<string, number> = {};
  const failed: string[] = [];
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { violations, tally: counted } = await simulateShared(seed, { verbose: false });
    for (const [what, times] of Object.entries(counted)) tally[what] = (tally[what] ?? 0) + times;
    if (violations.length > 0) failed.push(`seed ${seed}: ${violations[0]}`);
  }
  t.diagnostic(JSON.stringify(tally));
  assert.deepEqual(
    failed,
    [],
    `npm run simulate -- --store shared --seed N tells the story of one; ${failed.length} failed`,
  );
  for (const [what, least] of Object.entries(LEAST)) {
    assert.ok((tally[what] ?? 0) >= least, `"${what}" happened ${tally[what] ?? 0} times: that proves nothing`);
  }
});

// A lost answer and a bucket that was disabled meanwhile; tokens of a limit that is no longer on the item; a debit by a
// reading that was old when it landed.
const FOUND = [328, 449, 1275, 1603, 3225];

test("tables that once broke the promise keep it", async () => {
  for (const seed of FOUND) {
    const { violations } = await simulateShared(seed, { verbose: false });
    assert.deepEqual(violations, [], `seed ${seed}`);
  }
});

test("a seed tells the same story twice", async () => {
  const [one, two] = [await simulateShared(7, { verbose: false }), await simulateShared(7, { verbose: false })];
  assert.deepEqual(one, two);
});

/** A world in which these do not happen proves nothing. */
const LEAST: Readonly<Record<string, number>> = {
  "ours taken": 1_000,
  "ours short": 300,
  "ours take": 300,
  "ours rebase": 300,
  "ours create": 50,
  "ours credit": 100,
  "ours share": 10,
  "ours debit applied": 100,
  "ours credit applied": 100,
  "ours brought limits": 30,
  "ours changed limits": 30,
  "ours disabled": 5,
  "theirs granted": 1_000,
  "theirs refused": 300,
  "theirs fast": 500,
  "theirs slow": 100,
  "theirs create": 50,
  "theirs adjust": 100,
  "theirs rollback": 100,
  "theirs changed in place": 30,
  "debts paid": 20,
  "idle hours": 50,
  swept: 5,
  reached: 50,
  "fault refused": 50,
  "fault lostBefore": 50,
  "fault lostAfter": 50,
  "fault late": 50,
};
