import type { Amount } from "../../src/domain/amounts.ts";
import type { Calendar } from "../../src/domain/calendar.ts";
import type { Ticket } from "../../src/domain/give-back.ts";
import type {
  BucketStore,
  CallContext,
  Claim,
  Held,
  Operation as StoreOperation,
  TakeReply,
  WriteReply,
} from "../../src/ports/bucket-store.ts";
import { ModelBucket, type ModelPins } from "../../src/testing/model-bucket.ts";
import { GiveBackWatch } from "./conditional-conservation.ts";
import { type Lending, lent } from "./conditional-lending.ts";
import type { MachineClock } from "./connection.ts";
import type { Journal } from "./journal.ts";
import { type CountedClaim, currentOperation, type Operation, shownKey } from "./operation.ts";
import { PinBook, type Pinned } from "./pin-book.ts";
import { heard, overriding } from "./port.ts";
import { readAnew } from "./ticket-text.ts";

/** What the simulation knows of one process. */
export interface Process {
  readonly id: string;
  readonly clock: MachineClock;
  /** Never cuts more than needed. */
  readonly exact: boolean;
  /** So long it may refuse from memory. */
  readonly denyMs: number;
  /** By how much its clock may be off. */
  errorMaxMs(): number;
  /** Whether it heard the store's time lately; always, where it does not listen. */
  isTimeKnown(): boolean;
  /** The latest that the store's clock can show, as far as it knows; Infinity where it does not listen. */
  latestServerMs(): number;
  /** Whether its line to the store keeps to the time of a call: then so do the calls that are made of them. */
  readonly isTimely: boolean;
  /** Its calls are answered at once. */
  readonly direct: boolean;
  /** Its buckets, without anybody who watches. */
  readonly buckets: BucketStore;
  /** Resolves when it is gone. */
  readonly gone: Promise<void>;
  isAlive(): boolean;
  /** How often something went wrong on its line. */
  faults(): number;
}

/** For whom, and with which reading, the store was asked; by the very object that it was handed. */
export interface Asked {
  readonly process: Process;
  readonly operation: Operation | undefined;
  readonly readingMs: number;
  /** Of a reset. */
  readonly limits: readonly string[] | undefined;
  /** In which periods it was taken, on each shard. */
  readonly pins: ModelPins[];
  /** Shards and nonces by which its writes are known. */
  readonly nonces: Set<string>;
  /** Whether an operation of its key was applied for it. */
  applied: boolean;
  /** Whether it was answered. */
  isOver: boolean;
  /** Of a give-back. */
  giving?: GiveBackWatch;
  /** Of a claim. */
  counted?: CountedClaim;
  /** How often its bucket had been removed. */
  removals?: number;
  /** How often something had gone wrong when a late answer told that it was taken. */
  faultsWhenLate?: number;
  /** How many late answers told that it landed. */
  heardLate?: number;
  /** The answer to a write that gave it back was lost. */
  isBackLost?: boolean;
}

/** What the calls have to know of the buckets. */
export interface Buckets {
  /** The models of all shards of a bucket; none when there is none. */
  shardsOf(bucketId: string): readonly ModelBucket[];
  /** How often the bucket was removed. */
  removals(bucketId: string): number;
  readonly calendar: Calendar;
}

/** A take that has not been answered yet. */
interface Open {
  readonly process: Process;
  readonly claims: readonly Claim[];
  readonly readingMs: number;
  /** By how much its clock had been put back when it began. */
  readonly steppedBackMs: number;
  /** At some moment since it began, not all of it fitted, or nobody can say. */
  wasShort: boolean;
}

