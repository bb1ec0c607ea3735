import assert from "node:assert/strict";
import { test } from "node:test";
import { type Contention, contend, WAY_MS } from "../../bench/contention.ts";
import { chainOf, comingBack, familyOf, hammering, type PulseOptions, pulsesOf } from "../../bench/level-loads.ts";
import { seeds } from "../depth.ts";

// Counts, by seed, on a simulated table: the same on every machine. See bench/levels.ts for all of them.

const PULSE: Omit<PulseOptions, "processes"> = {
  keys: ["key"],
  requests: 60,
  pulses: 6,
  periodMs: 1_000,
  spreadMs: 0,
  amountMax: 1,
};

function scene(
  given: Pick<Contention, "tree" | "load" | "processes"> & Partial<Contention>,
): ReturnType<typeof contend> {
  return contend({ atomic: false, exact: false, seed: 7, ...given });
}

for (const levels of [2, 3]) {
  for (const processes of [1, 2, 3, 6, 12]) {
    test(`60 at once on ${levels} levels of 30, by ${processes} processes: 30 are granted, each second`, async () => {
      const load = pulsesOf({ ...PULSE, processes });
      const { granted, due, needless } = await scene({ tree: chainOf(levels, 30, {}), load, processes });
      assert.equal(due, 180);
      assert.ok(granted <= due && granted >= 0.97 * due, `${granted} of ${due}`);
      assert.equal(needless, 0, "refused while every level had enough");
    });
  }

  test(`pulses so rare that nobody remembers the last one, ${levels} levels`, async () => {
    const load = pulsesOf({ ...PULSE, periodMs: 15_000, processes: 6 });
    const { granted, due, needless } = await scene({ tree: chainOf(levels, 30, {}), load, processes: 6 });
    assert.ok(granted <= due && granted >= 0.97 * due, `${granted} of ${due}`);
    assert.equal(needless, 0);
  });

  test(`pulses of 1 to 5 tokens, ${levels} levels: a large request that yields does not refuse a small one`, async () => {
    const load = pulsesOf({ ...PULSE, amountMax: 5, processes: 6 });
    const tree = chainOf(levels, 60, {});
    const { granted, due, needless } = await scene({ tree, load, processes: 6, exact: true });
    assert.ok(granted <= due && granted >= 0.97 * due, `${granted} of ${due}`);
    assert.equal(needless, 0);
  });

  test(`a limit that is emptied each second is not held below its brim, ${levels} levels`, async () => {
    const load = pulsesOf({ ...PULSE, requests: 200, processes: 12 });
    const { granted, due } = await scene({ tree: chainOf(levels, 100, {}), load, processes: 12 });
    assert.ok(granted <= due && granted >= 0.97 * due, `${granted} of ${due}`);
  });

  test(`24 at once on a new chain of 10, ${levels} levels: 10 are granted, whoever made the buckets`, async () => {
    for (const processes of [2, 3, 6]) {
      for (const seed of seeds(3, 20)) {
        const load = pulsesOf({ ...PULSE, requests: 24, pulses: 1, processes });
        const { granted } = await scene({ tree: chainOf(levels, 10, {}), load, processes, seed });
        assert.equal(granted, 10, `${processes} processes, seed ${seed}`);
      }
    }
  });

  test(`while every level has enough nobody is refused, ${levels} levels`, async () => {
    const load = pulsesOf({ ...PULSE, processes: 6 });
    const { records } = await scene({ tree: chainOf(levels, 100, {}), load, processes: 6 });
    assert.equal(records.filter(({ granted }) => !granted).length, 0);
  });
}

test("clients that come back when told get all that a saturated parent has to give", async () => {
  const keys = ["key-0", "key-1", "key-2"];
  const load = comingBack({ processes: 3, keys, clients: 12, seconds: 5 });
  const tree = familyOf(3, 3, { key: 20, above: 40 });
  const { granted, due } = await scene({ tree, load, processes: 3 });
  assert.ok(granted >= 0.97 * due, `${granted} of ${due}`);
});

test("a key that hammers does not starve its sibling at their parent", async () => {
  const load = hammering({ processes: 3, hammerPerSecond: 100, siblingPerSecond: 5, seconds: 10 });
  const { records } = await scene({ tree: familyOf(2, 2, { key: 10, above: 20 }), load, processes: 3 });
  const own = records.filter(({ entityId }) => entityId === "key-1");
  const refused = own.filter(({ granted }) => !granted).length;
  assert.ok(own.length > 30 && refused <= 0.04 * own.length, `${refused} of ${own.length} refused`);
});

test("one request at a time is one trip, whatever the number of levels", async () => {
  const load = pulsesOf({ ...PULSE, requests: 1, pulses: 5, processes: 1 });
  const { records, writes } = await scene({ tree: chainOf(3, 30, {}), load, processes: 1 });
  const later = records.slice(1);
  for (const { askedMs, doneMs } of later) assert.ok(doneMs - askedMs <= 2 * WAY_MS + 1, `${doneMs - askedMs} ms`);
  assert.equal(writes, 3 * records.length);
});
