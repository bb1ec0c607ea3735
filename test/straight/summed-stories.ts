import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type {
  Batch,
  BatchClaim,
  BatchReply,
  BatchRequest,
  BatchStore,
  StraightLevel,
  StraightRow,
} from "../../src/ports/batch-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";

// Batches of takes that may be summed, on two stores: one may take each together, the other judges each request by itself.

const HOUR_MS = 3_600_000;
export const T0 = Date.UTC(2026, 2, 15, 12);
export const KEYS = ["a", "a:b", "B", "z"].flatMap((id) => [bucketKey(id, "api"), bucketKey(id, "api/2")]);

/** A story is some rows, and so many batches on them. */
const BATCHES = 12;

export function randomLevel(random: SeededRandom, i: number): StraightLevel {
  const isVast = random.chance(0.1);
  const capacityMilli = isVast ? 4_000_000_000_000_000 : random.integer(1, 400) * 100;
  const refillPeriodMs = random.pick([1, 7, 1_000, 60_000, 7_001]);
  return {
    ...{ name: `limit-${i}`, capacityMilli, refillPeriodMs, soft: false, windowMs: 0 },
    refillAmountMilli: isVast ? 2_600_000_000_000 : random.pick([0, 1, 999, 30_000]),
    // In debt, and over the brim, too.
    tokensMilli: random.weighted([
      [6, capacityMilli],
      [3, capacityMilli + 5_000],
      [6, random.integer(0, capacityMilli)],
      [1, random.pick([0, -700])],
    ]),
    remainder: random.integer(0, refillPeriodMs - 1),
    countedMilli: random.pick([null, null, 0, 12_000, Number.MAX_SAFE_INTEGER - 1_500]),
    ...{ windowStartMs: null, topUpMilli: random.integer(0, 2), resets: random.integer(0, 9) },
  };
}

export function claimOn(bucket: number, amounts: BatchClaim["amounts"]): BatchClaim {
  return {
    ...{
      bucket,
      signature: `s${amounts.length}`,
      changeNumber: -1,
      origin: undefined,
      amounts,
      isSummable: true,
      bypass: false,
    },
    ...{ leavePercent: 0, shadows: [], pins: undefined, judgedMs: null, strays: [], lost: undefined },
  };
}

export function takeOf(claims: readonly BatchClaim[], nowMs: number, generation = 1): BatchRequest {
  return { kind: "take", nowMs, generation, isNoted: false, claims, draft: undefined };
}

/** The places of buckets in the requests are those of their keys; a batch has only those that it takes from. */
export function batchOf(head: Pick<Batch, "lane" | "seq">, requests: readonly BatchRequest[]): Batch {
  const touched = [...new Set(requests.flatMap(({ claims }) => claims.map(({ bucket }) => bucket)))];
  const placed = (claim: BatchClaim) => ({ ...claim, bucket: touched.indexOf(claim.bucket) });
  return {
    ...{ namespaceId: "default", isRepeat: false, countsUsage: true, aheadMaxMs: undefined, goesBy: [], ...head },
    buckets: touched.map((i) => ({ key: KEYS[i] as BucketKey, brought: undefined })),
    requests: requests.map((request) => ({ ...request, claims: request.claims.map(placed) })),
  };
}

/** A row as it is brought before anybody has taken from it. */
function rowOf(levels: readonly StraightLevel[], epochMs = T0): StraightRow {
  // Of some the hour is over before their boundary.
  const hourMs = levels.length === 3 ? T0 - HOUR_MS + 2_500 : T0;
  return {
    ...{ signature: `s${levels.length}`, limitsText: "[]", epochMs, renewAtMs: T0 + 3_000, validUntilMs: null },
    ...{ writtenMs: null, asOfMs: T0, generation: 1, metNumber: 5, hourMs, requests: 0, levels },
  };
}

/** The batch with rows for buckets of which the client knows none: where there is one all the same, they count for nothing. */
export function broughtTo(
  batch: Batch,
  keys: readonly BucketKey[],
  rows: readonly (readonly StraightLevel[])[],
  epochMs: number,
): Batch {
  const buckets = batch.buckets.map((bucket, place) => {
    if (!keys.includes(bucket.key)) return bucket;
    const request = batch.requests.findIndex(({ claims }) => claims.some((claim) => claim.bucket === place));
    const row = rowOf(rows[KEYS.indexOf(bucket.key)] as readonly StraightLevel[], epochMs);
    return { ...bucket, brought: { version: 0, left: [], request, row } };
  });
  return { ...batch, buckets };
}

/** The rows of a story, each brought and taken from. */
export function birthOf(lane: string, rows: readonly (readonly StraightLevel[])[]): Batch {
  const none = rows.map((levels, i) => ({
    ...claimOn(
      i,
      levels.map(() => null),
    ),
    isSummable: false,
  }));
  const batch = batchOf({ lane, seq: 1 }, [takeOf(none, T0)]);
  const buckets = batch.buckets.map(({ key }, i) => {
    return { key, brought: { version: 0, left: [], request: 0, row: rowOf(rows[i] as readonly StraightLevel[]) } };
  });
  return { ...batch, buckets };
}

