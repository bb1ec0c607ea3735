import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { levelMilli } from "../../src/bucket/level.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { epochAgeMaxMs } from "../../src/domain/limits/limit-set.ts";
import type {
  Batch,
  BatchClaim,
  BatchReply,
  BatchRequest,
  BatchStore,
  LevelPin,
  StraightLevel,
} from "../../src/ports/batch-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { StraightStore } from "../kit/straight-store.ts";

// Random limits, each on a row of its own, on a batch store and in memory, which works them out by `bucket/`.

const T0 = Date.UTC(2026, 2, 15, 12);

/** A row and what is done to it: both go to the server, and to `bucket/`. */
export interface Case {
  readonly kind: BatchRequest["kind"];
  readonly elapsedMs: number;
  readonly levels: readonly StraightLevel[];
  readonly amounts: readonly (number | null)[];
  readonly pins?: BatchClaim["pins"];
  /** Percent of each limit that a take must leave. Absent: 0. */
  readonly leavePercent?: number;
}

/** As many as a limiter sends in one statement. The arrays of more are what such a statement spends its time with. */
const BATCH = 64;

let cases = 0;

/** Each case on a new row, which is brought with it, all in one statement. */
function batchOf(all: readonly Case[]): Batch {
  const seq = ++cases;
  return {
    ...{ namespaceId: "default", lane: `lane-${seq}`, seq: 1, isRepeat: false, countsUsage: true },
    ...{ aheadMaxMs: undefined, goesBy: [] },
    buckets: all.map(({ levels }, i) => ({
      key: bucketKey(`${seq}-${i}`, "api"),
      brought: {
        ...{ version: 0, left: [], request: i },
        row: {
          ...{ signature: "s", limitsText: "[]", epochMs: T0, renewAtMs: T0 + 3_600_000, validUntilMs: null },
          ...{ writtenMs: null, asOfMs: T0, generation: 1, metNumber: T0, hourMs: T0, requests: 0, levels },
        },
      },
    })),
    requests: all.map(({ kind, elapsedMs, amounts, pins, leavePercent = 0 }, i): BatchRequest => {
      const claim: BatchClaim = {
        ...{
          bucket: i,
          signature: "s",
          changeNumber: -1,
          origin: undefined,
          amounts,
          isSummable: false,
          bypass: false,
          pins,
        },
        shadows: [],
        leavePercent,
        ...{ judgedMs: T0 + elapsedMs, strays: [], lost: undefined },
      };
      return { kind, nowMs: T0 + elapsedMs, generation: 1, isNoted: false, claims: [claim], draft: undefined };
    }),
  };
}

/** The rows are made first, so that what follows is taken from rows of an epoch in the past. */
function birthOf(batch: Batch): Batch {
  const requests = batch.requests.map((request): BatchRequest => {
    const [claim] = request.claims as [BatchClaim];
    const none = { ...claim, amounts: claim.amounts.map(() => null), pins: undefined, judgedMs: T0 };
    return { ...request, kind: "take", nowMs: T0, claims: [none] };
  });
  return { ...batch, requests };
}

const shown = (reply: BatchReply) => {
  assert.equal(reply.kind, "done");
  if (reply.kind !== "done") return [];
  return reply.replies.map((one, i) => {
    const { version: _, limitsText: __, ...row } = reply.rows[i] ?? { version: 0, limitsText: undefined };
    return { reply: JSON.parse(JSON.stringify(one)) as unknown, row: JSON.parse(JSON.stringify(row)) as unknown };
  });
};

/** How many of the cases the server answers otherwise than `bucket/`; the first of them is told. */
async function differences(
  server: Pick<BatchStore, "apply">,
  all: readonly Case[],
): Promise<{ readonly count: number; readonly first: string; readonly found: ReturnType<typeof shown> }> {
  const memory = new StraightStore(() => T0);
  memory.generations.set("default", 1);
  const batch = batchOf(all);
  const further = { ...batch, seq: 2, buckets: batch.buckets.map(({ key }) => ({ key, brought: undefined })) };
  for (const store of [server, memory]) shown(await store.apply(birthOf(batch), 60_000));
  const [found, expected] = [shown(await server.apply(further, 60_000)), shown(await memory.apply(further))];
  const wrong = all.flatMap((one, i) => {
    if (isDeepStrictEqual(found[i], expected[i])) return [];
    return [`${JSON.stringify(one)}: ${JSON.stringify(found[i])}, not ${JSON.stringify(expected[i])}`];
  });
  return { count: wrong.length, first: wrong[0] ?? "", found };
}

