import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { Item, ItemKey, ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { DISABLED, RF, SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import { outcomeOf } from "../kit/conditional-write.ts";
import { emptyGrants, type Grants, NO_GRANTS, planGrants, repairCreated } from "./original-grants.ts";
import { OriginalLease } from "./original-lease.ts";
import { OriginalLine } from "./original-line.ts";
import {
  type Commit,
  createWrite,
  normalWrite,
  type PassLimit,
  passOver,
  retryWrite,
  stampWrite,
  takingNothing,
  waitByPass,
} from "./original-pass.ts";
import {
  isOn,
  numberIn,
  refilledMilli,
  shardCountIn,
  type Wants,
  waitByImage,
  writesTermsIn,
} from "./original-terms.ts";
import { expiresAtS } from "./original-words.ts";
import { bumpWrite, fastFailure, fastWrite, raiseWrite, syncWrite } from "./original-writes.ts";

export { OriginalLease } from "./original-lease.ts";

export interface OriginalOptions {
  /** The client's own clock, in ms. */
  now(): number;
  /** A number in [0, 1): which shard, and how long a stamp holds. */
  readonly random: () => number;
  /** What its configuration cache tells of a bucket. No session quotas. */
  resolve(bucket: BucketKey): readonly Limit[];
  readonly calendar: Calendar;
  /** Whether it doubles the shards of a bucket that is written too often. Absent: no. */
  readonly doubles?: boolean;
  /** Whether a bucket's limits are defaults, so that its item expires. Absent: none does. */
  readonly expires?: (bucket: BucketKey) => boolean;
}

/** Calls are counted as they were sent, a transaction as one write. */
export interface OriginalCounts {
  readonly writes: number;
  /** Of the writes, those whose condition did not hold. */
  readonly failedWrites: number;
  readonly reads: number;
  readonly granted: number;
  readonly refused: number;
}

export interface OriginalRefusal {
  readonly refused: true;
  /** What the caller gets as an answer; not always true. */
  readonly retryAfterMs: number;
}

/**
 * A client that does to bucket items what the Python original, release 0.17, does: its write forms and conditions, its
 * round trips and its defects. One bucket at a time: parents, several resources, session quotas, bypass are left out.
 *
 * ```ts
 * const client = new OriginalClient(table.lineTo("ns", {}), { now, random: () => random.next(), resolve, calendar });
 * const lease = await client.acquire(bucketKey("ada", "api"), { rpm: 1 });
 * if (!lease.refused) await lease.adjust({ rpm: 2 });
 * ```
 */
export class OriginalClient {
  readonly #line: OriginalLine;
  readonly #options: OriginalOptions;
  readonly #id: string;
  readonly #shardCounts = new Map<string, number>();
  #granted = 0;
  #refused = 0;

  constructor(items: ItemStore, options: OriginalOptions) {
    this.#line = new OriginalLine(items);
    this.#options = options;
    this.#id = Math.floor(options.random() * 2 ** 48).toString(36);
  }

  get counts(): OriginalCounts {
    return { ...this.#line.counts, granted: this.#granted, refused: this.#refused };
  }

  /** Takes whole tokens of each limit named, or none. Throws `RateLimiterUnavailable` when the store fails for good. */
  async acquire(bucket: BucketKey, tokens: Readonly<Record<string, number>>): Promise<OriginalLease | OriginalRefusal> {
    const wants = new Map(Object.entries(tokens).map(([name, amount]) => [name, amount * 1000]));
    const outcome = await this.#take(bucket, wants);
    if (outcome.refused) this.#refused++;
    else this.#granted++;
    return outcome;
  }

  /**
   * An entity's own limits were changed: their numbers are written into every shard in place. A name that is not among
   * them any more stays on the items. What `resolve` tells is the caller's to change.
   */
  async setLimits(bucket: BucketKey, limits: readonly Limit[]): Promise<void> {
    await this.#sync(bucket, limits, { ttlS: undefined, removesStale: false });
  }

  /** An entity's own limits were deleted, and these apply now: the same, and other names go from the items. */
  async deleteLimits(bucket: BucketKey, limits: readonly Limit[]): Promise<void> {
    await this.#sync(bucket, limits, { ttlS: this.#ttlS(bucket, limits), removesStale: true });
  }

  async #take(bucket: BucketKey, wants: Wants): Promise<OriginalLease | OriginalRefusal> {
    const key = { bucket, shard: this.#randomBelow(this.#shardCounts.get(bucket.id) ?? 1) };
    const nowMs = this.#options.now();
    const fast = await this.#line.write(fastWrite(key, wants, nowMs));
    if (fast.item !== undefined) this.#learn(key, fast.item);
    if (fast.kind === "applied") return this.#lease(key, fast.item, wants);
    const image = fast.item;
    if (fast.kind === "contended" || image === undefined) return this.#takeSlowly(key, wants);
    switch (fastFailure(image, wants, nowMs)) {
      case "boundary":
        return this.#takeSlowly(key, wants);
      case "disabled":
        return refusal(0);
      case "writes": {
        const waitMs = this.#waitByImage(bucket, image, wants);
        if (waitMs !== undefined) return refusal(waitMs);
        return this.#takeSlowly(await this.#shardWithWrites(key, image), wants);
      }
      case "tokens": {
        const elsewhere = await this.#takeElsewhere(key, image, wants);
        if (elsewhere !== undefined) return elsewhere;
        const waitMs = this.#waitByImage(bucket, image, wants);
        return waitMs === undefined ? this.#takeSlowly(key, wants) : refusal(waitMs);
      }
    }
  }

  /** On up to two other shards, by chance. */
  async #takeElsewhere(key: ItemKey, image: Item, wants: Wants): Promise<OriginalLease | undefined> {
    const untried = Array.from({ length: shardCountIn(image) }, (_, shard) => shard).filter((s) => s !== key.shard);
    for (let tries = 0; tries < OTHER_SHARDS && untried.length > 0; tries++) {
      const [shard = 0] = untried.splice(this.#randomBelow(untried.length), 1);
      const other = { bucket: key.bucket, shard };
      const fast = await this.#line.write(fastWrite(other, wants, this.#options.now()));
      if (fast.kind === "applied") return this.#lease(other, fast.item, wants);
    }
    return undefined;
  }

  /** A shard that can be written, after one had too many writes: itself, if time has brought any; else a new one. */
  async #shardWithWrites(key: ItemKey, image: Item): Promise<ItemKey> {
    const broughtMilli = refilledMilli(0, writesTermsIn(image), this.#options.now() - numberIn(image, RF));
    const from = shardCountIn(image);
    if (broughtMilli >= 1000 || this.#options.doubles !== true || from >= SHARDS_MAX) return key;
    const to = Math.min(SHARDS_MAX, from * 2);
    const bumped = await this.#line.writeThrough(bumpWrite(key, from, to));
    if (bumped.item === undefined) return key;
    this.#learn({ bucket: key.bucket, shard: 0 }, bumped.item);
    if (bumped.kind === "applied") {
      for (let shard = 1; shard < from; shard++) {
        await this.#line.writeThrough(raiseWrite({ bucket: key.bucket, shard }, to, {}));
      }
    }
    const count = shardCountIn(bumped.item);
    return count <= from ? key : { bucket: key.bucket, shard: from + this.#randomBelow(count - from) };
  }

  async #takeSlowly(key: ItemKey, wants: Wants): Promise<OriginalLease | OriginalRefusal> {
    const beganMs = this.#options.now();
    const { calendar } = this.#options;
    const limits = this.#limits(key.bucket);
    // Whether it is disabled and which limits are soft is asked again each time.
    await this.#line.readElsewhere();
    const [item] = await this.#line.read([key], false);
    if (item !== undefined) this.#learn(key, item);
    if (item?.[DISABLED] === true) return refusal(0);
    const seen = item ?? { [SHARD_COUNT]: this.#shardCounts.get(key.bucket.id) ?? 1 };
    for (let tries = 0; ; tries++) {
      const grants = await this.#grants(key, seen, limits, tries);
      const asked = passOver(seen, limits, wants, grants.levels, beganMs, calendar);
      const waitMs = waitByPass(seen, asked, beganMs, calendar);
      const commit = this.#commit(key.bucket, limits, beganMs);
      if (waitMs !== undefined && grants.debits.length === 0) {
        const stamps = item === undefined ? undefined : stampWrite(key, item, limits, commit);
        if (stamps !== undefined) await this.#line.writeThrough(stamps);
        return refusal(waitMs);
      }
      // What was to be moved is moved even for a caller that is refused.
      const pass = waitMs === undefined ? asked : takingNothing(asked);
      const write =
        item === undefined ? createWrite(key, shardCountIn(seen), pass, commit) : normalWrite(key, item, pass, commit);
      const written = await this.#send(write, grants.debits, item);
      if (written.kind === "applied") {
        const quotas = limits.filter(({ reset }) => reset !== undefined);
        if (item === undefined && key.shard > 0 && quotas.length > 0) {
          await repairCreated(this.#line, key, written.item, quotas);
        }
        return waitMs === undefined ? this.#lease(key, written.item, takenOf(pass)) : refusal(waitMs);
      }
      if (grants.debits.length === 0) return this.#takeStored(key, written.item, pass, wants, commit);
    }
  }

  /** After the lock was lost: from what is stored, or not at all. */
  async #takeStored(
    key: ItemKey,
    image: Item | undefined,
    pass: readonly PassLimit[],
    wants: Wants,
    commit: Commit,
  ): Promise<OriginalLease | OriginalRefusal> {
    const write = retryWrite(key, image, pass, commit);
    if (write === undefined) return this.#lease(key, image ?? {}, takenOf(pass));
    const { kind, item } = await this.#line.writeThrough(write);
    if (kind === "applied") return this.#lease(key, item, takenOf(pass));
    const waitMs = item === undefined ? undefined : this.#waitByImage(key.bucket, item, wants);
    return refusal(waitMs === undefined ? CONTENDED_MS : Math.max(1, waitMs));
  }

  async #send(write: ItemWrite, debits: readonly ItemWrite[], before: Item | undefined) {
    if (debits.length === 0) return this.#line.writeThrough(write);
    // A transaction shows no images: the client goes by what it has written.
    const isDone = await this.#line.transact([write, ...debits], this.#id);
    const { after } = outcomeOf(write, before);
    return isDone && after !== undefined
      ? { kind: "applied" as const, item: after }
      : { kind: "failed" as const, item: undefined };
  }

  async #grants(key: ItemKey, seen: Item, limits: readonly Limit[], tries: number): Promise<Grants> {
    const count = shardCountIn(seen);
    const quotas = limits.filter(({ name, reset }) => reset !== undefined && !isOn(seen, name));
    if (count === 1 || quotas.length === 0) return NO_GRANTS;
    if (tries >= MOVES_MAX) return emptyGrants(quotas);
    return planGrants(this.#line, key, quotas, count, this.#options.now(), this.#options.calendar);
  }

  async #sync(
    bucket: BucketKey,
    limits: readonly Limit[],
    given: { readonly ttlS: number | undefined; readonly removesStale: boolean },
  ): Promise<void> {
    const { random } = this.#options;
    const keys = Array.from({ length: SHARDS_MAX }, (_, shard) => ({ bucket, shard }));
    const done = new Set<number>();
    // Shards are looked for twice: one may have been made while the others were written.
    for (let round = 0; round < 2; round++) {
      const items = await this.#line.read(keys, false);
      for (const [shard, item] of items.entries()) {
        if (item === undefined || done.has(shard)) continue;
        done.add(shard);
        const write = syncWrite({ bucket, shard }, item, limits, { ...given, random, nowMs: this.#options.now() });
        await this.#line.writeThrough(write);
      }
    }
  }

  #commit(bucket: BucketKey, limits: readonly Limit[], beganMs: number): Commit {
    const { random, calendar } = this.#options;
    return { beganMs, nowMs: this.#options.now(), random, calendar, ttlS: this.#ttlS(bucket, limits) };
  }

  #ttlS(bucket: BucketKey, limits: readonly Limit[]): number | undefined {
    const { expires, calendar } = this.#options;
    return expires?.(bucket) === true ? expiresAtS(limits, this.#options.now(), calendar) : undefined;
  }

  #waitByImage(bucket: BucketKey, image: Item, wants: Wants): number | undefined {
    return waitByImage(image, wants, this.#limits(bucket), this.#options.now(), this.#options.calendar);
  }

  #limits(bucket: BucketKey): readonly Limit[] {
    const limits = this.#options.resolve(bucket);
    const session = limits.find(({ resetAfterMs }) => resetAfterMs !== undefined);
    if (limits.length === 0) throw new Error(`No limits apply to ${bucket.entityId} on ${bucket.resource}.`);
    if (session !== undefined) throw new Error(`Limit "${session.name}" is a session quota, which is not played here.`);
    return limits;
  }

  #lease(key: ItemKey, item: Item, taken: Wants): OriginalLease {
    const { calendar } = this.#options;
    const now = () => this.#options.now();
    return new OriginalLease(key, item, taken, {
      line: this.#line,
      now,
      calendar,
      limits: () => this.#limits(key.bucket),
    });
  }

  /** Shard 0 says how many there are; another may not have heard yet. */
  #learn({ bucket, shard }: ItemKey, item: Item): void {
    const known = this.#shardCounts.get(bucket.id) ?? 1;
    this.#shardCounts.set(bucket.id, shard === 0 ? shardCountIn(item) : Math.max(known, shardCountIn(item)));
  }

  #randomBelow(count: number): number {
    return count === 1 ? 0 : Math.floor(this.#options.random() * count);
  }
}

const SHARDS_MAX = 32;
const OTHER_SHARDS = 2;
const MOVES_MAX = 2;
const CONTENDED_MS = 100;

function refusal(retryAfterMs: number): OriginalRefusal {
  return { refused: true, retryAfterMs };
}

function takenOf(pass: readonly PassLimit[]): Wants {
  return new Map(pass.flatMap(({ limit, isDeclared, wantMilli }) => (isDeclared ? [[limit.name, wantMilli]] : [])));
}
