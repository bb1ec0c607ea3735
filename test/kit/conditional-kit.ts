import assert from "node:assert/strict";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { MaybePromise } from "../../src/ports/bucket-store.ts";
import type { Item, ItemKey, ItemWrite } from "../../src/ports/item-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { ConditionalTable, type TableOptions } from "./conditional-table.ts";

/** The calls of these tests are not bounded: a line leaves that to its caller. */
export const CALL = { timeoutMs: 1_000 };

/** Shard 0 of an entity's bucket. */
export function at(entityId: string): ItemKey {
  return { bucket: bucketKey(entityId, "api"), shard: 0 };
}

/** A write of one item that changes it, or what is given differently. */
export function update(key: ItemKey, given: Partial<ItemWrite>): ItemWrite {
  return { key, kind: "update", item: "either", when: [], set: {}, add: {}, remove: [], trace: undefined, ...given };
}

/** Adds 1 to `n`, making the item where there is none. */
export function count(key: ItemKey): ItemWrite {
  return update(key, { add: { n: 1 } });
}

export function tableAt(startMs: number, given: Partial<TableOptions>) {
  const clock = new SimulatedClock(startMs);
  const table = new ConditionalTable({
    now: () => clock.now(),
    random: new SeededRandom(1),
    writesPerSecond: Number.POSITIVE_INFINITY,
    staleMs: 0,
    ...given,
  });
  const line = table.lineTo("ns", {});
  return {
    clock,
    table,
    line,
    write: (write: ItemWrite) => atOnce(line.write(write, CALL)),
    transact: (token: string, ...writes: ItemWrite[]) =>
      atOnce(line.transact(writes, { token, event: undefined }, CALL)),
    read: (consistent: boolean, ...keys: ItemKey[]) => atOnce(line.read(keys, { consistent }, CALL)),
    item: (entityId: string): Item | undefined => table.get("ns", at(entityId)),
  };
}

/** The answer of a line that does not pause. */
export function atOnce<Value>(answer: MaybePromise<Value>): Value {
  assert.ok(!(answer instanceof Promise), "the line answered with a promise");
  return answer;
}
