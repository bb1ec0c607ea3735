import { ModelBucket } from "../kit/model-bucket.ts";
import type { StoredBucket } from "../kit/model-stored.ts";
import type { ModelPart } from "../kit/model-terms.ts";
import { calendar } from "./calendar.ts";

/** One shard of a bucket as it is stored. */
export interface StoredShard {
  readonly state: StoredBucket;
  /** Undefined where the bucket is in one piece. */
  readonly part: ModelPart | undefined;
}

/** What a bucket holds of a limit, over all its shards, at one instant; millitokens. */
interface Whole {
  readonly milli: bigint;
  readonly brimMilli: bigint;
  readonly refillMilli: bigint;
  readonly periodMs: number;
  /** By what it goes, on any of the shards. */
  readonly rules: ReadonlySet<string>;
  readonly shards: number;
}

/** What calls moved on a limit, at least and at most: what nobody can say of may be either. In millitokens. */
interface Moved {
  outLeast: number;
  outMost: number;
  backLeast: number;
  backMost: number;
  /** It begins anew: what came before does not count. */
  isReset: boolean;
}

/**
 * Conservation over the whole bucket, without shards: what it holds after something happened is what it held before, less what
 * was taken, and what was given back or bought, to a millitoken a shard; whoever gave back, and wherever it went. Neither
 * more nor less. Told by what is stored and by what callers were told, not by the writes.
 */
export class BucketBalance {
  readonly #loose: { readonly isExact: boolean };
  #before: readonly StoredShard[] = [];
  #moved = new Map<string, Moved>();
  /** What was lost or is on its way, and may be applied at any time from now on. */
  readonly #doubt = new Map<string, { out: number; back: number }>();
  /** How much cannot be known any more; then nothing is asked. */
  #isUnknown = false;
  #writes = 0;
  #beganMs = 0;

  /** `isExact`: no process cuts a full bucket by more than it needs. */
  constructor(loose: { readonly isExact: boolean }) {
    this.#loose = loose;
  }

  begin(before: readonly StoredShard[], nowMs: number): void {
    this.#before = before;
    this.#beganMs = nowMs;
    this.#moved = new Map();
    this.#writes = 0;
  }

  wrote(): void {
    this.#writes++;
  }

  out(limit: string, milli: number): void {
    this.#of(limit).outLeast += milli;
    this.#of(limit).outMost += milli;
  }

  back(limit: string, leastMilli: number, mostMilli: number): void {
    this.#of(limit).backLeast += leastMilli;
    this.#of(limit).backMost += mostMilli;
  }

  reset(limit: string): void {
    this.#of(limit).isReset = true;
  }

  /** It may have been taken; what lands late is given back when that is found out. */
  perhapsOut(limit: string, milli: number): void {
    this.#inDoubt(limit).out += milli;
    this.#inDoubt(limit).back += milli;
  }

  perhapsBack(limit: string, milli: number): void {
    this.#inDoubt(limit).back += milli;
  }

  /** Nobody can say what is there. */
  lose(): void {
    this.#isUnknown = true;
  }

  /** Whether something may still come, or go, that no caller knows of. */
  get isInDoubt(): boolean {
    return this.#isUnknown || this.#doubt.size > 0;
  }

  /** What the whole bucket holds of a limit; undefined where a shard has none of it, or goes by another rule. */
  static heldMilli(shards: readonly StoredShard[], limit: string, nowMs: number): bigint | undefined {
    const whole = wholeOf(shards, limit, nowMs);
    return whole?.rules.size === 1 ? whole.milli : undefined;
  }

