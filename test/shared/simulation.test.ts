import assert from "node:assert/strict";
import { test } from "node:test";
import { assertSound } from "../simulation/sound.ts";
import { simulateShared } from "./simulation.ts";

test("tables that both write keep the promise", () =>
  assertSound({ store: "shared", quick: 25, deep: 500, least: LEAST }));

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
  "ours taken": 5_700,
  "ours short": 3_800,
  "ours take": 4_100,
  "ours rebase": 4_300,
  "ours create": 250,
  "ours credit": 2_700,
  "ours share": 44,
  "ours debit applied": 1_800,
  "ours credit applied": 2_900,
  "ours brought limits": 170,
  "ours changed limits": 220,
  "ours disabled": 750,
  "theirs granted": 4_100,
  "theirs refused": 2_900,
  "theirs fast": 6_300,
  "theirs slow": 650,
  "theirs create": 190,
  "theirs adjust": 1_600,
  "theirs rollback": 980,
  "theirs changed in place": 120,
  "debts paid": 280,
  "idle hours": 370,
  swept: 44,
  reached: 260,
  "fault refused": 390,
  "fault lostBefore": 390,
  "fault lostAfter": 400,
  "fault late": 390,
};
