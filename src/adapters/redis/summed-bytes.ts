import type { Batch, BatchBucket } from "../../ports/batch-store.ts";
import type { JudgedSum, SummedTake } from "../../straight/summed-take.ts";
import { seenOfNumbers } from "./bucket-bytes.ts";
import { doubles, type Reader } from "./bytes.ts";
import type { Part } from "./connection.ts";
import type { NamespaceKeys } from "./keys.ts";

// The keys and arguments of the summed take, and its answer. `lua/take-summed.lua` says how it reads them.

const NO_BYTES = new Uint8Array();

export function summedCall(
  { sums }: SummedTake,
  batch: Batch,
  at: NamespaceKeys,
  serverMs: number,
): { readonly keys: readonly string[]; readonly args: readonly Part[] } {
  const { buckets, requests, seq, countsUsage } = batch;
  const keys = [at.generation, at.writes, at.lane(batch.lane)];
  const generation = requests[0]?.generation as number;
  const numbers = [seq, generation, Number(countsUsage), serverMs, Number(requests.length === 1)];
  const args: Part[] = [NO_BYTES];
  for (const { bucket, signature, requests: count, changeNumber, steps } of sums) {
    keys.push(at.bucket((buckets[bucket] as BatchBucket).key));
    args.push(signature);
    numbers.push(count, changeNumber, steps.length);
    for (const { nowMs, amounts } of steps) {
      numbers.push(nowMs);
      for (const milli of amounts) numbers.push(milli ?? Number.NaN);
    }
  }
  args[0] = doubles(numbers);
  return { keys, args };
}

/** The buckets of an answer, as the script has judged them. */
export function judgedIn(reader: Reader, { sums }: SummedTake, kind: "applied" | "short"): readonly JudgedSum[] {
  return sums.map(({ steps }) => {
    const levelCount = (steps[0] as (typeof steps)[0]).amounts.length;
    const size = reader.size();
    if (kind === "short") {
      const isShort = reader.number() === 1;
      const row = seenOfNumbers(reader.bytes(size), levelCount);
      return { row, tokensMilli: isShort ? undefined : row.tokensMilli };
    }
    const tokensMilli: number[] = [];
    for (let count = steps.length * levelCount; count > 0; count--) tokensMilli.push(reader.number());
    const row = seenOfNumbers(reader.bytes(size), levelCount);
    tokensMilli.push(...row.tokensMilli);
    return { row, tokensMilli };
  });
}
