import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import type { ItemAnswer, ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { BN, namesOf } from "../../src/protocol/item/attributes.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { claim, kinds, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster } from "./kit.ts";

// A nonce proves that a lost write was applied only while one such write of the process is under way to an item. The number of a
// bucket tells it from one that was deleted.

const Kinds = limitMakers(calendar);
const quota = [Kinds.quota("q", 100, { reset: { cron: "0 0 1 * *" } })];
const ten = claim("ada", quota, { q: 10 });

/** A line that applies the next write once `lose` was called, and loses its answer when `forget` is called. */
class LosingLine {
  most = 0;
  #underWay = 0;
  #isArmed = false;
  #forget = () => {};

  lose(): void {
    this.#isArmed = true;
  }

  forget(): void {
    this.#forget();
  }

  readonly through = (line: ItemStore): ItemStore =>
    overriding<ItemStore>(line, {
      write: async (write: ItemWrite, call): Promise<ItemAnswer> => {
        this.most = Math.max(this.most, ++this.#underWay);
        try {
          const answer = await line.write(write, call);
          if (!this.#isArmed) return answer;
          this.#isArmed = false;
          await new Promise<void>((resolve) => {
            this.#forget = resolve;
          });
          return { kind: "unknown", cause: new Error("lost") };
        } finally {
          this.#underWay--;
        }
      },
    });
}

for (const [what, coalesce, others] of [
  ["beside another one", true, 0],
  ["that does not coalesce", false, 0],
  ["while 20,001 other buckets are looked at", true, 20_001],
] as const) {
  test(`a take ${what} is charged once although its answer is lost`, async () => {
    const cluster = new Cluster();
    const line = new LosingLine();
    const { place, clock } = await cluster.open({ coalesce, through: line.through });
    await place.take([claim("ada", quota, { q: 0 })], T0);
    line.lose();
    const first = place.take([ten], T0 + 1);
    await clock.advance(1);
    for (let i = 0; i < others; i += 1_000) {
      const keys = Array.from({ length: Math.min(1_000, others - i) }, (_, k) => bucketKey(`b${i + k}`, "api"));
      await place.scope.buckets.read(keys);
    }
    const second = place.take([ten], T0 + 2);
    await clock.advance(1);
    line.forget();
    await clock.advance(1_000);
    assert.deepEqual([...kinds(await first), ...kinds(await second)], ["taken", "taken"]);
    assert.equal(line.most, 1, "writes to the item at once");
    assert.equal(await place.level("ada", "q", T0 + 5), 80_000);
  });
}

test("a transaction of the process beside a take does not cover up that the take was applied", async () => {
  const cluster = new Cluster();
  const line = new LosingLine();
  const { place, clock } = await cluster.open({ through: line.through });
  await place.take([claim("ada", quota, { q: 0 })], T0);
  line.lose();
  const lost = place.take([ten], T0 + 1);
  await clock.advance(1);
  const together = [claim("ada", quota, { q: 20 }), claim("org", quota, { q: 20 })];
  assert.deepEqual(kinds(await place.take(together, T0 + 2, { atomic: true })), ["taken", "taken"]);
  line.forget();
  await clock.advance(1_000);
  assert.deepEqual(kinds(await lost), ["taken"]);
  assert.equal(await place.level("ada", "q", T0 + 5), 70_000);
});

test("a create that is repeated after its bucket was deleted makes another one: nothing of the first comes back", async () => {
  const cluster = new Cluster();
  const line = new LosingLine();
  const a = await cluster.open({ through: line.through });
  const b = await cluster.open();
  const { namespaceId } = a.place;
  line.lose();
  const making = a.place.take([ten], T0);
  await a.clock.advance(1);
  const [bn, rn] = [BN, namesOf("q").rn].map((name) => cluster.item(namespaceId, "ada")?.[name]);
  assert.ok(bn !== undefined && rn !== undefined);
  // Taken from the first bucket, which is then deleted, and with it what was taken.
  const early = await b.place.ticket(claim("ada", quota, { q: 5 }), T0 + 1);
  cluster.world.table.removeWhere(namespaceId, () => true);
  line.forget();
  await a.clock.advance(1_000);
  assert.deepEqual(kinds(await making), ["taken"]);
  const item = cluster.item(namespaceId, "ada");
  assert.notEqual(item?.[BN], bn);
  assert.notEqual(item?.[namesOf("q").rn], rn);
  await b.place.giveBack(claim("ada", quota, {}), early, { q: 5 }, T0 + 2);
  assert.equal(await b.place.level("ada", "q", T0 + 2), 90_000);
  // The ticket of the take itself goes by the bucket that it really made.
  await a.place.credit(ten, { q: 10 }, T0 + 3);
  assert.equal(await b.place.level("ada", "q", T0 + 3), 100_000);
});

test("a create whose answer was lost is known again by its nonce, and its ticket goes by the number that landed", async () => {
  const cluster = new Cluster();
  const line = new LosingLine();
  const { place, clock } = await cluster.open({ through: line.through });
  line.lose();
  const making = place.take([ten], T0);
  await clock.advance(1);
  line.forget();
  await clock.advance(1_000);
  assert.deepEqual(kinds(await making), ["taken"]);
  assert.equal(await place.level("ada", "q", T0 + 1), 90_000);
  await place.credit(ten, { q: 10 }, T0 + 2);
  assert.equal(await place.level("ada", "q", T0 + 2), 100_000);
});
