import type { Batch, BatchReply, BatchStore } from "../../src/ports/batch-store.ts";
import { overriding } from "../../src/testing/overriding.ts";
import type { SeededRandom } from "../../src/testing/random.ts";

/** What becomes of a batch on a bad line; `copied`: a copy of it arrives later as well. */
type Mishap = "rolledBack" | "lostBefore" | "lostAfter" | "copied";

const MISHAPS: readonly Mishap[] = ["rolledBack", "lostBefore", "lostAfter", "copied"];

/** A bad line to a store that takes in batches. */
export function faultyBatches(
  store: BatchStore,
  random: SeededRandom,
  rate: () => number,
  onFault: (mishap: Mishap) => void,
): BatchStore {
  const copies: Batch[] = [];
  return overriding(store, {
    apply: async (batch: Batch, timeoutMs: number): Promise<BatchReply> => {
      // What is late is heard by nobody.
      for (const copy of copies.splice(0)) await store.apply(copy, timeoutMs);
      if (!random.chance(rate())) return store.apply(batch, timeoutMs);
      const mishap = random.pick(MISHAPS);
      onFault(mishap);
      const cause = new Error(`simulated fault: ${mishap}`);
      switch (mishap) {
        case "rolledBack":
          return { kind: "rolledBack", cause };
        case "lostBefore":
          return { kind: "unavailable", applied: "unknown", cause };
        case "lostAfter":
          await store.apply(batch, timeoutMs);
          return { kind: "unavailable", applied: "unknown", cause };
        case "copied":
          copies.push(batch);
          return store.apply(batch, timeoutMs);
      }
    },
  });
}
