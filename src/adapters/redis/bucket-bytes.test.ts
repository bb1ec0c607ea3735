import assert from "node:assert/strict";
import { test } from "node:test";
import type { StraightLevel, StraightRow } from "../../ports/batch-store.ts";
import { SeededRandom } from "../../testing/random.ts";
import { bytesOfRow, leavingOf, openHourOf, rowOfBytes, seenOfBytes } from "./bucket-bytes.ts";

const T0 = Date.UTC(2026, 2, 15, 12);

function randomRow(random: SeededRandom): StraightRow {
  const number = () =>
    random.pick([0, 1, -1, Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER, random.integer(0, 1e9)]);
  const orNull = () => random.pick([null, number()]);
  return {
    ...{ signature: "s\u00e4", limitsText: random.pick(["[]", '["\u00e4",\n"q\\""]']), epochMs: T0 },
    ...{ renewAtMs: T0 + random.integer(-1, 3_600_001), validUntilMs: orNull(), writtenMs: orNull(), asOfMs: number() },
    ...{ generation: orNull(), metNumber: number(), hourMs: T0, requests: random.integer(0, 9) },
    levels: Array.from(
      { length: random.integer(0, 20) },
      (_, i): StraightLevel => ({
        ...{ name: `limit-${i}@${T0}`, capacityMilli: number(), refillAmountMilli: number(), refillPeriodMs: 7_001 },
        ...{ soft: random.chance(0.5), windowMs: random.pick([-1, 0, 5_000]), tokensMilli: number(), remainder: 6 },
        ...{ countedMilli: orNull(), windowStartMs: orNull(), topUpMilli: number(), resets: number() },
      }),
    ),
  };
}

test("a row is read as it was written, whatever its numbers and texts are", () => {
  const random = new SeededRandom(1);
  for (let i = 0; i < 200; i++) {
    const row = randomRow(random);
    const marks = random.pick([null, '{"\u00fc":1}']);
    const bytes = bytesOfRow(row, 77, marks);
    assert.deepEqual(rowOfBytes(bytes), { ...row, version: 77, marks });
    const seen = seenOfBytes(bytes);
    assert.equal(seen.limitsText, row.limitsText);
    assert.deepEqual(
      seen.tokensMilli,
      row.levels.map(({ tokensMilli }) => tokensMilli),
    );
    assert.equal(openHourOf(bytes) === undefined, leavingOf({ ...row, version: 77, marks }).length === 0);
  }
});

test("what is cut off or not ours is no row whose limits could be read", () => {
  const bytes = bytesOfRow(randomRow(new SeededRandom(2)), 1, null);
  assert.equal(rowOfBytes(null), undefined);
  assert.equal(rowOfBytes(new Uint8Array()), undefined);
  for (const damaged of [bytes.subarray(0, bytes.length - 9), bytes.subarray(0, 5), Buffer.from("hello")]) {
    assert.deepEqual(rowOfBytes(damaged)?.levels, []);
  }
});

test("a row is refused whose refill the script could not divide exactly", () => {
  const row = randomRow(new SeededRandom(3));
  assert.throws(() => bytesOfRow({ ...row, renewAtMs: row.epochMs + 3_600_002 }, 0, null), /renewed after 3600002 ms/);
  const [level] = randomRow(new SeededRandom(4)).levels as [StraightLevel];
  const slow = { ...level, refillPeriodMs: 1_000_000_000_001 };
  assert.throws(() => bytesOfRow({ ...row, levels: [slow] }, 0, null), /in 1000000000001 ms/);
});
