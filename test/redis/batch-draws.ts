import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { CountedAmount } from "../../src/domain/charge/amounts.ts";
import { epochAgeMaxMs } from "../../src/domain/limits/limit-set.ts";
import type {
  Batch,
  BatchClaim,
  BatchLease,
  BatchRequest,
  LeftUsage,
  LevelPin,
  StraightLevel,
  StraightRow,
  VersionedRow,
} from "../../src/ports/batch-store.ts";
import type { SeededRandom } from "../../src/testing/random.ts";

export const T0 = Date.UTC(2026, 2, 15, 11, 30);
export const HOUR_MS = 3_600_000;
const SAFE = Number.MAX_SAFE_INTEGER;

export const KEYS: readonly BucketKey[] = ["a", "b"].flatMap((id) => [bucketKey(id, "api"), bucketKey(id, "x")]);
export const LEASE_KEYS: readonly string[] = ["k-1", 'k "2"'];
export const MARKS: readonly string[] = ["mark-1", "mark-2"];

/** Versions differ between stores: these stand for the one that a row has, and the one that it had before. */
export const PRESENT = 0;
export const EARLIER = -1;

/** What the levels of a row are: `slice`: slots that are held of the limit before all slices. */
type LevelKind = "hard" | "soft" | "session" | "slice" | "huge";

/** Rows of one shape have the same signature. */
const SHAPES: readonly (readonly LevelKind[])[] = [
  ["hard"],
  ["hard", "huge"],
  ["hard", "soft"],
  ["session", "hard"],
  ["hard", "slice", "slice"],
  ["soft", "session", "huge"],
  ["huge", "hard", "slice"],
  [],
];

/** Draws batches of everything that there is. */
export class BatchDraws {
  readonly #random: SeededRandom;
  nowMs = T0;
  #leases = 0;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  row(): StraightRow {
    const random = this.#random;
    const shape = random.integer(0, SHAPES.length - 1);
    const levels = (SHAPES[shape] as readonly LevelKind[]).map((kind, i) => this.#level(kind, i));
    const epochMs = this.nowMs - random.pick([0, 0, random.integer(0, 20_000), random.integer(0, 3_500_000)]);
    const ageMs = epochAgeMaxMs(levels.map((level) => ({ terms: level })));
    const validUntilMs = random.chance(0.2) ? this.nowMs + random.integer(-10_000, 30_000) : null;
    return {
      ...{ signature: `s${shape}`, limitsText: `["s${shape}", "\u00e4\\"]\n[[0]]`, epochMs, validUntilMs },
      renewAtMs: Math.min(epochMs + ageMs + 1, random.chance(0.1) ? this.nowMs + random.integer(-5, 5_000) : Infinity),
      writtenMs: random.pick([null, this.nowMs - 5, this.nowMs + 5]),
      ...{
        asOfMs: T0 - random.integer(0, 1),
        generation: random.pick([null, 1, 2]),
        metNumber: random.pick([1, 3, 3, 3]),
      },
      hourMs: this.hour(),
      requests: random.pick([0, 0, 7]),
      levels,
    };
  }

