import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { UsageSnapshot } from "../../src/domain/charge/usage.ts";
import type { Claim, Held } from "../../src/ports/bucket-store.ts";
import type { Item, WriteTrace } from "../../src/ports/item-store.ts";
import type { AppliedChange } from "../kit/conditional-table.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import type { StoredBucket } from "../kit/model-stored.ts";
import { overdrawnIn } from "./model-questions.ts";
import type { CountedClaim } from "./operation.ts";
import { UsageLedger } from "./usage-ledger.ts";

// What usage must be after the writes that a table has applied, told by the writes alone and not by the code that counts.

const HOUR_MS = 3_600_000;
const HOUR_OF_SHEET = /^h\d\d$/;

/** What every write of a table that is applied has used, in the hour that its item was in then. */
export class AppliedUsage extends UsageLedger {
  readonly #nowMs: () => number;
  readonly #deleted = new Set<string>();
  /** Requests of the changes that are being made together. */
  #counted = new Set<object>();
  /** The first write of each give-back. */
  readonly #firsts = new WeakMap<object, WriteTrace>();
  /** First writes of which nobody knows whether they were applied, and what they undo, should they still be. */
  readonly #inDoubt = new WeakMap<WriteTrace, readonly string[]>();

  constructor(keptMs: number, nowMs: () => number) {
    super(keptMs, "in their own hour");
    this.#nowMs = nowMs;
  }

  /** The changes from here on are made together: a request that several shards serve is one. */
  together(): void {
    this.#counted = new Set();
  }

  /** `shard`: how it stands after the part, by the model and as stored; undefined where nothing was debited. */
  wrote(
    part: Pick<WriteTrace["parts"][number], "of" | "kind" | "amounts"> & { readonly passed?: readonly Amount[] },
    { key, after, trace }: AppliedChange,
    shard: { readonly model: ModelBucket; readonly state: StoredBucket } | undefined,
    nowMs: number,
    counted: CountedClaim | undefined,
    uses: readonly Amount[] = part.amounts,
  ): void {
    const { of, kind, amounts, passed = [] } = part;
    if (kind === "topUp" || kind === "reset" || kind === "renew") return;
    const { bypass } = of as Claim | Held;
    const isRequest = kind === "take" && amounts.length + passed.length > 0 && !this.#counted.has(of);
    if (isRequest) this.#counted.add(of);
    const overdrawn =
      kind !== "take" || shard === undefined ? [] : overdrawnIn(shard.model, shard.state, amounts, nowMs);
    const sign = kind === "credit" ? -1 : 1;
    const passedBy = passed.map(({ limit }) => limit);
    const counts = countsOf(overdrawn, passedBy);
    if (isRequest) counted?.overdrafts.push(counts);
    // Gathered from several shards, one request may leave a limit below zero on each of them.
    else if (kind === "take" && counts.length > 0)
      counted?.overdrafts.push([...(counted.overdrafts.pop() ?? []), ...counts]);
    const undone = kind === "credit" && trace !== undefined ? this.#undoneBy(of, trace, counted) : undefined;
    const requests = undone === undefined ? (isRequest ? 1 : 0) : -1;
    const hourMs = Number(after?.uh) * HOUR_MS;
    this.count(key.bucket, uses, {
      sign,
      requests,
      nowMs: hourMs,
      bypass,
      overdrawn,
      passed: passedBy,
    });
    for (const count of undone ?? []) this.undo(key.bucket, count, hourMs);
  }

