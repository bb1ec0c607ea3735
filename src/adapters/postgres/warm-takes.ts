import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Batch, BatchRequest, LeftUsage, StraightRow } from "../../ports/batch-store.ts";
import { SummedStatement, TAKE_TEXT, takeValues } from "./batch-text.ts";

const SIGNATURE = "warm";

const ROW: StraightRow = {
  ...{ signature: SIGNATURE, limitsText: "[]", epochMs: 0, renewAtMs: 3_600_000, validUntilMs: null, writtenMs: null },
  ...{ asOfMs: 0, generation: 0, metNumber: 0, hourMs: 0, requests: 0 },
  levels: [
    {
      ...{
        name: "warm",
        capacityMilli: 1_000,
        refillAmountMilli: 1_000,
        refillPeriodMs: 1_000,
        soft: false,
        windowMs: 0,
      },
      ...{ tokensMilli: 1_000, remainder: 0, countedMilli: null, windowStartMs: null, topUpMilli: 0, resets: 0 },
    },
  ],
};

const LEFT: readonly LeftUsage[] = [{ hourMs: 0, requests: 1, amounts: [] }];

/** A batch on a bucket of a namespace that there is not. `left`: it brings the row, which leaves this behind. */
function batchOf(
  seq: number,
  lane: string,
  kinds: readonly BatchRequest["kind"][],
  left?: readonly LeftUsage[],
): Batch {
  const claim = {
    ...{
      bucket: 0,
      signature: SIGNATURE,
      changeNumber: -1,
      origin: undefined,
      amounts: [1],
      bypass: false,
      isSummable: true,
    },
    ...{ leavePercent: 0, shadows: [], pins: undefined, judgedMs: null, strays: [], lost: undefined },
  };
  const requests = kinds.map((kind): BatchRequest => {
    return { kind, nowMs: 1, generation: 0, isNoted: false, claims: [claim], draft: undefined };
  });
  const brought = left && { version: 0, row: ROW, left, request: 0 };
  return {
    ...{
      namespaceId: "/warm",
      lane,
      seq,
      isRepeat: false,
      countsUsage: true,
      aheadMaxMs: undefined,
      goesBy: [],
      requests,
    },
    buckets: [{ key: bucketKey("warm", "warm"), brought }],
  };
}

/**
 * Takes on a bucket that is never stored: the first takes of a connection make the plans of the function, which costs the server as much as
 * twenty others. `lane`: nobody else's, so that connections which are prepared at once do not wait for each other.
 */
export async function warmTakes(
  run: (text: string, values: readonly unknown[]) => Promise<unknown>,
  lane: string,
): Promise<void> {
  const settings = { durability: "full", lockMs: 1_000 } as const;
  await run("BEGIN", []);
  try {
    // A row that is made, and one that is changed.
    await run(TAKE_TEXT, takeValues(batchOf(1, lane, ["take"], LEFT), settings));
    await run(TAKE_TEXT, takeValues(batchOf(2, lane, ["take", "debit", "credit"]), settings));
    for (const batch of [batchOf(3, lane, ["take"]), batchOf(4, lane, ["take"], [])]) {
      const summed = SummedStatement.of(batch);
      if (summed !== undefined) await run(...summed.call(settings));
    }
  } finally {
    await run("ROLLBACK", []);
  }
}