  /** What is wrong with what there is now; empty when nothing is. `steady`: limits whose rule did not change meanwhile. */
  problems(after: readonly StoredShard[], nowMs: number, steady: ReadonlySet<string>): string[] {
    if (this.#isUnknown || after.length === 0) return [];
    // What was begun before time passed may be done while it does: shards that are joined drip differently from then on.
    if (this.#beganMs < nowMs && this.#writes > 0) return [];
    // Time is told by the shard that is ahead most: each write at one instant tells a shard from a millisecond later.
    const atMs = Math.max(nowMs, ...[...this.#before, ...after].map(({ state }) => state.epochMs));
    if ([...this.#before, ...after].some(({ state }) => isBetween(state, nowMs, atMs))) return [];
    return [...steady].flatMap((name) => this.#problemsOf(name, after, atMs, atMs - nowMs));
  }

  #problemsOf(name: string, after: readonly StoredShard[], atMs: number, aheadMs: number): string[] {
    const now = wholeOf(after, name, atMs);
    if (now === undefined || now.rules.size > 1) return [];
    const { outLeast, outMost, backLeast, backMost, isReset } = this.#moved.get(name) ?? NOTHING;
    const doubt = this.#doubt.get(name) ?? { out: 0, back: 0 };
    const rounding = BigInt(Math.max(now.shards, this.#before.length, 1));
    const was = this.#held(name, now, atMs);
    if (was === undefined) return [];
    const from = isReset ? { ...was, milli: now.brimMilli } : was;
    const dripped = (BigInt(aheadMs) * now.refillMilli) / BigInt(now.periodMs);
    const most = from.milli + BigInt(backMost - outLeast + doubt.back) + rounding + dripped;
    const given = from.milli + BigInt(backLeast);
    const kept = given < now.brimMilli ? given : now.brimMilli;
    // One that was filled while others are ahead loses what drips in until then.
    const least = kept - BigInt(outMost + doubt.out) - rounding - dripped - this.#cut(now);
    if (now.milli > most) return [`the bucket holds ${now.milli} of ${name}, and at most ${most} can be there`];
    if (now.milli < least) return [`the bucket holds ${now.milli} of ${name}, and at least ${least} must be there`];
    return [];
  }

  /** What there was of it before; a bucket that did not exist was full. Undefined where its rule is another one now. */
  #held(name: string, now: Whole, atMs: number): Pick<Whole, "milli"> | undefined {
    if (this.#before.length === 0) return { milli: now.brimMilli };
    const was = wholeOf(this.#before, name, atMs);
    const isSame = was?.rules.size === 1 && [...now.rules].every((rule) => was.rules.has(rule));
    return isSame ? was : undefined;
  }

  /** Busy buckets may be held below their brim by a second's refill, and by no more than a sixteenth (ADR 7). */
  #cut({ brimMilli, refillMilli, periodMs }: Whole): bigint {
    if (this.#loose.isExact || refillMilli === 0n) return 0n;
    const second = (refillMilli * 1000n) / BigInt(periodMs);
    const sixteenth = brimMilli / 16n;
    return BigInt(this.#writes) * (second < sixteenth ? second : sixteenth);
  }

  #of(limit: string): Moved {
    const moved = this.#moved.get(limit) ?? { ...NOTHING };
    this.#moved.set(limit, moved);
    return moved;
  }

  #inDoubt(limit: string): { out: number; back: number } {
    const doubt = this.#doubt.get(limit) ?? { out: 0, back: 0 };
    this.#doubt.set(limit, doubt);
    return doubt;
  }
}

const NOTHING: Moved = { outLeast: 0, outMost: 0, backLeast: 0, backMost: 0, isReset: false };

/** Whether a period ends after the one instant, and not after the other. */
function isBetween({ validUntilMs, limits }: StoredBucket, nowMs: number, atMs: number): boolean {
  if (validUntilMs > nowMs && validUntilMs <= atMs) return true;
  return limits.some(
    ({ limit: { reset } }) => reset !== undefined && calendar.nextReset(reset.cron, reset.tz ?? "UTC", nowMs) <= atMs,
  );
}

/** A limit over all shards, at an instant; undefined where one of them has none of that name. */
function wholeOf(shards: readonly StoredShard[], name: string, atMs: number): Whole | undefined {
  let [milli, brimMilli, refillMilli] = [0n, 0n, 0n];
  let periodMs = 1;
  const rules = new Set<string>();
  for (const { state, part } of shards) {
    const model = ModelBucket.seeded(state, part, [], calendar);
    model.advance(atMs);
    const limit = model.limit(name);
    if (limit === undefined) return undefined;
    milli += limit.levelMilli(atMs);
    brimMilli += limit.brimMilli;
    refillMilli += limit.terms.refill;
    ({ periodMs } = limit.terms);
    rules.add(JSON.stringify(limit.limit));
  }
  return { milli, brimMilli, refillMilli, periodMs, rules, shards: shards.length };
}
