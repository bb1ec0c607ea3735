import { levelMilli } from "../../src/bucket/level.ts";
import { credit, debit, take, takeAbove } from "../../src/bucket/take.ts";
import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import { countName, HOUR_MS } from "../../src/domain/charge/usage.ts";
import { floorMilli } from "../../src/domain/limits/limit-numbers.ts";
import type {
  Batch,
  BatchClaim,
  BatchPin,
  BatchRequest,
  ClaimLevels,
  LeftUsage,
  RequestReply,
  SeenRow,
  StraightLevel,
  StraightRow,
  VersionedRow,
} from "../../src/ports/batch-store.ts";

/** What a batch needs of the store that it runs on. */
interface RowTable {
  readonly rows: Map<string, VersionedRow>;
  nextVersion(): number;
  count(id: string, left: readonly LeftUsage[]): void;
  hasUsage(id: string): boolean;
}

/** A row as a batch works on it. */
interface Working {
  readonly key: BucketKey;
  row: StraightRow;
  readonly version: number;
  readonly marks: string | null;
  isChanged: boolean;
  isShown: boolean;
}

/** Thrown where the row is not as the request expects it. */
const AGAIN = Symbol("again");

/** One batch on the rows of a store. */
export class BatchWork {
  readonly #batch: Batch;
  readonly #store: RowTable;
  readonly #rows: (Working | undefined)[];
  #left: { readonly id: string; readonly usage: LeftUsage }[] = [];

