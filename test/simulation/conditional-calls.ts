import type { Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type {
  BucketStore,
  Claim,
  Held,
  Operation as StoreOperation,
  TakenAnswer,
  TakeReply,
  WriteReply,
} from "../../src/ports/bucket-store.ts";
import type { ModelPins } from "../kit/model-bucket.ts";
import { GiveBackWatch } from "./conditional-conservation.ts";
import { Deadlines } from "./conditional-deadlines.ts";
import { type Lending, lent } from "./conditional-lending.ts";
import type { Buckets, Process } from "./conditional-process.ts";
import { RefundWatch } from "./conditional-refunds.ts";
import { type Open, RefusalWatch } from "./conditional-refusals.ts";
import { ConditionalSlots, lastingProblems } from "./conditional-slots.ts";
import type { Journal } from "./journal.ts";
import { type CountedClaim, currentOperation, type Operation, shownKey } from "./operation.ts";
import { PinBook, type Pinned } from "./pin-book.ts";
import { heard, overriding } from "./port.ts";
import type { ShadowWatch } from "./shadow-watch.ts";
import { endsIn } from "./slot-records.ts";
import { readAnew } from "./ticket-text.ts";

/** In which periods of its limits something was taken, and how often the bucket had been removed when that was applied. */
interface PinnedOn {
  readonly pins: ModelPins;
  readonly removals: number;
}

/** For whom, and with which reading, the store was asked; by the very object that it was handed. */
export interface Asked {
  readonly process: Process;
  readonly operation: Operation | undefined;
  readonly readingMs: number;
  /** Of a reset. */
  readonly limits: readonly string[] | undefined;
  /** In which periods it was taken, on each shard. */
  readonly pins: PinnedOn[];
  /** In which periods it had been taken before it yielded to other levels: that is given back, and no ticket says anything of it. */
  readonly undone: PinnedOn[];
  /** Whether an operation of its key was applied for it. */
  applied: boolean;
  /** Of a give-back. */
  giving?: GiveBackWatch;
  /** Of a give-back without a lease. */
  refund?: RefundWatch;
  /** Of a claim. */
  counted?: CountedClaim;
  /** The shadows that it passed by when it last landed. */
  passed?: readonly string[];
  /** Books what its last take used, once the request is granted: what is undone has reached nothing. */
  use?: () => void;
  /** How often its bucket had been removed. */
  removals?: number;
  /** How often something had gone wrong when a late answer told that it was taken. */
  faultsWhenLate?: number;
  /** How many late answers told that it landed. */
  heardLate?: number;
  /** Of a give-back: slots that come back were used. */
  slotsUsed?: boolean;
  /** The answer to a write that gave it back was lost. */
  isBackLost?: boolean;
}

/** Notes whom every call of a bucket store serves, and what its callers are told. What is applied shows at the table. */
export class ConditionalCalls {
  readonly #journal: Journal;
  readonly #buckets: Buckets;
  readonly #lending: Lending;
  readonly #shadows: ShadowWatch;
  readonly #asked = new WeakMap<object, Asked>();
  /** By the amounts of a claim, and its bucket. */
  readonly #claims = new WeakMap<object, Map<string, Asked>>();
  readonly #pins = new PinBook();
  readonly slots: ConditionalSlots;
  readonly #refusals: RefusalWatch;
  readonly #deadlines: Deadlines;
  /** Every claim that was ever sent. */
  readonly #requests: Asked[] = [];
  /** Give-backs that have not been answered yet, by bucket. */
  readonly #givings = new Map<string, Set<GiveBackWatch>>();
  /** The same of those without a lease. */
  readonly #refunds = new Map<string, Set<RefundWatch>>();

  constructor(journal: Journal, nowMs: () => number, buckets: Buckets, lending: Lending, shadows: ShadowWatch) {
    this.#journal = journal;
    this.slots = new ConditionalSlots(journal);
    this.#refusals = new RefusalWatch(journal, nowMs, buckets);
    this.#deadlines = new Deadlines(journal, nowMs);
    this.#buckets = buckets;
    this.#lending = lending;
    this.#shadows = shadows;
  }

  of(object: object): Asked | undefined {
    return this.#asked.get(object) ?? refundOf(object) ?? this.#yielded(object);
  }

  /** A request of several levels may give one of them back before it is answered: that is known by what it took there. */
  #yielded(object: Partial<Claim & Held>): Asked | undefined {
    const { take = NOTHING, bucket, ticket } = object;
    const known = this.#claims.get(take)?.get(bucket?.id ?? "");
    if (known !== undefined || !Array.isArray(take) || (ticket?.shadowed.length ?? 0) === 0) return known;
    // What passed by a shadow is not among what it took: of two alike, it is that of who gives it back.
    const alike = this.#requests.filter(({ counted }) => isOf(counted, object as Claim & Held));
    const operation = this.#asked.get(object)?.operation ?? currentOperation();
    const found = alike.findLast((one) => one.operation === operation) ?? alike.at(-1);
    if (found !== undefined) this.#claims.set(take, new Map([[found.counted?.of.bucket.id ?? "", found]]));
    return found;
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

  /** A level was given back by its claim: what is taken for it afterwards is another time. */
  yieldedBack(of: object): void {
    const asked = this.#asked.has(of) ? undefined : this.#yielded(of);
    asked?.undone.push(...asked.pins.splice(0));
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
    const { pins: landed = [], undone = [] } = this.#yielded(held) ?? {};
    return [...landed, ...undone].flatMap(({ pins, removals }) => {
      const period = pins.get(limit);
      return period === undefined ? [] : [{ period, removals }];
    });
  }

  /** Whether limits that were read then were sent to a bucket: of those that leave together, the latest reading counts for all. */
  hasRead(bucketId: string, asOfMs: number): boolean {
    return this.#requests.some(({ counted }) => {
      const { bucket, origin } = counted?.of ?? {};
      return bucket?.id === bucketId && origin?.asOfMs === asOfMs;
    });
  }

  /** Whether the bucket is the one that something was taken from then. */
  isSince(bucketId: string, { removals }: Pinned): boolean {
    return removals === this.#buckets.removals(bucketId);
  }

  /** What was asked for was applied, in these periods of its limits. */
  pinned(asked: Asked | undefined, bucketId: string, pins: ModelPins): void {
    asked?.pins.push({ pins, removals: this.#buckets.removals(bucketId) });
  }

  /** A bucket stands differently from now on. */
  moved(bucketId: string): void {
    for (const watch of this.#givings.get(bucketId) ?? []) watch.look();
    for (const watch of this.#refunds.get(bucketId) ?? []) watch.moved();
    this.#refusals.moved(bucketId);
  }

  watched(store: BucketStore, process: Process): BucketStore {
    this.#lending.add(process);
    return overriding(store, {
      take: (claims, context) => {
        const asked = claims.map((claim) => this.#noteClaim(claim, process, context.nowMs));
        const open = this.#refusals.opened(process, claims, context);
        const reply = this.#deadlines.watched("take", process, context, store.take(claims, context));
        const over = () => this.#refusals.over(open);
        if (reply instanceof Promise) void reply.then(over, over);
        return heard(reply, (told) => this.#took(open, asked, told));
      },
      debit: (held, amounts, context) => {
        const asked = this.#note(held, process, context.nowMs, undefined);
        const over = this.#refusals.debiting(process, held.bucket.id);
        const answer = this.#deadlines.watched("debit", process, context, store.debit(held, amounts, context));
        if (answer instanceof Promise) void answer.then(over, over);
        else over();
        return heard(answer, (reply) => {
          if (reply.kind !== "applied") return;
          this.#ticketed(held, asked, reply.ticket);
          if (!held.bypass && reply.ticket !== undefined) this.slots.heard(held.bucket.id, reply.ticket, amounts);
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
        asked.slotsUsed = context.slotsUsed === true;
        if (!held.bypass) this.slots.gone(held.bucket.id, held.ticket, amounts);
        const { id } = held.bucket;
        const before = this.#buckets.shardsOf(id).length === 0 ? undefined : this.#buckets.removals(id);
        const watch = this.#giving(id, amounts, asked.readingMs);
        asked.giving = watch;
        const taking = giver === process ? store.credit(held, amounts, context) : lent(giver, held, amounts, context);
        const answer = this.#deadlines.watched("give-back", giver, context, taking);
        const over = () => this.#givings.get(id)?.delete(watch);
        if (answer instanceof Promise) void answer.then(over, over);
        return heard(answer, (reply) => {
          this.#credited(held, asked, reply, before);
          if (reply.kind !== "applied" || held.bypass) return;
          for (const problem of watch.problems()) this.#journal.violation(`${shownKey(id)}: ${problem}`);
        });
      },
      refund: (of, amounts, context) => {
        const { id } = of.bucket;
        const asked = this.#note(of, process, context.nowMs, undefined);
        const watch = new RefundWatch(of, amounts, context.nowMs, () => this.#buckets.shardsOf(id));
        asked.refund = watch;
        this.#refunds.set(id, (this.#refunds.get(id) ?? new Set()).add(watch));
        const before = this.#buckets.shardsOf(id).length === 0 ? undefined : this.#buckets.removals(id);
        // The store makes an object of its own of what it is asked for; what is on it comes with it.
        const marked = { ...of, [ASKED]: asked };
        const answer = this.#deadlines.watched("refund", process, context, store.refund(marked, amounts, context));
        const over = () => this.#refunds.get(id)?.delete(watch);
        if (answer instanceof Promise) void answer.then(over, over);
        return heard(answer, (reply) => {
          this.#journal.count(`refunds ${reply.kind}`);
          if (reply.kind === "gone" && before !== undefined && before === this.#buckets.removals(id)) {
            this.#journal.violation(`${shownKey(id)} is gone for a refund`);
          }
          for (const problem of watch.problems(reply)) this.#journal.violation(`${shownKey(id)}: ${problem}`);
        });
      },
      renew: (given, amounts, context) => {
        const held = readAnew(given);
        const asked = this.#note(held, process, context.nowMs, undefined);
        const answer = this.#deadlines.watched("renewal", process, context, store.renew(held, amounts, context));
        return heard(answer, (reply) => {
          this.#journal.count(`renewals ${reply.kind}`);
          if (reply.kind === "renewed") this.#renewed(held, amounts, asked, reply.ticket);
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
      undone: [],
      applied: false,
    };
    this.#asked.set(of, asked);
    return asked;
  }

  #took(open: Open, asked: readonly Asked[], reply: TakeReply): void {
    if (reply === "stale") return;
    const { claims } = open;
    if (reply.every(({ kind }) => kind === "taken")) {
      for (const { counted, use } of asked) {
        if (counted !== undefined) counted.isGranted = true;
        use?.();
      }
    }
    // A level that could not be looked at, or is told as it was seen before: the wait may be wrong, and the refusal says so.
    const unsure = reply.some((answer) => answer.kind === "unseen" || "seenAtMs" in answer);
    for (const [i, answer] of reply.entries()) {
      this.#journal.count(`claims ${answer.kind}`);
      if (answer.kind === "taken") this.#granted(claims[i] as Claim, asked[i] as Asked, answer);
      if (answer.kind === "contended")
        for (const { operation } of asked) if (operation !== undefined) operation.faults++;
    }
    const [operation] = asked.map((one) => one.operation);
    if (unsure && operation !== undefined) operation.faults++;
    this.#refusals.answered(open, reply);
  }

  /** What its caller is told to have passed by: what it did. After a lost answer it may be more, and never less: it would be given back. */
  #passed(claim: Claim, { operation, counted, passed = [] }: Asked, answer: TakenAnswer): void {
    this.#shadows.told(claim, answer, operation);
    const told = answer.shadowed;
    const { id } = claim.bucket;
    if (told.length !== passed.length && counted?.isLost === true) operation?.uncertain.add(id);
    const isRight = passed.every((name) => told.includes(name)) && (counted?.isLost || told.length === passed.length);
    if (isRight || operation?.uncertain.has(id)) return;
    this.#journal.violation(`${shownKey(id)}: told to have passed by [${told}], and it was [${passed}]`);
  }

  #granted(claim: Claim, asked: Asked, answer: TakenAnswer): void {
    this.#ticketed(claim, asked, answer.ticket);
    const { id } = claim.bucket;
    for (const problem of lastingProblems(claim, asked, answer)) this.#journal.violation(`${shownKey(id)}: ${problem}`);
    this.#passed(claim, asked, answer);
    if (!claim.bypass) this.slots.heard(id, answer.ticket, claim.take);
  }

  #renewed(held: Held, amounts: readonly Amount[], { pins, process }: Asked, ticket: Ticket): void {
    const { id } = held.bucket;
    for (const one of pins) {
      const problems = this.#pins.note(id, ticket, one.pins, one.removals);
      for (const problem of problems) this.#journal.violation(`${shownKey(id)}: ${problem}`);
    }
    if (pins.length === 0)
      this.#journal.violation(`${process.id} was told of a renewal of ${shownKey(id)} that was not made`);
    const [before, after] = [endsIn(held.ticket), endsIn(ticket)];
    for (const [limit, endMs] of before) {
      // Of several limits some may have ended before, and are not renewed.
      if (!amounts.some((amount) => amount.limit === limit)) continue;
      if ((after.get(limit) ?? 0) >= endMs || held.ticket.pins.filter((pin) => pin.limit === limit).length > 1)
        continue;
      this.#journal.violation(`a renewal shortened a hold of ${limit} on ${shownKey(id)}`);
    }
    this.slots.gone(id, held.ticket, amounts);
    this.slots.heard(id, ticket, amounts);
  }

  #ticketed({ bucket, bypass }: Claim | Held, { pins, counted }: Asked, ticket: Ticket | undefined): void {
    if (bypass) return;
    // After a lost answer it may have landed twice, where another process took the nonce's slot: the ticket is of the later take, and of a limit
    // that was a quota only before that it says nothing.
    const last = counted?.isLost === true ? pins.at(-1)?.pins : undefined;
    for (const one of pins) {
      const own = last === undefined ? one.pins : new Map([...one.pins].filter(([limit]) => last.has(limit)));
      const problems = this.#pins.note(bucket.id, ticket, own, one.removals);
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
}

const NOTHING = Object.freeze({});

/** Under which a give-back without a lease says whose it is. */
const ASKED = Symbol("asked");

function refundOf(object: { readonly [ASKED]?: Asked }): Asked | undefined {
  return object[ASKED];
}

/** Whether a level that is given back is that of a claim which passed by shadows: known by the very amounts that it took, and its limits. */
function isOf(counted: CountedClaim | undefined, { bucket, set, origin, take, ticket }: Claim & Held): boolean {
  if (counted === undefined || counted.isGranted || counted.overdrafts.length <= counted.undone) return false;
  const { of } = counted;
  if (of.bucket.id !== bucket.id || of.set !== set || of.origin !== origin) return false;
  const isTaken = (limit: string) => !ticket.shadowed.includes(limit);
  return of.take.filter(({ limit }) => isTaken(limit)).every((amount, i) => amount === take[i]);
}