/** Requests of one turn: their readings differ by a few milliseconds, and may go back. */
function randomRequests(random: SeededRandom, rows: readonly (readonly StraightLevel[])[]): readonly BatchRequest[] {
  const beganMs = T0 + random.pick([0, 1, random.integer(0, 1_000), random.integer(0, 2_995), 2_998]);
  const isOften = random.chance(0.7);
  const generation = random.chance(0.03) ? 2 : 1;
  return Array.from({ length: random.pick([1, 1, 2, 5, 20]) }, () => {
    const touched = rows.map((_, i) => i).filter(() => random.chance(0.4));
    const claims = (touched.length > 0 ? touched : [0]).map((i): BatchClaim => {
      const amounts = (rows[i] as readonly StraightLevel[]).map(({ capacityMilli }) =>
        random.pick([null, 0, 1, 9, isOften ? 10 : 1_000, isOften ? 5 : random.integer(0, capacityMilli)]),
      );
      const claim = claimOn(i, amounts);
      if (random.chance(0.03)) return { ...claim, signature: "other" };
      return random.chance(0.05) ? { ...claim, changeNumber: random.integer(4, 6) } : claim;
    });
    return takeOf(claims, beganMs + random.pick([0, 0, 0, 1, 4]), generation);
  });
}

/** A batch as the general take gets it. */
function oneByOne(batch: Batch): Batch {
  const apart = (claims: readonly BatchClaim[]) => claims.map((claim) => ({ ...claim, isSummable: false }));
  return { ...batch, requests: batch.requests.map((request) => ({ ...request, claims: apart(request.claims) })) };
}

/** What may be compared of two schemas: versions and the time of the server differ. */
function shown(reply: BatchReply): unknown {
  if (reply.kind !== "done") return reply;
  const rows = reply.rows.map((row) => row && { ...row, version: row.version > 0 });
  return JSON.parse(JSON.stringify({ ...reply, serverMs: 0, rows }));
}

async function tables(store: BatchStore): Promise<unknown> {
  return (await store.read("default", KEYS)).map((row) => row && { ...row, version: 0 });
}

/** Plays a story on both; answers the first difference. */
export async function difference(
  seed: number,
  [one, other]: readonly [BatchStore, BatchStore],
): Promise<string | undefined> {
  const random = new SeededRandom(seed);
  const lane = `lane-${seed}`;
  const rows = Array.from({ length: random.integer(1, KEYS.length) }, () =>
    Array.from({ length: random.integer(1, 4) }, (_, i) => randomLevel(random, i)),
  );
  const birth = birthOf(lane, rows);
  const forget = async (store: BatchStore, keys: readonly BucketKey[]) => {
    const before = await store.read("default", keys);
    const idle = keys.flatMap((key, i) => (before[i] ? [{ key, version: before[i].version, left: [] }] : []));
    if (idle.length > 0) await store.forget("default", idle);
  };
  for (const store of [one, other]) {
    await forget(store, KEYS);
    await store.apply(birth, 60_000);
  }
  for (let seq = 2; seq < BATCHES + 2; seq++) {
    const plain = batchOf({ lane, seq }, randomRequests(random, rows));
    // Most rows that are brought are new; some are there by now.
    const keys = random.chance(0.4) ? KEYS.filter(() => random.chance(0.5)) : [];
    const gone = keys.filter(() => random.chance(0.9));
    if (gone.length > 0) for (const store of [one, other]) await forget(store, gone);
    const begunMs = plain.requests[0]?.nowMs ?? T0;
    const batch = broughtTo(plain, keys, rows, random.pick([T0, begunMs, begunMs, begunMs + 1]));
    const sent = random.chance(0.15) ? [batch, random.chance(0.5) ? { ...batch, isRepeat: true } : batch] : [batch];
    for (const each of sent) {
      const found = shown(await one.apply(each, 60_000));
      const expected = shown(await other.apply(oneByOne(each), 60_000));
      if (!isDeepStrictEqual(found, expected)) {
        return `seed ${seed}, batch ${seq}: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`;
      }
    }
  }
  const [found, expected] = [await tables(one), await tables(other)];
  if (isDeepStrictEqual(found, expected)) return undefined;
  return `seed ${seed}, the rows: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`;
}

/** A batch is repeated and refused; the first one arrives when there is enough. */
export async function lateFirst(store: BatchStore, isSummable: boolean): Promise<void> {
  const level = { ...randomLevel(new SeededRandom(1), 0), tokensMilli: 0, capacityMilli: 10_000, remainder: 0 };
  const row = { ...level, refillAmountMilli: 10_000, refillPeriodMs: 1_000, countedMilli: null };
  await store.apply(birthOf("late", [[row]]), 60_000);
  const take = (nowMs: number) => takeOf([{ ...claimOn(0, [5_000]), isSummable }], nowMs);
  const first = batchOf({ lane: "late", seq: 2 }, [take(T0 + 400)]);
  const repeat = await store.apply({ ...first, isRepeat: true }, 60_000);
  assert.ok(repeat.kind === "done" && repeat.replies[0]?.kind === "short");
  // Meanwhile somebody gives back so much that there is enough.
  const back = batchOf({ lane: "other", seq: 1 }, [
    {
      ...take(T0 + 400),
      kind: "credit",
      claims: [{ ...claimOn(0, [9_000]), isSummable: false, judgedMs: T0 + 400 }],
    },
  ]);
  await store.apply(back, 60_000);
  const before = await tables(store);
  const late = await store.apply(first, 60_000);
  assert.deepEqual({ ...late, repeated: false }, { ...repeat, repeated: false });
  assert.ok(late.kind === "done" && late.repeated);
  assert.deepEqual(await tables(store), before);
  // The lane goes on.
  const next = await store.apply({ ...first, seq: 3 }, 60_000);
  assert.ok(next.kind === "done" && next.replies[0]?.kind === "applied");
}