  #level(kind: LevelKind, i: number): StraightLevel {
    const random = this.#random;
    const resets = random.integer(0, 1);
    if (kind === "slice") {
      const tokensMilli = random.pick([0, 1_000, random.integer(0, 4_000)]);
      const of = { capacityMilli: SAFE, refillAmountMilli: 0, refillPeriodMs: 1_000, soft: true, windowMs: -1, resets };
      return {
        ...of,
        name: `l0@${i}`,
        tokensMilli,
        remainder: 0,
        countedMilli: null,
        windowStartMs: null,
        topUpMilli: 0,
      };
    }
    const isHuge = kind === "huge";
    const capacityMilli = isHuge ? random.pick([4e15, 9e15]) : random.integer(0, 20_000);
    const refillPeriodMs = isHuge ? random.pick([86_400_000, 7_001]) : random.pick([1_000, 60_000, 7_001]);
    return {
      ...{ name: `l${i}`, capacityMilli, refillPeriodMs, soft: kind === "soft", resets },
      refillAmountMilli: random.chance(0.3) ? 0 : isHuge ? 3_999_999_999_999_999 : random.integer(1, 20_000),
      windowMs: kind === "session" ? random.pick([5_000, HOUR_MS]) : 0,
      tokensMilli: random.pick([capacityMilli, 0, -2_000, random.integer(0, 25_000)]),
      remainder: random.integer(0, refillPeriodMs - 1),
      countedMilli: random.pick([null, 0, 5_000, -3_000, random.chance(0.05) ? SAFE - 100 : 1]),
      windowStartMs: kind === "session" && random.chance(0.5) ? T0 : null,
      topUpMilli: random.pick([0, 3_000]),
    };
  }

  hour(): number {
    const hourMs = this.nowMs - (this.nowMs % HOUR_MS);
    return (
      hourMs +
      HOUR_MS *
        this.#random.weighted([
          [8, 0],
          [1, -1],
          [1, 1],
          [0.3, 5],
        ] as const)
    );
  }

  left(): LeftUsage {
    const amounts = Array.from({ length: this.#random.integer(0, 2) }, () => this.#stray());
    // Nothing at all never leaves a row.
    const requests = amounts.length === 0 ? 1 : this.#random.integer(0, 2);
    return { hourMs: this.hour(), requests, amounts };
  }

  #stray(): CountedAmount {
    const random = this.#random;
    const limit = random.pick(["l0", "l0#hu", "l0#hu", 'q"\\']);
    const huge = random.pick([-1n, 1n]) * BigInt(random.integer(0, SAFE)) * BigInt(random.integer(1, 1_000_000));
    return { limit, milli: random.chance(0.4) ? huge : random.integer(-5_000, 5_000) };
  }

  batch(
    rows: ReadonlyMap<string, VersionedRow>,
    head: Pick<Batch, "lane" | "seq" | "isRepeat">,
    generation: number,
  ): Batch {
    const random = this.#random;
    const plain = random.chance(0.3) ? this.#plainBatch(rows, head, generation) : undefined;
    if (plain !== undefined) return plain;
    const keys = this.#some(KEYS, random.integer(1, 4));
    const requestCount = random.integer(1, 5);
    const buckets = keys.map((key) => {
      const stored = rows.get(`default\n${key.id}`);
      if (!random.chance(stored === undefined ? 0.9 : 0.25)) return { key, brought: undefined };
      const version = random.chance(0.85) ? PRESENT : random.pick([EARLIER, 123_456_789]);
      const left = random.chance(0.2) ? [this.left()] : [];
      return { key, brought: { version, row: this.row(), left, request: random.integer(0, requestCount - 1) } };
    });
    const signatures = buckets.map(({ key, brought }) => [
      brought?.row ?? rows.get(`default\n${key.id}`) ?? this.row(),
      rows.get(`default\n${key.id}`) ?? brought?.row ?? this.row(),
    ]);
    return {
      ...{ namespaceId: "default", ...head, buckets },
      requests: Array.from({ length: requestCount }, () => this.#request(signatures, generation)),
      countsUsage: random.chance(0.8),
      aheadMaxMs: random.pick([undefined, undefined, 500]),
      goesBy: random.pick([[], ["plan"], ["plan", "far"]]),
    };
  }

  /** Takes that may be summed; undefined: there is no row for them. */
  #plainBatch(
    rows: ReadonlyMap<string, VersionedRow>,
    head: Pick<Batch, "lane" | "seq" | "isRepeat">,
    generation: number,
  ): Batch | undefined {
    const random = this.#random;
    const found = KEYS.flatMap((key) => {
      const row = rows.get(`default\n${key.id}`);
      return row?.levels.every(({ soft, windowMs }) => !soft && windowMs === 0) ? [{ key, row }] : [];
    });
    if (found.length === 0) return undefined;
    const chosen = this.#some(found, random.integer(1, found.length));
    const takeOf = (touched: readonly (typeof chosen)[0][]): BatchRequest => ({
      ...{ kind: "take", isNoted: false, draft: undefined },
      nowMs: this.nowMs + random.pick([0, 0, 0, 1, -5, random.integer(-3_000, 600)]),
      generation: generation - Number(random.chance(0.05)),
      claims: touched.map((one) => ({
        ...{ bucket: chosen.indexOf(one), signature: one.row.signature, changeNumber: random.pick([-1, 1, 2]) },
        amounts: one.row.levels.map(() => this.#amount("take", false)),
        ...{ isSummable: true, origin: undefined, bypass: false, leavePercent: 0, shadows: [], pins: undefined },
        ...{ judgedMs: null, strays: [], lost: undefined },
      })),
    });
    const others = Array.from({ length: random.pick([0, 0, 1, 4]) }, () =>
      takeOf(this.#some(chosen, random.integer(1, chosen.length))),
    );
    return {
      ...{ namespaceId: "default", ...head, buckets: chosen.map(({ key }) => ({ key, brought: undefined })) },
      requests: [takeOf(chosen), ...others],
      countsUsage: random.chance(0.8),
      aheadMaxMs: random.pick([undefined, undefined, 500]),
      goesBy: [],
    };
  }

  #request(rows: readonly (readonly StraightRow[])[], generation: number): BatchRequest {
    const random = this.#random;
    const kind = random.pick(["take", "take", "take", "debit", "credit", "credit", "renew"] as const);
    const nowMs =
      this.nowMs +
      random.weighted([
        [6, 0],
        [2, random.integer(-3_000, 600)],
        [1, random.integer(-HOUR_MS, HOUR_MS)],
      ] as const);
    const claimCount = kind === "take" ? random.pick([1, 1, 2, 3]) : 1;
    let bucket = 0;
    const claims = Array.from({ length: claimCount }, (_, i) => {
      if (i === 0 || random.chance(0.6)) bucket = random.integer(0, rows.length - 1);
      const own = rows[bucket] as readonly StraightRow[];
      return this.#claim(bucket, kind, random.chance(0.04) ? this.row() : random.pick(own), nowMs);
    });
    const draft = kind === "take" && random.chance(0.3) ? this.#draft() : undefined;
    const planned = random.pick([undefined, generation, generation, generation, generation - random.integer(0, 3)]);
    return { kind, nowMs, generation: planned, isNoted: random.chance(0.3), claims, draft };
  }

  #draft(): BatchLease {
    const random = this.#random;
    const leaseId = random.chance(0.7) ? `lease-${++this.#leases}` : undefined;
    const isKeyed = leaseId === undefined || random.chance(0.5);
    return {
      ...{ leaseId, entityId: "a", resource: "api", holdMs: random.integer(1_000, 60_000) },
      text: `draft "${this.#leases}" \u00e9\n`,
      key: isKeyed ? { key: random.pick(LEASE_KEYS), mark: random.chance(0.8) ? "mark-1" : "mark-2" } : undefined,
    };
  }

  #claim(bucket: number, kind: BatchRequest["kind"], row: StraightRow, nowMs: number): BatchClaim {
    const random = this.#random;
    const { levels } = row;
    const isBack = kind === "credit" || kind === "renew";
    const isTake = kind === "take";
    const hard = levels.flatMap(({ soft }, place) => (soft ? [] : [place]));
    const slices = levels.flatMap(({ windowMs }, place) => (windowMs < 0 ? [place] : []));
    return {
      ...{ bucket, signature: row.signature, isSummable: false },
      changeNumber: isBack ? -1 : random.pick([-1, -1, 1, 2]),
      origin: random.chance(0.15)
        ? { asOfMs: random.pick([row.asOfMs, T0]), generation: random.pick([row.generation, row.generation, null]) }
        : undefined,
      amounts: levels.map(({ windowMs }) => this.#amount(kind, windowMs < 0)),
      bypass: random.chance(0.12),
      leavePercent: isTake && random.chance(0.2) ? random.integer(1, 99) : 0,
      shadows: isTake
        ? this.#some(hard, random.chance(0.3) ? 2 : 0).map((place) => ({
            place,
            slice: slices.length > 0 && random.chance(0.5) ? random.pick(slices) : undefined,
          }))
        : [],
      pins: isBack && random.chance(0.8) ? levels.map((level, i) => this.#pin(kind, level, i, slices)) : undefined,
      judgedMs: random.pick([null, null, nowMs, row.epochMs]),
      strays: random.chance(isBack ? 0.4 : 0.2) ? [this.#stray(), this.#stray()] : [],
      lost: kind === "credit" && random.chance(0.7) ? this.left() : undefined,
    };
  }

  #amount(kind: BatchRequest["kind"], isSlice: boolean): number | null {
    const random = this.#random;
    if (random.chance(0.2)) return null;
    const milli = random.pick([
      0,
      1_000,
      1_000,
      random.integer(0, 9_000),
      random.chance(kind === "debit" ? 0.3 : 0.1) ? 9e15 : 500,
    ]);
    if (!isSlice) return milli;
    return kind === "take" || kind === "debit" ? -(milli % 10_000) : milli;
  }

  #pin(kind: BatchRequest["kind"], level: StraightLevel, i: number, slices: readonly number[]): LevelPin {
    const random = this.#random;
    const others = slices.filter((place) => place !== i);
    if (kind === "renew") return level.windowMs < 0 && others.length > 0 ? { into: random.pick(others) } : "skip";
    const period = { resets: level.resets, windowStartMs: random.pick([level.windowStartMs, null, T0]) };
    const simple: readonly LevelPin[] = ["skip", "skipUsed", undefined, period, period];
    if (level.windowMs < 0 || others.length === 0 || random.chance(0.3)) return random.pick(simple);
    return { from: random.pick(others), isUsed: random.chance(0.5) };
  }

  #some<Item>(all: readonly Item[], count: number): readonly Item[] {
    const rest = [...all];
    const found: Item[] = [];
    while (found.length < count && rest.length > 0) {
      found.push(...rest.splice(this.#random.integer(0, rest.length - 1), 1));
    }
    return found;
  }
}