  /** Nobody knows whether a write that gives back was applied. What it undoes, no other write of the give-back undoes for it. */
  lost(of: object, trace: WriteTrace, counted: CountedClaim | undefined): void {
    if (this.#firsts.has(of)) return;
    const undone = this.#undoneBy(of, trace, counted);
    if (undone !== undefined) this.#inDoubt.set(trace, undone);
  }

  /** An answer that came late tells that a write was not applied: another one will be the first of its give-back. */
  notApplied(of: object, trace: WriteTrace, counted: CountedClaim | undefined): void {
    if (this.#firsts.get(of) !== trace) return;
    this.#firsts.delete(of);
    if (this.#inDoubt.delete(trace) && counted !== undefined) counted.undone--;
  }

  /**
   * The soft limits that a request had left below zero, where a write takes it back; undefined where it does not. The first
   * write of a give-back does that, whatever it says of itself, and no other one.
   */
  #undoneBy(of: object, trace: WriteTrace, counted: CountedClaim | undefined): readonly string[] | undefined {
    const first = this.#firsts.get(of);
    if (first === undefined) {
      this.#firsts.set(of, trace);
      const { undoes = [], shadowed = [] } = trace.parts.find((part) => part.of === of) ?? {};
      const told = countsOf(undoes, shadowed);
      if (counted !== undefined) toldFirst(counted, told);
      const undone = undoneAs(told, counted);
      if (counted !== undefined && undone !== undefined) counted.undone++;
      return undone;
    }
    if (first !== trace) return undefined;
    const undone = this.#inDoubt.get(trace);
    this.#inDoubt.delete(trace);
    return undone;
  }

  /** An operator has deleted the entity. What was under way then may still land. */
  deleted(entityId: string): void {
    this.#deleted.add(entityId);
  }

  override problems(snapshots: readonly UsageSnapshot[]): string[] {
    this.readAt(this.#nowMs());
    this.forgetWhere(({ entityId }) => this.#deleted.has(entityId));
    const known = snapshots.filter(({ entityId }) => !this.#deleted.has(entityId));
    return super.problems(known);
  }
}

/** What is counted once for each request, beside its tokens. */
function countsOf(overdrawn: readonly string[], passed: readonly string[]): readonly string[] {
  return [...overdrawn.map((name) => `${name} overdrawn`), ...passed.map((name) => `${name} passed by`)];
}

/**
 * What is undone of the next landing of a claim. After a lost answer it may have been told to have passed by more shadows than it did: it
 * takes back what it was told.
 */
function undoneAs(told: readonly string[], counted: CountedClaim | undefined): readonly string[] | undefined {
  const landed = counted?.overdrafts[counted.undone];
  if (landed === undefined || counted?.isLost !== true) return landed;
  return [...landed, ...told.filter((one) => one.endsWith(" passed by") && !landed.includes(one))];
}

/**
 * A claim whose answers were lost may have landed twice, and left a limit below zero by one landing alone. A give-back takes back
 * the landing that it was told of, so that one goes first.
 */
function toldFirst({ overdrafts, undone }: CountedClaim, told: readonly string[]): void {
  const text = told.toSorted().join();
  const at = overdrafts.findIndex((one, i) => i >= undone && one.toSorted().join() === text);
  if (at > undone) overdrafts.splice(undone, 0, ...overdrafts.splice(at, 1));
}

/** A shard as it was before parts of the write that left it so. */
export function withoutParts(state: StoredBucket, parts: readonly WriteTrace["parts"][number][]): StoredBucket {
  const moved = new Map<string, number>();
  for (const { of, kind, amounts } of parts) {
    if ((of as Claim | Held).bypass || kind === "topUp" || kind === "reset" || kind === "renew") continue;
    const sign = kind === "credit" ? -1 : 1;
    for (const { limit, milli } of amounts) moved.set(limit, (moved.get(limit) ?? 0) + sign * milli);
  }
  const limits = state.limits.map((limit) => ({
    ...limit,
    tokensMilli: limit.tokensMilli + (moved.get(limit.name) ?? 0),
  }));
  return { ...state, limits };
}

/** An hour only grows, and a write never counts in an earlier one than it was made in, but for a sheet that is in the way. */
export function hourProblems(before: Item | undefined, after: Item, trace: WriteTrace | undefined): string[] {
  const [was, is] = [before?.uh, after.uh];
  if (typeof is !== "number") return ["it has no hour"];
  if (typeof was === "number" && is < was) return [`the hour went back from ${was} to ${is}`];
  if (typeof was === "number" && is > was && after.up !== was) return [`the hour ${was} is not beside ${is}`];
  const counts = trace?.form === "take" || trace?.form === "credit" || trace?.form === "create";
  // Slots that come back after they were used count nothing where their time is up.
  if (!counts || !isCounted(before ?? {}, after) || is * HOUR_MS + HOUR_MS > trace.readingMs) return [];
  return before?.up === undefined ? [`it counts in the hour ${is} with the reading ${trace.readingMs}`] : [];
}

const COUNTER = /^b_(rq|(?!wcu_).+_(tc|by|od|wr|hu))$/;

function isCounted(before: Item, after: Item): boolean {
  return Object.keys(after).some((name) => COUNTER.test(name) && after[name] !== before[name]);
}

/** What is on a sheet stays as it is. */
export function sheetProblems({ before = {}, after = {} }: Pick<AppliedChange, "before" | "after">): string[] {
  return Object.keys(before)
    .filter((name) => HOUR_OF_SHEET.test(name) && before[name] !== after[name])
    .map((name) => `${name} of a sheet went from ${before[name]} to ${after[name]}`);
}