/** Of any magnitude. */
function magnitude(random: SeededRandom, max: number): number {
  return Math.floor(Math.min(max, 10 ** (random.next() * 16)));
}

export function randomCase(random: SeededRandom): Case {
  const levels = Array.from({ length: random.integer(1, 4) }, (_, i): StraightLevel => {
    const capacityMilli = random.chance(0.1) ? 9e15 : magnitude(random, 9e15);
    const refillPeriodMs = Math.max(1, magnitude(random, 1e12));
    const refillAmountMilli = random.chance(0.1) ? 0 : magnitude(random, 9e15);
    return {
      ...{ name: `limit-${i}`, capacityMilli, refillAmountMilli, refillPeriodMs, soft: random.chance(0.2) },
      windowMs: random.chance(0.1) ? 3_600_000 : 0,
      tokensMilli: random.weighted([
        [3, capacityMilli],
        [3, 0],
        [3, -magnitude(random, 8e15)],
        [3, magnitude(random, capacityMilli)],
        // Nearly as deep, and nearly as high, as numbers stay exact.
        [1, magnitude(random, 9e15) - 9e15],
        [1, Number.MAX_SAFE_INTEGER - magnitude(random, 9e15)],
      ]),
      remainder: random.integer(0, refillPeriodMs - 1),
      ...{ countedMilli: null, windowStartMs: null, topUpMilli: 0, resets: 0 },
    };
  });
  const ageMs = epochAgeMaxMs(levels.map((level) => ({ terms: level })));
  const elapsedMs = random.pick([
    0,
    Math.min(1, ageMs),
    -random.integer(1, 5_000),
    random.integer(0, Math.min(ageMs, 3_599_999)),
  ]);
  const leavePercent = random.chance(0.3) ? random.integer(1, 99) : 0;
  const amounts = levels.map(({ capacityMilli }) =>
    random.pick([
      ...[null, 0, 1, 1_000, capacityMilli, magnitude(random, 9e15), magnitude(random, capacityMilli + 1)],
      // Of a full limit, down to what must be left, rounded down.
      capacityMilli - Number((BigInt(capacityMilli) * BigInt(leavePercent)) / 100n),
    ]),
  );
  const kind = random.pick(["take", "take", "take", "debit", "credit"] as const);
  return {
    kind,
    elapsedMs,
    levels: levels.map((level) => onTheBrink(random, level, elapsedMs)),
    amounts,
    leavePercent,
  };
}

/** Mostly the level; sometimes one of which a further millitoken has just dripped in, or has not quite. */
function onTheBrink(random: SeededRandom, level: StraightLevel, elapsedMs: number): StraightLevel {
  if (elapsedMs <= 0 || random.chance(0.6)) return level;
  const periodMs = BigInt(level.refillPeriodMs);
  const missing = periodMs - ((BigInt(elapsedMs) * BigInt(level.refillAmountMilli)) % periodMs);
  return { ...level, remainder: Number((missing - BigInt(random.integer(0, 1))) % periodMs) };
}

/** Limits of so many at once, each with slices: taken from, given back to, renewed. */
export function randomSlots(random: SeededRandom): Case {
  const limits = Array.from({ length: random.integer(1, 3) }, (_, i): StraightLevel => {
    const capacityMilli = 1_000 * random.integer(1, 20);
    return {
      ...{ name: `slots-${i}`, capacityMilli, refillAmountMilli: 0, refillPeriodMs: 1_000, soft: random.chance(0.2) },
      ...{ windowMs: 0, tokensMilli: random.integer(-2_000, capacityMilli), remainder: 0, countedMilli: null },
      ...{ windowStartMs: null, topUpMilli: 0, resets: 7 },
    };
  });
  const slices = Array.from(
    { length: random.integer(2, 5) },
    (_, i): StraightLevel => ({
      ...{
        name: `slots-0@${i}`,
        capacityMilli: 9_007_199_254_740_991,
        refillAmountMilli: 0,
        refillPeriodMs: 1_000,
        soft: true,
      },
      ...{
        windowMs: -1,
        tokensMilli: random.pick([0, 1_000, random.integer(0, 9_000)]),
        remainder: 0,
        countedMilli: null,
      },
      ...{ windowStartMs: null, topUpMilli: 0, resets: 7 },
    }),
  );
  const levels = [...limits, ...slices];
  const kind = random.pick(["take", "take", "credit", "credit", "renew"] as const);
  const sliceAt = () => limits.length + random.integer(0, slices.length - 1);
  const amounts: (number | null)[] = levels.map(() => null);
  const pins: LevelPin[] = levels.map(() => undefined);
  if (kind === "renew") {
    const into = sliceAt();
    for (const [i] of slices.entries()) {
      const from = limits.length + i;
      if (from === into || random.chance(0.4)) continue;
      amounts[from] = random.pick([1_000, random.integer(0, 5_000)]);
      pins[from] = { into };
    }
  } else {
    for (const [i] of limits.entries()) {
      const milli = random.pick([0, 1_000, random.integer(0, 9_000)]);
      const slice = sliceAt();
      amounts[i] = milli;
      if (kind === "take") amounts[slice] = (amounts[slice] ?? 0) - milli;
      else pins[i] = random.pick([{ from: slice, isUsed: random.chance(0.5) }, "skip", "skipUsed", undefined]);
    }
  }
  return { kind, elapsedMs: random.integer(0, 60_000), levels, amounts, pins: kind === "take" ? undefined : pins };
}

