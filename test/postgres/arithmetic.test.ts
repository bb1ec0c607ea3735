import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { PostgresBatches } from "../../src/adapters/postgres/batches.ts";
import type { Connection } from "../../src/adapters/postgres/connection.ts";
import { TAKE_FUNCTION } from "../../src/adapters/postgres/take-function.ts";
import { levelMilli } from "../../src/bucket/level.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { epochAgeMaxMs } from "../../src/domain/limits/limit-set.ts";
import type {
  Batch,
  BatchClaim,
  BatchReply,
  BatchRequest,
  LevelPin,
  StraightLevel,
} from "../../src/ports/batch-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { atDepth } from "../depth.ts";
import { StraightStore } from "../kit/straight-store.ts";
import { openSchema } from "./kit.ts";
import { describePostgres } from "./postgres.ts";

const T0 = Date.UTC(2026, 2, 15, 12);

/** A row and what is done to it: both go to the server, and to `bucket/`. */
interface Case {
  readonly kind: BatchRequest["kind"];
  readonly elapsedMs: number;
  readonly levels: readonly StraightLevel[];
  readonly amounts: readonly (number | null)[];
  readonly pins?: BatchClaim["pins"];
}

/** As many as a limiter sends in one statement. The arrays of more are what such a statement spends its time with. */
const BATCH = 64;

const LIMITS = atDepth(4_000, 20_000);

let cases = 0;