/** Notes whom every call of a bucket store serves, and what its callers are told. What is applied shows at the table. */
export class ConditionalCalls {
  readonly #journal: Journal;
  /** The true time. */
  readonly #nowMs: () => number;
  readonly #buckets: Buckets;
  readonly #lending: Lending;
  readonly #asked = new WeakMap<object, Asked>();
  /** By the amounts of a claim, and its bucket. */
  readonly #claims = new WeakMap<object, Map<string, Asked>>();
  readonly #pins = new PinBook();
  readonly #open = new Set<Open>();
  /** Debits that have not been answered yet. */
  readonly #debits = new Set<{ readonly process: Process; readonly bucketId: string }>();
  readonly #repairs = new Map<string, number>();
  /** When each bucket was last written, in true time. */
  readonly #movedMs = new Map<string, number>();
  /** Every claim that was ever sent. */
  readonly #requests: Asked[] = [];
  /** Give-backs that have not been answered yet, by bucket. */
  readonly #givings = new Map<string, Set<GiveBackWatch>>();

  constructor(journal: Journal, nowMs: () => number, buckets: Buckets, lending: Lending) {
    this.#journal = journal;
    this.#nowMs = nowMs;
    this.#buckets = buckets;
    this.#lending = lending;
  }

  of(object: object): Asked | undefined {
    return this.#asked.get(object) ?? this.#yielded(object);
  }