interface Vector {
  readonly fn: string;
  readonly raises?: string;
  readonly in: Readonly<Record<string, string>>;
  readonly out?: { readonly success?: boolean; readonly new_tokens_milli: string };
}

/** Plays so many limits, or more, in batches; throws where the server answers otherwise than `bucket/`. */
export async function sameAsBucket(
  server: Pick<BatchStore, "apply">,
  limitCount: number,
  drawn: () => Case,
): Promise<void> {
  for (let limits = 0; limits < limitCount; ) {
    const all = Array.from({ length: BATCH }, drawn);
    for (const { levels } of all) limits += levels.length;
    const { count, first } = await differences(server, all);
    assert.equal(count, 0, first);
  }
}

/** How many of random cases, in batches until one is found, a server with a deliberate bug answers otherwise than `bucket/`. */
export async function foundWrong(server: Pick<BatchStore, "apply">, batchesMax: number): Promise<number> {
  const random = new SeededRandom(7);
  for (let tries = 0; tries < batchesMax; tries++) {
    const all = Array.from({ length: BATCH }, (_, i) => (i % 2 === 0 ? randomCase(random) : randomSlots(random)));
    const { count } = await differences(server, all);
    if (count > 0) return count;
  }
  return 0;
}

/** The vectors of the original, as far as they are takes within an hour. */
export async function sameAsVectors(server: Pick<BatchStore, "apply">): Promise<void> {
  const file = new URL("../vectors/bucket.json", import.meta.url);
  const { vectors } = JSON.parse(await readFile(file, "utf8")) as { readonly vectors: readonly Vector[] };
  const used = vectors.flatMap(({ fn, raises, in: given, out }) => {
    const kind = fn === "refill_bucket" || fn === "try_consume" ? "take" : fn === "force_consume" ? "debit" : undefined;
    const number = (name: string) => Number(given[name] ?? 0);
    const elapsedMs = number("now_ms") - number("last_refill_ms");
    const [tokens, asked] = [number("tokens_milli"), 1_000 * (number("requested") + number("amount"))];
    // A negative amount of the original gives back, which is no debit here.
    const isWithin =
      asked >= 0 && elapsedMs >= 0 && elapsedMs < 3_600_000 && [tokens, asked].every(Number.isSafeInteger);
    if (kind === undefined || raises !== undefined || out === undefined || !isWithin) return [];
    const level: StraightLevel = {
      ...{ name: "limit", capacityMilli: number("capacity_milli"), refillAmountMilli: number("refill_amount_milli") },
      ...{ refillPeriodMs: number("refill_period_ms"), soft: false, windowMs: 0, tokensMilli: tokens, remainder: 0 },
      ...{ countedMilli: null, windowStartMs: null, topUpMilli: 0, resets: 0 },
    };
    return [{ fn, of: { kind, elapsedMs, levels: [level], amounts: [asked] } satisfies Case, out }];
  });
  assert.ok(used.length > 150, `${used.length} of ${vectors.length} vectors`);
  const { count, first, found } = await differences(
    server,
    used.map(({ of }) => of),
  );
  assert.equal(count, 0, first);
  for (const [i, { fn, of, out }] of used.entries()) {
    const { reply, row } = found[i] as { reply: { kind: string }; row: { tokensMilli: readonly number[] } };
    const [level] = of.levels as [StraightLevel];
    // Of a limit in debt nothing is granted, also to who asks for nothing: what is there now shows all the same.
    if (fn !== "refill_bucket") assert.equal(reply.kind, out.success === false ? "short" : "applied");
    const after = { tokensMilli: row.tokensMilli[0] as number, remainder: 0 };
    assert.equal(String(levelMilli(after, level, of.elapsedMs)), out.new_tokens_milli);
  }
}