  constructor(batch: Batch, store: RowTable, isRefused: (request: number) => boolean) {
    this.#batch = batch;
    this.#store = store;
    this.#rows = batch.buckets.map(({ key, brought }): Working | undefined => {
      const id = idIn(batch.namespaceId, key);
      const stored = store.rows.get(id);
      const version = stored?.version ?? 0;
      const marks = stored?.marks ?? null;
      if (brought === undefined || brought.version !== version || isRefused(brought.request)) {
        return stored && { key, row: stored, version, marks, isChanged: false, isShown: false };
      }
      for (const usage of brought.left) this.#left.push({ id, usage });
      return { key, row: brought.row, version, marks, isChanged: version > 0, isShown: false };
    });
  }

  run(request: BatchRequest): RequestReply {
    const before = this.#rows.map((row) => row && { ...row });
    const leftBefore = this.#left;
    const outcomes = request.claims.map((claim) => this.#claimed(request, claim));
    const isAgain = outcomes.includes("again");
    if (outcomes.every((outcome): outcome is ClaimLevels => typeof outcome === "object")) {
      return { kind: "applied", claims: outcomes };
    }
    for (const [i, row] of before.entries())
      this.#rows[i] = row && { ...row, isShown: this.#rows[i]?.isShown === true };
    this.#left = leftBefore;
    if (isAgain) return { kind: "again" };
    if (outcomes.includes("gone")) return this.#gone(request);
    if (outcomes.includes("tooDeep")) return { kind: "tooDeep" };
    return {
      kind: "short",
      short: outcomes.map((outcome) => outcome === "short"),
      claims: request.claims.map(({ bucket }) => levelsOf((this.#rows[bucket] as Working).row)),
    };
  }

  /** Stores what was changed. */
  written(): { readonly rows: readonly (SeenRow | null)[]; readonly isWritten: boolean } {
    let isWritten = this.#left.length > 0;
    const rows = this.#rows.map((working): SeenRow | null => {
      if (working === undefined || (working.version === 0 && !working.isChanged)) return null;
      const version = working.isChanged ? this.#store.nextVersion() : working.version;
      if (working.isChanged) {
        isWritten = true;
        this.#store.rows.set(idIn(this.#batch.namespaceId, working.key), {
          ...working.row,
          version,
          marks: working.marks,
        });
      }
      return seen({ ...working.row, version, marks: working.marks }, working.isShown);
    });
    for (const { id, usage } of this.#left) this.#store.count(id, [usage]);
    return { rows, isWritten };
  }

  #gone({ claims }: BatchRequest): RequestReply {
    const [{ bucket, lost } = { bucket: 0, lost: undefined }] = claims;
    const id = idIn(this.#batch.namespaceId, (this.#batch.buckets[bucket] as Batch["buckets"][0]).key);
    if (this.#batch.countsUsage && lost !== undefined && this.#store.hasUsage(id)) {
      this.#left = [...this.#left, { id, usage: lost }];
    }
    return { kind: "gone" };
  }

  #claimed(request: BatchRequest, claim: BatchClaim): ClaimLevels | "again" | "gone" | "tooDeep" | "short" {
    const working = this.#rows[claim.bucket];
    const isBack = request.kind === "credit" || request.kind === "renew";
    if (working === undefined || (isBack && working.version === 0 && !working.isChanged)) {
      return isBack ? "gone" : "again";
    }
    const isUnborn = working.version === 0 && !working.isChanged;
    const isEarlier = isUnborn && request.nowMs < working.row.epochMs;
    if (isEarlier || !isStraight(working.row, request, claim, this.#batch.countsUsage)) {
      working.isShown = true;
      return "again";
    }
    const { id } = working.key;
    const beside: Beside = { counted: [], passed: [], late: [] };
    let outcome: StraightRow | "short" | "tooDeep" | "gone" | typeof AGAIN;
    // A bucket begins with who first takes from it, not with somebody before him in the batch who was refused.
    const row = isUnborn ? { ...working.row, epochMs: request.nowMs } : working.row;
    outcome = changed(row, request, claim, this.#batch.countsUsage, beside);
    if (outcome === AGAIN) {
      working.isShown = true;
      return "again";
    }
    if (outcome === "short" || outcome === "tooDeep" || outcome === "gone") return outcome;
    working.row = outcome;
    working.isChanged = true;
    const strays = claim.strays.filter(({ limit }) => !beside.late.includes(limit));
    const counted = this.#batch.countsUsage ? [...beside.counted, ...strays] : [];
    if (counted.length > 0) {
      const usage = { hourMs: outcome.hourMs, requests: 0, amounts: counted };
      this.#left = [...this.#left, { id: `${this.#batch.namespaceId}\n${id}`, usage }];
    }
    return beside.passed.length === 0 ? levelsOf(outcome) : { ...levelsOf(outcome), shadowed: beside.passed };
  }
}

/** What is counted beside the amounts of a claim, and the places of the shadows that it passes by. */
interface Beside {
  readonly counted: Amount[];
  readonly passed: number[];
  /** Counters of the time of slots that their slice no longer has. */
  readonly late: string[];
}

function isStraight(row: StraightRow, { kind, nowMs }: BatchRequest, claim: BatchClaim, counts: boolean): boolean {
  if (row.signature !== claim.signature || (counts && nowMs >= row.hourMs + HOUR_MS)) return false;
  const { origin } = claim;
  if (origin !== undefined && (origin.asOfMs !== row.asOfMs || origin.generation !== row.generation)) return false;
  if (claim.judgedMs !== null && row.epochMs > claim.judgedMs) return false;
  if (kind === "take" || kind === "debit") return nowMs < row.renewAtMs && claim.changeNumber <= row.metNumber;
  return claim.bypass || nowMs < (row.validUntilMs ?? Number.POSITIVE_INFINITY);
}

/** The row after a claim that it is straight for. */
function changed(
  row: StraightRow,
  { kind, nowMs, isNoted }: BatchRequest,
  claim: BatchClaim,
  counts: boolean,
  beside: Beside,
): StraightRow | "short" | "tooDeep" | "gone" | typeof AGAIN {
  let { validUntilMs, renewAtMs } = row;
  let [isShort, isDeep, isFull, isLost] = [false, false, false, false];
  const isBack = kind === "credit" || kind === "renew";
  /** What slices gain and lose, by their levels. */
  const moved = new Map<number, number>();
  const move = (i: number, milli: number) => moved.set(i, (moved.get(i) ?? 0) + milli);
  const heldIn = (i: number) => (row.levels[i] as StraightLevel).tokensMilli + (moved.get(i) ?? 0);
  const back = (level: StraightLevel, i: number, asked: number): number => {
    const pin = claim.pins?.[i];
    if (typeof pin === "object" && "from" in pin) {
      if (heldIn(pin.from) < asked) {
        beside.late.push(countName("heldMs", level.name));
        return level.tokensMilli;
      }
      move(pin.from, -asked);
      return level.tokensMilli + asked;
    }
    if (typeof pin === "object" && "into" in pin) {
      if (heldIn(i) < asked) isLost = true;
      else {
        move(i, -asked);
        move(pin.into, asked);
      }
      return level.tokensMilli;
    }
    return givenBack(level, pin, asked);
  };
  const skipped = new Set<number>();
  const levels = row.levels.map((level, i): StraightLevel => {
    const asked = claim.amounts[i];
    if (asked === null || asked === undefined || skipped.has(i)) return level;
    const pin = claim.pins?.[i];
    const isKept = pin === "skipUsed" || (typeof pin === "object" && "from" in pin && pin.isUsed);
    const countedMilli =
      counts && asked !== 0 && level.windowMs >= 0 && !isKept
        ? (level.countedMilli ?? 0) + (isBack ? -asked : asked)
        : level.countedMilli;
    if (!Number.isSafeInteger(countedMilli ?? 0)) isFull = true;
    if (claim.bypass) return { ...level, countedMilli };
    if (isBack) return { ...level, countedMilli, tokensMilli: back(level, i, asked) };
    const elapsedMs = nowMs - row.epochMs;
    const tokensMilli = level.soft
      ? (debit(level, level, elapsedMs, asked) ?? level.tokensMilli)
      : kind === "take"
        ? claim.leavePercent === 0
          ? take(level, level, elapsedMs, asked)
          : takeAbove(floorMilli(level.capacityMilli, claim.leavePercent), level, level, elapsedMs, asked)
        : debit(level, level, elapsedMs, asked);
    const shadow = kind === "take" ? claim.shadows.find(({ place }) => place === i) : undefined;
    if (tokensMilli === undefined && shadow !== undefined) {
      // What would be taken of it is not held in its slice either, which stands behind it.
      if (shadow.slice !== undefined) skipped.add(shadow.slice);
      beside.passed.push(i);
      beside.counted.push({ limit: countName("wouldRefuse", level.name), milli: 1000 });
      return level;
    }
    if (tokensMilli === undefined) {
      if (kind === "take") isShort = true;
      else isDeep = true;
      return level;
    }
    const after = { ...level, countedMilli, tokensMilli };
    if (counts && level.soft && kind === "take" && levelMilli(after, level, elapsedMs) < 0) {
      beside.counted.push({ limit: countName("overdrafts", level.name), milli: 1000 });
    }
    if (level.windowMs <= 0 || level.windowStartMs !== null || asked <= 0) return after;
    const windowStartMs = Math.max(nowMs, row.epochMs);
    validUntilMs = Math.min(validUntilMs ?? Number.POSITIVE_INFINITY, windowStartMs + level.windowMs);
    renewAtMs = Math.min(renewAtMs, validUntilMs);
    return { ...after, windowStartMs };
  });
  if (isFull) return AGAIN;
  if (isLost) return "gone";
  for (const [i, milli] of moved) {
    const level = levels[i] as StraightLevel;
    levels[i] = { ...level, tokensMilli: level.tokensMilli + milli };
  }
  if (isDeep) return "tooDeep";
  if (isShort) return "short";
  const writtenMs = isNoted ? Math.max(row.writtenMs ?? nowMs, nowMs) : row.writtenMs;
  const requests = row.requests + (counts && kind === "take" ? 1 : 0);
  return { ...row, levels, validUntilMs, renewAtMs, writtenMs, requests };
}

function givenBack(level: StraightLevel, pin: BatchPin | string | undefined, milli: number): number {
  const isOfPeriod =
    pin === undefined ||
    (typeof pin === "object" && pin.resets === level.resets && pin.windowStartMs === level.windowStartMs);
  return isOfPeriod ? credit(level, milli) : level.tokensMilli;
}

function levelsOf({ levels, validUntilMs }: StraightRow): ClaimLevels {
  const hasSessions = levels.some(({ windowMs }) => windowMs > 0);
  return {
    tokensMilli: levels.map((level) => level.tokensMilli),
    windows: hasSessions ? levels.map((level) => level.windowStartMs) : undefined,
    validUntilMs: hasSessions ? validUntilMs : undefined,
  };
}

function seen({ levels, limitsText, ...row }: VersionedRow, isShown: boolean): SeenRow {
  return {
    ...row,
    limitsText: isShown ? limitsText : undefined,
    tokensMilli: levels.map((level) => level.tokensMilli),
    remainders: levels.map((level) => level.remainder),
    countedMilli: levels.map((level) => level.countedMilli),
    windows: levels.map((level) => level.windowStartMs),
    topUpsMilli: levels.map((level) => level.topUpMilli),
    resets: levels.map((level) => level.resets),
  };
}

/** The name of a row in a table of all namespaces. */
export function idIn(namespaceId: string, { id }: BucketKey): string {
  return `${namespaceId}\n${id}`;
}