  /** A request of several levels may give one of them back before it is answered: that is known by what it took there. */
  #yielded(object: Partial<Claim>): Asked | undefined {
    return this.#claims.get(object.take ?? NOTHING)?.get(object.bucket?.id ?? "");
  }

  /** The claim that a write is for, or takes back: only what a request took that was not granted is given back by its claim. */
  countedFor(of: object): CountedClaim | undefined {
    return this.#yielded(of)?.counted;
  }

  /** A late answer told that this was taken. */
  landedLate(of: object): void {
    const asked = this.#yielded(of);
    if (asked === undefined) return;
    asked.faultsWhenLate ??= asked.process.faults();
    asked.heardLate = (asked.heardLate ?? 0) + 1;
  }

  /** Whether it was given back is not known, whichever process did it. */
  lostBack(of: object): void {
    const asked = this.#yielded(of);
    if (asked !== undefined) asked.isBackLost = true;
  }

  /** A process told that it gave up giving back to a bucket: the store had not taken it for so long. */
  gaveUp(processId: string, { entityId, resource }: { readonly entityId: string; readonly resource: string }): void {
    for (const asked of this.#requests) {
      const { bucket } = asked.counted?.of ?? {};
      if (asked.process.id !== processId || bucket?.entityId !== entityId || bucket.resource !== resource) continue;
      asked.isBackLost = true;
    }
  }

  /** Takes of which a late answer told that they landed, for nobody, and that were not given back. */
  lateProblems(): string[] {
    return this.#requests.flatMap(
      ({ counted, process, operation, removals, faultsWhenLate, heardLate = 0, isBackLost }) => {
        if (counted === undefined || faultsWhenLate === undefined || counted.isGranted) return [];
        // Where something else goes wrong, it is given up in the end.
        if (isBackLost || process.faults() !== faultsWhenLate) return [];
        // Of two sendings that both landed, as another process took the nonce's slot, one may never be heard of.
        if (!process.isAlive() || Math.min(heardLate, counted.overdrafts.length) <= counted.undone) return [];
        const { id } = counted.of.bucket;
        if (removals !== this.#buckets.removals(id)) return [];
        return [`${operation?.name} took from ${shownKey(id)} for nobody, as it heard late, and never gave it back`];
      },
    );
  }

  /** In which periods of a limit something was taken that is given back now; none, of what drips. */
  pinsOf(held: Held, limit: string): readonly Pinned[] {
    const told = this.#pins.of(held.bucket.id, held.ticket, limit);
    if (told.length > 0) return told;
    // A level that is given back before its request is answered.
    const times = this.#times(held.bucket.id);
    const periods = this.#yielded(held)?.pins.flatMap((pins) => pins.get(limit) ?? []) ?? [];
    return periods.map((period) => ({ period, ...times }));
  }

  /** Whether the bucket is the one that something was taken from then. */
  isSince(bucketId: string, { removals }: Pinned): boolean {
    return removals === this.#buckets.removals(bucketId);
  }

  #times(bucketId: string): Pick<Pinned, "repairs" | "removals"> {
    return { repairs: this.repairsOf(bucketId), removals: this.#buckets.removals(bucketId) };
  }

  /** An epoch of the bucket was set back: what was taken before belongs to a time that comes once more. */
  repaired(bucketId: string): void {
    this.#repairs.set(bucketId, this.repairsOf(bucketId) + 1);
  }

  repairsOf(bucketId: string): number {
    return this.#repairs.get(bucketId) ?? 0;
  }

  /** A bucket stands differently from now on. */
  moved(bucketId: string): void {
    this.#movedMs.set(bucketId, this.#nowMs());
    for (const watch of this.#givings.get(bucketId) ?? []) watch.look();
    for (const open of this.#open) {
      if (!open.wasShort && open.claims.some(({ bucket }) => bucket.id === bucketId)) {
        open.wasShort = !this.#allFit(open.claims, open.readingMs);
      }
    }
  }

  watched(store: BucketStore, process: Process): BucketStore {
    this.#lending.add(process);
    return overriding(store, {
      take: (claims, context) => {
        const asked = claims.map((claim) => this.#noteClaim(claim, process, context.nowMs));
        const open = this.#opened(process, claims, context);
        const reply = store.take(claims, context);
        const over = () => {
          this.#open.delete(open);
          for (const one of asked) one.isOver = true;
        };
        if (reply instanceof Promise) void reply.then(over, over);
        return heard(reply, (told) => this.#took(open, asked, told));
      },
      debit: (held, amounts, context) => {
        const asked = this.#note(held, process, context.nowMs, undefined);
        const debit = { process, bucketId: held.bucket.id };
        this.#debits.add(debit);
        const answer = store.debit(held, amounts, context);
        const over = () => {
          this.#debits.delete(debit);
          asked.isOver = true;
        };
        if (answer instanceof Promise) void answer.then(over, over);
        else over();
        return heard(answer, (reply) => {
          if (reply.kind === "applied") this.#ticketed(held, asked, reply.ticket);
        });
      },
      credit: (given, amounts, context) => {
        // As another process reads it with the record of the lease.
        const held = readAnew(given);
        const giver = this.#lending.giverFor(process);
        const asked = this.#note(held, giver, giver === process ? context.nowMs : giver.clock.now(), undefined);
        if (giver !== process) this.#journal.count("give-backs by another process");
        // What this one remembers of the bucket, it remembers.
        if (giver !== process && asked.operation !== undefined) asked.operation.faults++;
        const { id } = held.bucket;
        const before = this.#buckets.shardsOf(id).length === 0 ? undefined : this.#buckets.removals(id);
        const watch = this.#giving(id, amounts, asked.readingMs);
        asked.giving = watch;
        const answer = giver === process ? store.credit(held, amounts, context) : lent(giver, held, amounts, context);
        const over = () => this.#givings.get(id)?.delete(watch);
        if (answer instanceof Promise) void answer.then(over, over);
        return heard(answer, (reply) => {
          this.#credited(held, asked, reply, before);
          if (reply.kind !== "applied" || held.bypass) return;
          for (const problem of watch.problems()) this.#journal.violation(`${shownKey(id)}: ${problem}`);
        });
      },
      topUp: (operation, amounts) =>
        this.#operated(operation, process, undefined, () => store.topUp(operation, amounts)),
      reset: (operation, limits) => this.#operated(operation, process, limits, () => store.reset(operation, limits)),
    });
  }

  #giving(bucketId: string, amounts: readonly Amount[], readingMs: number): GiveBackWatch {
    const watch = new GiveBackWatch(amounts, readingMs, () => this.#buckets.shardsOf(bucketId));
    this.#givings.set(bucketId, (this.#givings.get(bucketId) ?? new Set()).add(watch));
    return watch;
  }

  #noteClaim(claim: Claim, process: Process, readingMs: number): Asked {
    const asked = this.#note(claim, process, readingMs, undefined);
    asked.counted = { of: claim, overdrafts: [], undone: 0, isGranted: false };
    this.#requests.push(asked);
    asked.removals = this.#buckets.removals(claim.bucket.id);
    asked.operation?.counted.push(asked.counted);
    const byBucket = this.#claims.get(claim.take) ?? new Map<string, Asked>();
    this.#claims.set(claim.take, byBucket.set(claim.bucket.id, asked));
    return asked;
  }

  #note(of: object, process: Process, readingMs: number, limits: readonly string[] | undefined): Asked {
    const asked: Asked = {
      process,
      operation: currentOperation(),
      readingMs,
      limits,
      pins: [],
      nonces: new Set(),
      applied: false,
      isOver: false,
    };
    this.#asked.set(of, asked);
    return asked;
  }

  #opened(process: Process, claims: readonly Claim[], { nowMs }: CallContext): Open {
    // Whoever waits for another of its process may be refused by what that one saw, before this one began.
    const isAbout = (bucketId: string) => claims.some((claim) => claim.bucket.id === bucketId);
    const before =
      [...this.#debits].some((debit) => debit.process === process && isAbout(debit.bucketId)) ||
      [...this.#open].some(
        (other) => other.process === process && other.claims.some(({ bucket }) => isAbout(bucket.id)),
      );
    // Claims that leave together go by the latest of their readings, and by then another window may have begun.
    const hasWindows = claims.some(({ set }) => set.limits.some(({ schedule }) => schedule !== undefined));
    // And one that has not heard from the store for long reads its clock again.
    const isUnsure = before || hasWindows || !process.isTimeKnown();
    // A reading from before its clock was corrected counts as the latest that can be.
    const readingMs = Math.min(nowMs, process.latestServerMs());
    const { steppedBackMs } = process.clock;
    const wasShort = isUnsure || !this.#allFit(claims, readingMs);
    const open = { process, claims, readingMs, steppedBackMs, wasShort };
    this.#open.add(open);
    return open;
  }

  #took(open: Open, asked: readonly Asked[], reply: TakeReply): void {
    if (reply === "stale") return;
    const { claims, process } = open;
    if (reply.every(({ kind }) => kind === "taken")) {
      for (const { counted } of asked) if (counted !== undefined) counted.isGranted = true;
    }
    // A level that could not be looked at, or is told as it was seen before: the wait may be wrong, and the refusal says so.
    const unsure = reply.some((answer) => answer.kind === "unseen" || "seenAtMs" in answer);
    for (const [i, answer] of reply.entries()) {
      this.#journal.count(`claims ${answer.kind}`);
      if (answer.kind === "taken") this.#ticketed(claims[i] as Claim, asked[i] as Asked, answer.ticket);
      if (answer.kind === "contended")
        for (const { operation } of asked) if (operation !== undefined) operation.faults++;
    }
    const [operation] = asked.map((one) => one.operation);
    if (unsure && operation !== undefined) operation.faults++;
    // Nobody is short of anything where all were aborted.
    const isRefused =
      reply.some(({ kind }) => kind === "short") &&
      reply.every(({ kind }) => kind === "short" || kind === "skipped" || kind === "unseen");
    if (!isRefused || open.wasShort || (process.denyMs > 0 && !this.#isStill(open))) return;
    // Corrected while it asked, it counts as having asked earlier.
    process.clock.now();
    if (process.clock.steppedBackMs !== open.steppedBackMs) return;
    const shown = claims.map(
      ({ bucket, take }, i) => `${shownKey(bucket.id)} ${reply[i]?.kind} ${JSON.stringify(take)}`,
    );
    this.#journal.violation(`refused although everything fits all the time: ${shown.join(", ")}`);
  }

  /** Whether nothing happened to the buckets for longer than a process remembers them, and all of it fitted all the time. */
  #isStill({ process, claims, readingMs }: Open): boolean {
    const ageMs = Math.ceil(process.denyMs * (1 + DRIFT)) + LATE_MAX_MS;
    const sinceMs = this.#nowMs() - ageMs;
    const isStill = claims.every(({ bucket }) => (this.#movedMs.get(bucket.id) ?? Number.NEGATIVE_INFINITY) < sinceMs);
    return isStill && this.#allFit(claims, readingMs - ageMs);
  }

  #ticketed({ bucket, bypass }: Claim | Held, { pins }: Asked, ticket: Ticket | undefined): void {
    if (bypass) return;
    for (const one of pins) {
      const problems = this.#pins.note(bucket.id, ticket, one, this.#times(bucket.id));
      for (const problem of problems) this.#journal.violation(`${shownKey(bucket.id)}: ${problem}`);
    }
  }

  #credited(held: Held, { operation }: Asked, reply: WriteReply, before: number | undefined): void {
    const removals = this.#buckets.removals(held.bucket.id);
    // Shards may be deleted one after the other while it goes from one to the next.
    const isRemoved = before !== undefined && before !== removals;
    if (reply.kind === "gone" || isRemoved) operation?.gone.add(held.bucket.id);
    if (reply.kind !== "gone") return;
    this.#journal.count("give-backs to what is gone");
    if (before === removals) {
      this.#journal.violation(`${shownKey(held.bucket.id)} is gone for a give-back`);
    }
  }

  async #operated(
    of: StoreOperation,
    process: Process,
    limits: readonly string[] | undefined,
    act: () => ReturnType<BucketStore["topUp"]>,
  ): ReturnType<BucketStore["topUp"]> extends infer Reply ? Promise<Awaited<Reply>> : never {
    const asked = this.#note(of, process, of.nowMs, limits);
    const reply = await act();
    const isDone = reply.kind === "done" && !reply.repeated;
    const done = isDone ? of.event.action : reply.repeated ? "repeated" : "too large";
    this.#journal.count(`operations ${done}`);
    if (isDone !== asked.applied) {
      this.#journal.violation(`an operation was ${asked.applied ? "" : "not "}applied, but told otherwise`);
    }
    return reply;
  }

  #allFit(claims: readonly Claim[], readingMs: number): boolean {
    return claims.every(({ bucket, set, origin, take, bypass }) => {
      if (bypass) return true;
      const shards = this.#buckets.shardsOf(bucket.id);
      if (shards.length === 0) {
        return new ModelBucket(set, origin, readingMs, this.#buckets.calendar).surelyFits(take, readingMs);
      }
      const isKnown = shards.every((model) => readingMs < model.nextBoundaryMs && goesBy(model, set.limits));
      if (!isKnown) return false;
      return take.every(({ limit, milli }) => {
        const levels = shards.map((model) => model.limit(limit)?.levelMilli(readingMs) ?? 0n);
        if (shards[0]?.limit(limit)?.limit.soft) return true;
        // What one owes the others do not pay in thought; rounding is a millitoken each.
        if (levels.some((level) => level < 0n)) return false;
        return levels.reduce((sum, level) => sum + level, 0n) >= BigInt(milli + 2 * shards.length);
      });
    });
  }
}

function goesBy(model: ModelBucket, limits: readonly { readonly name: string }[]): boolean {
  return limits.every((limit) => JSON.stringify(model.limit(limit.name)?.limit) === JSON.stringify(limit));
}

const NOTHING = Object.freeze({});

/** Of clocks, with room to spare. */
const DRIFT = 0.001;

/** A call that was sent within the time has at least a millisecond, and a clock shows whole ones. */
const LATE_MAX_MS = 3;
