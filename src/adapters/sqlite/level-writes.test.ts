import assert from "node:assert/strict";
import { test } from "node:test";
import {
  claim,
  context,
  kinds,
  NOON,
  oneTime,
  openOn,
  tempFile,
  tokensMilli,
} from "../../../test/sqlite/temp-store.ts";
import { LEVELS_TOGETHER, LEVELS_TOGETHER_MAX } from "./level-writes.ts";

/** Buckets with one limit and with two, whose levels have different lengths; each has a number of tokens of its own. */
function claims(count: number) {
  return Array.from({ length: count }, (_, i) => {
    const limits = [oneTime("rpm", 100 + i), ...(i % 3 === 0 ? [oneTime("tpm", 100)] : [])];
    return claim(`key-${i}`, limits, { rpm: 1 });
  });
}

const [SEVERAL, MOST] = [LEVELS_TOGETHER, LEVELS_TOGETHER_MAX];

for (const count of [1, SEVERAL - 1, SEVERAL, SEVERAL + 3, MOST, MOST + 3, 2 * MOST + SEVERAL + 3]) {
  test(`each of ${count} buckets of one transaction has its own level in the file`, async (t) => {
    const file = tempFile(t);
    const { buckets, connection } = openOn(t, file);
    const all = claims(count);
    const before = connection.commits;
    for (let round = 0; round < 3; round++) {
      const replies = await Promise.all(all.map((one) => buckets.take([one], context(NOON))));
      assert.ok(replies.every((reply) => kinds(reply)[0] === "taken"));
    }
    assert.equal(connection.commits - before, 3);
    const states = await openOn(t, file).buckets.read(all.map(({ bucket }) => bucket));
    assert.deepEqual(
      states.map((state) => tokensMilli(state, "rpm")),
      all.map((_, i) => (100 + i - 3) * 1000),
    );
  });
}

test("a row that is gone from the file fails its whole transaction, and no later one", async (t) => {
  const file = tempFile(t);
  const { buckets, connection } = openOn(t, file);
  const all = claims(LEVELS_TOGETHER_MAX + LEVELS_TOGETHER + 2);
  const takes = () => Promise.allSettled(all.map((one) => buckets.take([one], context(NOON))));
  await takes();
  for (const gone of ["key-3", `key-${LEVELS_TOGETHER_MAX + 1}`, `key-${all.length - 1}`]) {
    connection.exec(`DELETE FROM bucket WHERE entity = '${gone}'`);
    const [first] = await takes();
    assert.match(
      String(first?.status === "rejected" && first.reason),
      new RegExp(`Not all of these buckets .*${gone} on gpt-4`),
    );
    assert.ok((await takes()).every(({ status }) => status === "fulfilled"));
  }
  const states = await openOn(t, file).buckets.read(all.map(({ bucket }) => bucket));
  assert.equal(tokensMilli(states[0], "rpm"), 96_000);
  assert.equal(tokensMilli(states[3], "rpm"), 100_000);
});
