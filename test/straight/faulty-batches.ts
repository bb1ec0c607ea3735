import type { Batch, BatchReply, BatchStore } from "../../src/ports/batch-store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import type { SeededRandom } from "../../src/testing/random.ts";

/**
 * What becomes of a batch on a bad line; `copied`: a copy of it arrives later as well. `diedBefore`, `diedAfter`: its process dies while
 * it is under way, before it arrives or after it was done.
 */
type Mishap = "rolledBack" | "lostBefore" | "lostAfter" | "copied" | "diedBefore" | "diedAfter";

const MISHAPS: readonly Mishap[] = ["rolledBack", "lostBefore", "lostAfter", "copied"];
const DEATHS: readonly Mishap[] = ["diedBefore", "diedAfter"];

/** As often as anything else befalls a batch, times this, its process dies. */
const DEATHS_PER_MISHAP = 0.12;

/** Batches that arrive a second time, or after their repeat, before the next one of anybody. */
export type Copies = Batch[];

/**
 * A bad line of a process to a store that takes in batches. Once the process has died nothing arrives any more, and what its lanes are
 * answered is heard by nobody but those who watch the store: what became of the batch that was under way, and of all others that they
 * were not done.
 */
export function faultyBatches(
  store: BatchStore,
  random: SeededRandom,
  copies: Copies,
  rate: () => number,
  onFault: (mishap: Mishap) => void,
): BatchStore {
  let isDead = false;
  /** Of each lane, the last batch that was done, and whose answer was lost. */
  const unheard = new Map<string, { readonly seq: number; readonly reply: BatchReply }>();
  /** Of each lane, the last batch that was lost before it arrived: once its repeat is answered, it arrives after all. */
  const stalled = new Map<string, Batch>();
  const arrived = async (batch: Batch, timeoutMs: number): Promise<BatchReply> => {
    const reply = await store.apply(batch, timeoutMs);
    const late = stalled.get(batch.lane);
    stalled.delete(batch.lane);
    if (late?.seq === batch.seq) copies.push(late);
    return reply;
  };
  const ended = ({ lane, seq }: Batch): BatchReply => {
    const done = unheard.get(lane);
    // Not that it may be sent again: a lane that does not know what became of a batch does so for as long as somebody waits.
    return done?.seq === seq ? done.reply : { kind: "superseded" };
  };
  return overriding(store, {
    apply: async (batch: Batch, timeoutMs: number): Promise<BatchReply> => {
      if (isDead) return ended(batch);
      // What is late is heard by nobody.
      for (const copy of copies.splice(0)) await store.apply(copy, timeoutMs);
      isDead = random.chance(rate() * DEATHS_PER_MISHAP);
      if (!isDead && !random.chance(rate())) return arrived(batch, timeoutMs);
      const mishap = random.pick(isDead ? DEATHS : MISHAPS);
      onFault(mishap);
      const cause = new Error(`simulated fault: ${mishap}`);
      switch (mishap) {
        case "rolledBack":
          return { kind: "rolledBack", cause };
        case "lostBefore":
          if (!batch.isRepeat) stalled.set(batch.lane, batch);
          return { kind: "unavailable", applied: "unknown", cause };
        case "lostAfter":
          unheard.set(batch.lane, { seq: batch.seq, reply: await arrived(batch, timeoutMs) });
          return { kind: "unavailable", applied: "unknown", cause };
        case "copied": {
          const reply = await arrived(batch, timeoutMs);
          // A batch that has written nothing is not remembered: a copy of it is another batch, and takes for nobody.
          if (isWritten(reply)) copies.push(batch);
          return reply;
        }
        case "diedBefore":
          return ended(batch);
        case "diedAfter":
          return arrived(batch, timeoutMs);
      }
    },
  });
}

function isWritten(reply: BatchReply): boolean {
  return reply.kind === "done" && reply.replies.some(({ kind }) => kind === "applied");
}