/** Each case on a new row, which is brought with it, all in one statement. */
function batchOf(all: readonly Case[]): Batch {
  const seq = ++cases;
  return {
    ...{ namespaceId: "default", lane: `lane-${seq}`, seq: 1, countsUsage: true, aheadMaxMs: undefined },
    buckets: all.map(({ levels }, i) => ({
      key: bucketKey(`${seq}-${i}`, "api"),
      brought: {
        ...{ version: 0, left: [], request: i },
        row: {
          ...{ signature: "s", limitsText: "[]", epochMs: T0, renewAtMs: T0 + 7_200_000, validUntilMs: null },
          ...{ writtenMs: null, asOfMs: T0, generation: 1, metNumber: T0, hourMs: T0, requests: 0, levels },
        },
      },
    })),
    requests: all.map(({ kind, elapsedMs, amounts, pins }, i): BatchRequest => {
      const claim: BatchClaim = {
        ...{ bucket: i, signature: "s", changeNumber: -1, origin: undefined, amounts, bypass: false, pins },
        shadows: [],
        leavePercent: 0,
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
  connection: Connection,
  all: readonly Case[],
): Promise<{ readonly count: number; readonly first: string; readonly found: ReturnType<typeof shown> }> {
  const server = new PostgresBatches(connection, "normal", undefined);
  const memory = new StraightStore(() => T0);
  memory.generations.set("default", 1);
  const batch = batchOf(all);
  const further = { ...batch, seq: 2, buckets: batch.buckets.map(({ key }) => ({ key, brought: undefined })) };
  for (const store of [server, memory]) shown(await store.apply(birthOf(batch), 60_000));
  const [found, expected] = [shown(await server.apply(further, 60_000)), shown(await memory.apply(further))];
  const wrong = all.flatMap((one, i) => {
    const [is, must] = [JSON.stringify(found[i]), JSON.stringify(expected[i])];
    return is === must ? [] : [`${JSON.stringify(one)}: ${is}, not ${must}`];
  });
  return { count: wrong.length, first: wrong[0] ?? "", found };
}

/** Of any magnitude. */
function magnitude(random: SeededRandom, max: number): number {
  return Math.floor(Math.min(max, 10 ** (random.next() * 16)));
}

function randomCase(random: SeededRandom): Case {
  const levels = Array.from({ length: random.integer(1, 4) }, (_, i): StraightLevel => {
    const capacityMilli = random.chance(0.1) ? 9e15 : magnitude(random, 9e15);
    const refillPeriodMs = Math.max(1, magnitude(random, 1e12));
    const refillAmountMilli = random.chance(0.1) ? 0 : magnitude(random, 9e15);
    return {
      ...{ name: `limit-${i}`, capacityMilli, refillAmountMilli, refillPeriodMs, soft: random.chance(0.2) },
      windowMs: random.chance(0.1) ? 3_600_000 : 0,
      tokensMilli: random.pick([capacityMilli, 0, -magnitude(random, 8e15), magnitude(random, capacityMilli)]),
      remainder: random.integer(0, refillPeriodMs - 1),
      ...{ countedMilli: null, windowStartMs: null, topUpMilli: 0, resets: 0 },
    };
  });
  const ageMs = epochAgeMaxMs(levels.map((level) => ({ terms: level })));
  const elapsedMs = random.pick([0, 1, -random.integer(1, 5_000), random.integer(0, Math.min(ageMs, 3_599_999))]);
  const amounts = levels.map(({ capacityMilli }) =>
    random.pick([null, 0, 1, 1_000, capacityMilli, magnitude(random, 9e15), magnitude(random, capacityMilli + 1)]),
  );
  return { kind: random.pick(["take", "take", "take", "debit", "credit"]), elapsedMs, levels, amounts };
}

/** Limits of so many at once, each with slices: taken from, given back to, renewed. */
function randomSlots(random: SeededRandom): Case {
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

await describePostgres("the arithmetic of takes on PostgreSQL", ({ url, newSchema }) => {
  const opened = () => openSchema(url, newSchema(), { poolMax: 2, timeoutMs: 60_000 });

  test("limits of random rows: the same verdict and the same tokens as by bucket/", async () => {
    const connection = await opened();
    const random = new SeededRandom(28);
    let limits = 0;
    while (limits < atDepth(10_000, 100_000)) {
      const all = Array.from({ length: BATCH }, () => randomCase(random));
      for (const { levels } of all) limits += levels.length;
      const { count, first } = await differences(connection, all);
      assert.equal(count, 0, first);
    }
    await connection.close();
  });

  test("thousands of limits of slots: taken, given back into their slice, renewed, the same as by the model", async () => {
    const connection = await opened();
    const random = new SeededRandom(29);
    for (let limits = 0; limits < LIMITS; ) {
      const all = Array.from({ length: BATCH }, () => randomSlots(random));
      for (const { levels } of all) limits += levels.length;
      const { count, first } = await differences(connection, all);
      assert.equal(count, 0, first);
    }
    await connection.close();
  });

  test("the vectors of the original, as far as they are takes within an hour, by the take itself", async () => {
    const file = new URL("../vectors/bucket.json", import.meta.url);
    const { vectors } = JSON.parse(await readFile(file, "utf8")) as { readonly vectors: readonly Vector[] };
    const used = vectors.flatMap(({ fn, raises, in: given, out }) => {
      const kind =
        fn === "refill_bucket" || fn === "try_consume" ? "take" : fn === "force_consume" ? "debit" : undefined;
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
    const connection = await opened();
    const { count, first, found } = await differences(
      connection,
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
    await connection.close();
  });

  const MUTANTS: readonly (readonly [name: string, from: string, to: string])[] = [
    [
      "rounds where it has to cut off",
      "f_refilled[k] := (elapsed * f_amount[k] + f_remainder[k]) / f_period[k];",
      "f_refilled[k] := round((elapsed * f_amount[k] + f_remainder[k])::numeric / f_period[k]);",
    ],
    ["forgets the brim", "least(f_tokens[k], f_capacity[k] - refilled) - asked", "f_tokens[k] - asked"],
    ["forgets what was left over", "(elapsed * f_amount[k] + f_remainder[k])", "(elapsed * f_amount[k])"],
    ["lets a credit pass 2^53", "least(safe_max, f_tokens[k] + asked)", "f_tokens[k] + asked"],
    ["frees slots that its slice does not hold", "IF f_tokens[h] >= asked THEN", "IF true THEN"],
    ["frees slots and leaves them in their slice", "f_tokens[h] := f_tokens[h] - asked; f_tokens[k]", "f_tokens[k]"],
    ["renews slots that are not held", "IF f_tokens[k] >= asked THEN", "IF true THEN"],
    ["renews slots and keeps the hold of before", "f_tokens[k] := f_tokens[k] - asked; f_tokens[h]", "f_tokens[h]"],
    ["counts slots that were used as unused", "NOT IN (-3, -4)", "NOT IN (-4)"],
  ];
  for (const [name, from, to] of MUTANTS) {
    test(`a take that ${name} is found`, async () => {
      assert.ok(TAKE_FUNCTION.includes(from), from);
      const connection = await opened();
      await connection.query(TAKE_FUNCTION.replace(from, to), []);
      const random = new SeededRandom(7);
      let found = 0;
      for (let tries = 0; tries < 100 && found === 0; tries++) {
        const { count } = await differences(
          connection,
          Array.from({ length: BATCH }, (_, i) => (i % 2 === 0 ? randomCase(random) : randomSlots(random))),
        );
        found = count;
      }
      assert.ok(found > 0);
      await connection.close();
    });
  }
});
