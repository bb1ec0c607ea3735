import { type BucketKey, TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import type { BucketState } from "../../src/domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { LevelConfig } from "../../src/domain/config/config.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import type { LimitedBucket } from "../../src/domain/limits/limit-set.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type {
  Answer,
  BucketStore,
  BucketsMaybeInPlace,
  CallContext,
  Claim,
  CreditContext,
  Held,
  MaybePromise,
  OperationReply,
  RenewReply,
  Operation as StoreOperation,
  TakeContext,
  TakenAnswer,
  TakeReply,
  WriteReply,
} from "../../src/ports/bucket-store.ts";
import type { ScopedStore, Store } from "../../src/ports/store.ts";
import { ModelBucket, type ModelPeriod, type ModelPins } from "../kit/model-bucket.ts";
import { isSamePeriod } from "../kit/model-period.ts";
import { takenOf } from "../kit/model-shadow.ts";
import { type ConfigWatch, resolvedProblems, watchedConfig } from "./config-watch.ts";
import { Forgotten } from "./forgotten.ts";
import type { Journal } from "./journal.ts";
import { type Brought, MetChanges } from "./met-changes.ts";
import { belowFloor, kindIn, overdrawnIn } from "./model-questions.ts";
import type { MostLedger } from "./most-ledger.ts";
import { currentOperation, type Operation, shownKey } from "./operation.ts";
import { PinBook } from "./pin-book.ts";
import { atOnce, overriding } from "./port.ts";
import { Purchases } from "./purchases.ts";
import { OpenRefund, periodsOf } from "./refund-records.ts";
import { ShadowWatch } from "./shadow-watch.ts";
import { endsIn, SlotRecords, type SlotsBefore, slotsBefore, toldEndProblems, uncountedOf } from "./slot-records.ts";
import type { ThresholdLedger } from "./threshold-ledger.ts";
import type { Readings, Truth } from "./truth.ts";
import { type LateReadings, UsageLedger } from "./usage-ledger.ts";

/** A call that is at the store just now. */
interface Call {
  readonly operation: Operation | undefined;
  readonly context: CallContext;
  /** Buckets of which it is certain that they did not exist when the call was made. */
  readonly absent: ReadonlySet<string>;
  /** How many changes of configuration were made before it. */
  readonly rank: number;
  /** It was taken by the shortest way, which leaves the time of the bucket alone. */
  readonly isShortest?: true;
}

/** How marks of what was told get into a store: in the transaction of the take, or by a write beside it. */
export type Marking = "with the take" | "beside the take";

interface Manners {
  readonly late: LateReadings;
  readonly marks: Marking;
}

/** The true time, and by how much clocks may differ by now. */
interface Times {
  readonly calendar: Calendar;
  readonly nowMs: () => number;
  readonly errorMs: () => number;
}

/** Where it is written down. */
interface Books {
  readonly journal: Journal;
  readonly truth: Truth;
  readonly mosts: MostLedger;
  readonly thresholds: ThresholdLedger;
}

/**
 * Stands directly before the store and knows what was really applied, whatever the clients hear of it. Every applied write
 * goes to the model too, and model and store are compared after each.
 */
export class Recorder {
  readonly usage: UsageLedger;
  /** Calls that the store has not answered yet. */
  underWay = 0;
  /** Grows with everything that can lower a level or move a limit. */
  disturbances = 0;
  readonly #journal: Journal;
  readonly #truth: Truth;
  readonly #mosts: MostLedger;
  readonly #thresholds: ThresholdLedger;
  readonly #marks: Marking;
  readonly #calendar: Calendar;
  /** Buckets that calls under way are about. */
  readonly #touched = new Set<string>();
  /** Those that were made since no call was under way. */
  readonly #made = new Set<string>();
  readonly #buckets = new Map<string, { readonly key: BucketKey; readonly model: ModelBucket }>();
  readonly #purchases = new Purchases();
  readonly #forgotten: Forgotten;
  readonly #shadows: ShadowWatch;
  /** The last write that went by the limits of a lease: what is changed of stored limits counts from it on at the earliest. */
  readonly #heldMs = new WeakMap<ModelBucket, number>();
  #deletions = 0;
  /** Calls of which nobody knows how far they came, by bucket. */
  readonly #perhapsBrought = new Map<string, readonly { readonly held: LimitedBucket; readonly nowMs: number }[]>();
  /** Readings of takes under way by the limits of a lease, by bucket: a store may meet what is due before it takes. */
  readonly #meetingMs = new Map<string, readonly number[]>();
  /** In which periods something was taken, by the ticket that was given for it. */
  readonly #pins = new PinBook();
  readonly #slots: SlotRecords;
  /** Refunds that have not been answered yet. */
  readonly #refunds = new Set<OpenRefund>();
  readonly #changes: MetChanges;
  readonly #nowMs: () => number;
  readonly #errorMs: () => number;

  constructor(
    { journal, truth, mosts, thresholds }: Books,
    { calendar, nowMs, errorMs }: Times,
    { late, marks }: Manners,
  ) {
    this.#thresholds = thresholds;
    this.#marks = marks;
    this.usage = new UsageLedger(FILE_RETENTION.usageKeepMs ?? 0, late);
    this.#mosts = mosts;
    this.#journal = journal;
    this.#forgotten = new Forgotten(journal);
    this.#shadows = new ShadowWatch(journal);
    this.#truth = truth;
    this.#errorMs = errorMs;
    this.#nowMs = nowMs;
    this.#changes = new MetChanges(truth, journal, () => this.#nowMs() + this.#errorMs());
    this.#calendar = calendar;
    this.#slots = new SlotRecords({
      ...{ journal, usage: this.usage },
      periodOf: ({ id }, pin) => this.#pins.of(id, { ...PLAIN_TICKET, pins: [pin] }, pin.limit).at(-1)?.period,
    });
  }

  /** The store, with everything that passes through it written down. */
  recording(store: Store): Store {
    return overriding(store, { scope: (namespaceId) => this.#scope(store.scope(namespaceId)) });
  }

  #scope(scope: ScopedStore): ScopedStore {
    const watch: ConfigWatch = {
      truth: this.#truth,
      after: (reply, tell) => this.#after(reply, tell),
      resolved: (entityId, resource, found) => this.#resolved(entityId, resource, found),
      deleted: (entityId) => this.#deleted(entityId),
    };
    return { ...scope, ...watchedConfig(scope, watch), buckets: this.#recorded(scope.buckets) };
  }

  #recorded(store: BucketsMaybeInPlace): BucketStore {
    const takeSync = store.takeSync?.bind(store);
    const takeOne = store.takeOne?.bind(store);
    return overriding(store, {
      take: (claims, context) => {
        const call = this.#begun(store, claims, context);
        const isByLease = context.generation === undefined || context.limitsOf === "lease";
        const answered = isByLease ? this.#meeting(claims, context.nowMs) : () => {};
        return this.#after(
          store.take(claims, context),
          (reply) => {
            answered();
            this.#took(store, call, claims, reply);
          },
          () => {
            answered();
            this.#unheard(call, claims);
          },
        );
      },
      ...(takeSync === undefined
        ? {}
        : {
            takeSync: (claims: readonly Claim[], context: TakeContext) => {
              const call = this.#begun(store, claims, context);
              return this.#after(takeSync(claims, context), (reply) =>
                this.#took(store, call, claims, reply),
              ) as TakeReply;
            },
          }),
      ...(takeOne === undefined
        ? {}
        : {
            takeOne: (
              of: LimitedBucket,
              take: readonly Amount[],
              nowMs: number,
              generation: number | undefined,
            ): TakenAnswer | undefined => {
              const claim: Claim = { ...of, take, bypass: false };
              const call = this.#begun(store, [claim], { nowMs, timeoutMs: 0 });
              const answer = takeOne(of, take, nowMs, generation);
              if (answer === undefined) return undefined;
              this.#journal.count("takes by the shortest way");
              const context = { ...call.context, generation, atomic: false };
              return this.#after(answer, () =>
                this.#took(store, { ...call, context, isShortest: true }, [claim], [answer]),
              ) as TakenAnswer;
            },
          }),
      debit: (held, amounts, context) => {
        const call = this.#begun(store, [held], context);
        return this.#after(
          store.debit(held, amounts, context),
          (reply) => {
            if (reply.kind === "applied") this.#wrote(store, call, "debit", held, amounts, reply);
            else this.#unheard(call, [held]);
          },
          () => this.#unheard(call, [held]),
        );
      },
      credit: (held, amounts, context) => {
        const call = this.#begun(store, [held], context);
        return this.#after(
          store.credit(held, amounts, context),
          (reply) => this.#credited(store, { ...call, context }, held, amounts, reply),
          () => this.#unheard(call, [held]),
        );
      },
      refund: (of, amounts, context) => {
        const held: Held = { ...of, ticket: PLAIN_TICKET, bypass: false };
        const call = this.#begun(store, [held], context);
        const refund = new OpenRefund(held, amounts, context.nowMs);
        refund.look(this.#buckets.get(of.bucket.id)?.model);
        this.#refunds.add(refund);
        return this.#after(
          store.refund(of, amounts, context),
          (reply) => this.#refunded(store, call, refund, reply),
          () => {
            this.#refunds.delete(refund);
            this.#unheard(call, [held]);
          },
        );
      },
      renew: (held, amounts, context) => {
        const call = this.#begun(store, [held], context);
        return this.#after(
          store.renew(held, amounts, context),
          (reply) => this.#renewed(store, call, held, amounts, reply),
          () => this.#unheard(call, [held]),
        );
      },
      topUp: (operation, amounts) => {
        const call = this.#begun(store, [operation], { nowMs: operation.nowMs, timeoutMs: 0 });
        return this.#after(store.topUp(operation, amounts), (reply) =>
          this.#operated(store, call, operation, reply, (model) => {
            model.topUp(amounts, operation.nowMs);
            for (const { limit, milli } of amounts) {
              const gained = reply.amounts.find((one) => one.limit === limit)?.milli ?? 0;
              const exact = model.limit(limit)?.period !== undefined && model.limit(limit)?.limit.holdMs === undefined;
              if (gained <= milli && (!exact || gained === milli)) continue;
              this.#journal.violation(`${milli} of ${limit} were bought, and ${gained} gained`);
            }
          }),
        );
      },
      reset: (operation, limits) => {
        const call = this.#begun(store, [operation], { nowMs: operation.nowMs, timeoutMs: 0 });
        return this.#after(store.reset(operation, limits), (reply) =>
          this.#operated(store, call, operation, reply, (model) => model.resetByHand(limits, operation.nowMs)),
        );
      },
    });
  }

  /** What a clock may have shown since a reading: whoever has seen an end keeps it, also where a request has read its clock before. */
  #readingsFrom(nowMs: number): Readings {
    return { fromMs: nowMs, toMs: Math.max(nowMs, this.#nowMs()) + this.#errorMs() };
  }

  #resolved(entityId: string, resource: string, found: LevelConfig): void {
    for (const problem of resolvedProblems(this.#truth.stages(entityId, resource), found)) {
      this.#journal.violation(`${entityId}/${resource} ${problem}`);
    }
    this.#changes.read(entityId, resource, found);
  }

  #took(store: BucketStore, call: Call, claims: readonly Claim[], reply: TakeReply): void {
    if (reply === "stale") {
      this.#journal.count("takes that were stale");
      this.#unheard(call, claims);
    }
    if (reply === "stale" || claims.length === 0) return;
    for (const { kind } of reply) this.#journal.count(`claims ${kind}`);
    if (reply.some(({ kind }) => kind === "short") && claims[0]?.leavePercent !== undefined)
      this.#journal.count("requests with a floor refused");
    const taken = reply.filter(({ kind }) => kind === "taken").length;
    if (taken > 0 && taken < claims.length) {
      this.#journal.violation(`${taken} of ${claims.length} claims were taken: ${shownClaims(claims)}`);
    }
    const { operation, context } = call;
    const { generation, limitsOf } = context as TakeContext;
    const { request } = operation ?? {};
    const slots = claims.map(({ bucket }) => this.#slotsBefore(call, bucket));
    // Of a process that died on the way, nobody has compared generations.
    const isHeard = reply.some(({ kind }) => kind !== "unavailable");
    // A lease that takes more compares the generation only to hear that its namespace rests.
    const isPlanned = isHeard && generation !== undefined && limitsOf === undefined && request !== undefined;
    if (isPlanned && !this.#truth.explains(request, claims, Infinity, this.#readingsFrom(context.nowMs))) {
      this.#journal.violation(`a plan of generation ${generation} does not follow from it: ${shownClaims(claims)}`);
    }
    for (const [i, answer] of reply.entries()) {
      const claim = claims[i] as Claim;
      const model = answer.kind === "short" ? this.#modelOf(call, claim.bucket) : undefined;
      // One by the limits of a lease has perhaps met what is stored, and is refused by that.
      if (answer.kind === "short" && model !== undefined)
        this.#perhapsMet(claim.bucket, model, answer.state, context.nowMs, takenBy(claim, call));
    }
    if (reply.every(({ kind }) => kind === "short" || kind === "skipped") && this.#allFit(call, claims)) {
      this.#journal.violation(`refused although everything fits: ${shownClaims(claims)}`);
    }
    for (const [i, answer] of reply.entries()) {
      const claim = claims[i] as Claim;
      if (answer.kind === "taken") {
        this.#wrote(store, call, "take", claim, claim.take, answer);
        this.#shadows.told(claim, answer, operation);
      }
      if (answer.kind === "taken") continue;
      if (answer.kind === "unavailable" || answer.kind === "unseen") this.#unheard(call, [claim]);
      else this.#refused(call, claim, answer);
    }
    this.#compareStored(store, claims, context.nowMs);
    for (const before of new Map(slots.map((one) => [one.bucket.id, one])).values()) this.#ended(before, context.nowMs);
  }

  /** Buckets are about to be forgotten: to be told which of them were, at what reading. The holds on those have ended. */
  forgetting(buckets: readonly BucketKey[]): (isGone: (bucket: BucketKey) => boolean, nowMs: number) => void {
    const before = buckets.map((bucket) => slotsBefore(bucket, this.#buckets.get(bucket.id)?.model));
    return (isGone, nowMs) => {
      for (const slots of before) if (isGone(slots.bucket)) this.#slots.ended(slots, nowMs, nowMs);
    };
  }

  /** Of a bucket that the store has given up, nothing is left to end. */
  #slotsBefore({ absent }: Call, bucket: BucketKey): SlotsBefore {
    return slotsBefore(bucket, absent.has(bucket.id) ? undefined : this.#buckets.get(bucket.id)?.model);
  }

  #ended(before: SlotsBefore, nowMs: number): void {
    const model = this.#buckets.get(before.bucket.id)?.model;
    if (model !== undefined) this.#slots.ended(before, model.epochMs, nowMs);
  }

  #wrote(
    store: BucketStore,
    call: Call,
    kind: "take" | "debit",
    held: Claim | Held,
    asked: readonly Amount[],
    answer: { readonly state: BucketState; readonly ticket?: Ticket; readonly shadowed?: readonly string[] },
  ): void {
    const { nowMs } = call.context;
    const { bypass } = held;
    const { state, ticket, shadowed = [] } = answer;
    const amounts = takenOf(asked, shadowed);
    this.#journal.detail(() => shownWrite(bypass ? `bypassing ${kind}` : kind, held, amounts, nowMs));
    const slots = this.#slotsBefore(call, held.bucket);
    const known = this.#modelOf(call, held.bucket);
    const model = known ?? this.#born(held, nowMs);
    this.usage.opened(held.bucket, nowMs);
    this.#journal.countMet(held.origin, model.metNumber);
    // A bucket that a debit makes goes by the limits of its lease, until the next write meets what was changed since.
    if (kind === "debit") this.#meets(known === undefined ? { ...call, rank: 0 } : call, held, model, state, nowMs);
    else this.#perhapsMet(held.bucket, model, state, nowMs, takenBy(held, call));
    model.bring(held.set, held.origin, nowMs, this.#heldMs.get(model));
    const isByPlan = call.isShortest || (call.context as TakeContext).generation !== undefined;
    const isByLease = kind === "debit" || !isByPlan;
    if (isByLease) this.#heldMs.set(model, Math.max(this.#heldMs.get(model) ?? nowMs, nowMs));
    for (const { limit } of amounts) this.#journal.count(`${kind}s from ${kindIn(model, limit)}`);
    this.#tell(held.bucket, this.#shadows.wrote({ ...call, kind, held, asked, nowMs }, answer, model));
    if (held.bucket.resource === TOTAL_RESOURCE) this.#journal.count(`${kind}s on totals`);
    const spent = bypass ? undefined : model.spend(kind, amounts, nowMs, kind === "take" ? held : undefined);
    // Of nothing there is nothing to give back, whatever its ticket says.
    const pins =
      spent && new Map([...spent].filter(([name]) => amounts.some((one) => one.limit === name && one.milli > 0)));
    this.disturbances++;
    if (call.operation !== undefined) call.operation.disturbances++;
    call.operation?.moved("in", held.bucket, amounts);
    if (kind === "debit") this.#journal.count("debits");
    this.#tell(held.bucket, this.#problemsOf(held.bucket, model, state, nowMs));
    const overdrawn = kind === "take" && !bypass ? overdrawnIn(model, state, amounts, nowMs) : [];
    for (const _ of overdrawn) this.#journal.count("overdrafts");
    if (bypass) this.#journal.count("claims bypassed");
    this.usage.count(held.bucket, amounts, {
      sign: 1,
      requests: kind === "take" ? 1 : 0,
      nowMs,
      bypass,
      overdrawn,
      passed: shadowed,
    });
    if (!bypass) this.#tell(held.bucket, toldEndProblems(model, ticket, amounts));
    if (pins !== undefined && pins.size > 0) {
      this.#tell(held.bucket, this.#pins.note(held.bucket.id, ticket, pins, this.#deletions));
    }
    if (kind === "take" && !bypass) {
      const { leavePercent = 0 } = held as Claim;
      if (leavePercent > 0) this.#journal.count("takes with a floor");
      this.#tell(held.bucket, model.overAdmissions(amounts, nowMs));
      this.#tell(held.bucket, belowFloor(model, amounts, nowMs, leavePercent));
    }
    if (!bypass) this.#thresholds.took(held.bucket, state, amounts, { nowMs, marks: this.#marks === "with the take" });
    if (kind === "take") return;
    this.#compareStored(store, [held], nowMs);
    this.#ended(slots, nowMs);
  }

  /**
   * A write that is no take: every change of stored limits that was made before it is met first. Where its request gave limits of its own,
   * a store may take the bucket to go by those, and no change is due.
   */
  #meets(
    { rank }: Call,
    { bucket, origin }: LimitedBucket,
    model: ModelBucket,
    state: BucketState,
    nowMs: number,
  ): void {
    const dueRank = origin.generation === null ? 0 : rank;
    this.#metMeanwhile(bucket, model, state);
    this.#tell(bucket, this.#changes.met(bucket, model, state, { nowMs, dueRank, heldMs: this.#heldMs.get(model) }));
  }

  /** A write before this one, of which nothing was heard, may have met changes. */
  #perhapsMet(bucket: BucketKey, model: ModelBucket, state: BucketState, nowMs: number, by: Brought = {}): void {
    this.#metMeanwhile(bucket, model, state);
    this.#changes.perhaps(bucket, model, state, { nowMs, heldMs: this.#heldMs.get(model), ...by });
  }

  /** Buckets may be brought to a reading, and meet changes, until the function that is returned is called. */
  #meeting(claims: readonly Claim[], nowMs: number): () => void {
    const ids = new Set(claims.map(({ bucket }) => bucket.id));
    const readingsOf = (id: string) => this.#meetingMs.get(id) ?? [];
    for (const id of ids) this.#meetingMs.set(id, [...readingsOf(id), nowMs]);
    return () => {
      for (const id of ids) this.#meetingMs.set(id, readingsOf(id).toSpliced(readingsOf(id).indexOf(nowMs), 1));
    };
  }

  /** A take that is not answered yet may have brought the bucket further. */
  #metMeanwhile(bucket: BucketKey, model: ModelBucket, state: BucketState): void {
    const reachedMs = Math.max(...(this.#meetingMs.get(bucket.id) ?? []));
    if (reachedMs <= model.epochMs || state.epochMs <= model.epochMs) return;
    model.reachedMs = Math.max(model.reachedMs, reachedMs);
    this.#changes.doubt(bucket);
    const nowMs = Math.min(reachedMs, state.epochMs);
    this.#changes.perhaps(bucket, model, state, { nowMs, heldMs: this.#heldMs.get(model) });
    model.advance(nowMs);
  }

  /** Of what is given back to a bucket that was full and is forgotten: it is counted as long as there is usage of the bucket. */
  #countBackToNone(held: Held, amounts: readonly Amount[], context: CreditContext): void {
    const known = this.usage.knows(held.bucket);
    if (known === "surely") this.#countBack(held, amounts, context);
    if (known !== "perhaps") return;
    this.#journal.count("give-backs that usage perhaps knows");
    this.usage.perhapsGivenBack(held.bucket, uncountedOf(held, amounts, context), context.nowMs, held.bypass);
  }

  /** Of what is given back. */
  #countBack(held: Held, amounts: readonly Amount[], context: CreditContext): void {
    const { bucket, bypass } = held;
    const { nowMs } = context;
    this.usage.count(bucket, uncountedOf(held, amounts, context), {
      sign: -1,
      requests: 0,
      nowMs,
      bypass,
      overdrawn: [],
    });
  }

  #refused(
    call: Call,
    claim: Claim,
    { kind, state }: { readonly kind: Answer["kind"]; readonly state: BucketState },
  ): void {
    // A bucket that does not exist is not made by a refusal.
    const model = this.#modelOf(call, claim.bucket);
    this.#journal.detail(() => shownWrite("refused take", claim, claim.take, call.context.nowMs));
    if (model === undefined) return;
    if (kind === "short" || kind === "skipped") this.usage.opened(claim.bucket, call.context.nowMs);
    else this.#unheard(call, [claim]);
    this.#perhapsMet(claim.bucket, model, state, call.context.nowMs, takenBy(claim, call));
    if (model.bring(claim.set, claim.origin, call.context.nowMs, this.#heldMs.get(model))) this.disturbances++;
    this.#tell(claim.bucket, this.#problemsOf(claim.bucket, model, state, call.context.nowMs));
  }

  #credited(
    store: BucketStore,
    call: Call & { readonly context: CreditContext },
    held: Held,
    amounts: readonly Amount[],
    reply: WriteReply,
  ): void {
    const { context } = call;
    const { nowMs } = context;
    const { bypass } = held;
    const slots = this.#slotsBefore(call, held.bucket);
    const model = this.#modelOf(call, held.bucket);
    if (reply.kind === "gone") {
      if (model !== undefined) this.#journal.violation(`${shownKey(held.bucket.id)} is gone for a give-back`);
      call.operation?.gone.add(held.bucket.id);
      this.#countBackToNone(held, amounts, context);
      return;
    }
    if (reply.kind !== "applied") {
      this.#unheard(call, [held]);
      return;
    }
    this.usage.opened(held.bucket, nowMs);
    this.#journal.detail(() => shownWrite("give-back", held, amounts, nowMs));
    call.operation?.moved("back", held.bucket, amounts);
    this.#journal.count("give-backs");
    if (held.bucket.resource === TOTAL_RESOURCE) this.#journal.count("credits on totals");
    const over = call.operation?.overReturned();
    if (over !== undefined) this.#journal.violation(over);
    this.#countBack(held, amounts, context);
    if (model === undefined) {
      this.#journal.violation(`a give-back to ${shownKey(held.bucket.id)}, which was never made`);
      return;
    }
    if (!bypass) {
      this.#meets(call, held, model, reply.state, nowMs);
      model.cross(nowMs);
      this.#slots.givenBack(held, amounts, model, context);
    }
    const late = bypass ? 0 : model.giveBack(amounts, this.#pinsOf(held, amounts), nowMs, endsIn(held.ticket));
    if (late > 0) this.#journal.count("give-backs that came too late");
    this.#tell(held.bucket, this.#problemsOf(held.bucket, model, reply.state, nowMs));
    this.#compareStored(store, [held], nowMs);
    this.#ended(slots, nowMs);
  }

  #refunded(store: BucketStore, call: Call, refund: OpenRefund, reply: WriteReply): void {
    this.#refunds.delete(refund);
    const { held } = refund;
    const { nowMs } = call.context;
    const { bucket, set, origin } = held;
    const slots = this.#slotsBefore(call, bucket);
    const model = this.#modelOf(call, bucket);
    this.#journal.count(`refunds ${reply.kind}`);
    if (reply.kind === "gone" && model !== undefined)
      this.#journal.violation(`${shownKey(bucket.id)} is gone for a refund`);
    if (reply.kind === "gone") return;
    if (reply.kind !== "applied") {
      this.#unheard(call, [held]);
      return;
    }
    const { state, given = [] } = reply;
    this.#journal.detail(() => shownWrite("refund", held, given, nowMs));
    if (model === undefined) {
      this.#tell(bucket, ["a refund was made, and it was never made"]);
      return;
    }
    // One of nothing writes nothing: it is decided by limits in force that the next write brings.
    if (given.length === 0) {
      const { signature, origin: met } = state;
      const isMet = signature === model.set.signature && (met.changeNumber ?? 0) <= model.metNumber;
      const isInForce = isMet && nowMs < model.nextBoundaryMs;
      if (isInForce) this.#tell(bucket, refund.problems(model, given));
      this.#unheard(call, [held]);
      return;
    }
    this.usage.opened(bucket, nowMs);
    this.#meets(call, held, model, state, nowMs);
    if (state.signature === set.signature && model.bring(set, origin, nowMs, this.#heldMs.get(model)))
      this.disturbances++;
    model.cross(nowMs);
    this.#tell(bucket, refund.problems(model, given));
    model.giveBack(refund.rest(given), periodsOf(model), nowMs);
    call.operation?.gaveBack(bucket, given);
    this.usage.count(bucket, given, { sign: -1, requests: 0, nowMs, bypass: false, overdrawn: [] });
    this.#tell(bucket, this.#problemsOf(bucket, model, state, nowMs));
    this.#compareStored(store, [held], nowMs);
    this.#ended(slots, nowMs);
  }

  #renewed(store: BucketStore, call: Call, held: Held, amounts: readonly Amount[], reply: RenewReply): void {
    const { nowMs } = call.context;
    const { bucket } = held;
    const slots = this.#slotsBefore(call, bucket);
    const model = this.#modelOf(call, bucket);
    this.#journal.detail(() => shownWrite(`renewal (${reply.kind})`, held, amounts, nowMs));
    if (reply.kind === "unavailable") this.#unheard(call, [held]);
    if (model === undefined) {
      if (reply.kind === "renewed") this.#tell(bucket, ["slots were renewed, and it was never made"]);
      return;
    }
    const [state] = atOnce(store.read([bucket]));
    if (reply.kind === "renewed") this.usage.opened(bucket, nowMs);
    // One that is lost meets changes, too, where it is written: of slots that are none any more, nothing is held.
    const dueBy = reply.kind === "renewed" ? call : { ...call, rank: 0 };
    if (state !== undefined) this.#meets(dueBy, held, model, state, nowMs);
    const problems = this.#slots.renewed(held, amounts, reply, model, nowMs);
    // Where the change is not written, it counts all the same.
    const isOther = amounts.some(({ limit }) => this.#changes.endsSlots(bucket, model, limit));
    if (reply.kind !== "lost" || !isOther) this.#tell(bucket, problems);
    if (reply.kind === "lost") {
      // A store may have brought the bucket to the reading all the same, and to what is stored.
      this.#changes.doubt(bucket);
      model.reachedMs = Math.max(model.reachedMs, nowMs);
      this.#compareStored(store, [held], nowMs);
      this.#ended(slots, nowMs);
    }
    if (reply.kind !== "renewed") return;
    this.disturbances++;
    if (call.operation !== undefined) call.operation.disturbances++;
    const pins = new Map(amounts.flatMap(({ limit }) => [[limit, model.limit(limit)?.period] as const]));
    const known = [...pins].filter((one): one is [string, ModelPeriod] => one[1] !== undefined);
    this.#tell(bucket, this.#pins.note(bucket.id, reply.ticket, new Map(known), this.#deletions));
    this.#compareStored(store, [held], nowMs);
    this.#ended(slots, nowMs);
  }

  /**
   * The periods that a ticket means. One that was known by two takes means the same for both; or the later one, where nothing is
   * held of the first: a full quota that is forgotten may begin anew in the same millisecond, and by the same number.
   */
  #pinsOf({ bucket, ticket }: Held, amounts: readonly Amount[]): ModelPins {
    const pins = new Map<string, ModelPeriod>();
    for (const { limit } of amounts) {
      const known = this.#pins.of(bucket.id, ticket, limit);
      const { period, removals } = known.at(-1) ?? {};
      // A session is known by the millisecond in which it began: also that of a bucket that was deleted and made anew in it.
      const others = known.filter((one) => period?.rule !== "session" || one.removals === removals);
      // A limit that the store remembered while it was left out goes on in the period of before, whatever object stands for it.
      const apart = others.map((one) => one.period).filter((one) => isSamePeriod(one, period) === "no");
      const held = new Set(apart.filter((one) => one.granted > 0n));
      if (held.size > 0) this.#tell(bucket, [`one ticket means ${held.size + 1} periods of ${limit}`]);
      if (period !== undefined) pins.set(limit, period);
    }
    return pins;
  }

  #operated(
    store: BucketStore,
    call: Call,
    operation: StoreOperation,
    reply: OperationReply,
    apply: (model: ModelBucket) => void,
  ): void {
    const { bucket, set, origin, nowMs } = operation;
    if (reply.kind === "tooLarge") {
      this.#journal.count("operations too large");
      return;
    }
    this.#tell(bucket, this.#purchases.note(operation, reply));
    this.#journal.count(reply.repeated ? "operations repeated" : `operations ${operation.event.action}`);
    if (reply.repeated) return;
    this.#journal.detail(() => shownWrite(operation.event.action, operation, reply.amounts, nowMs));
    const slots = this.#slotsBefore(call, bucket);
    const model = this.#modelOf(call, bucket) ?? this.#born(operation, nowMs);
    const [state] = atOnce(store.read([bucket]));
    this.#changes.doubt(bucket);
    if (state !== undefined) this.#perhapsMet(bucket, model, state, nowMs, { origin, isByLease: true });
    model.bring(set, origin, nowMs, this.#heldMs.get(model));
    apply(model);
    // What was bought on top goes with a reset: a client may have to wait longer for it.
    this.disturbances++;
    this.#compareStored(store, [operation], nowMs);
    this.#ended(slots, nowMs);
  }

  /** The model of a bucket, forgotten when the store has given the bucket up: that it may, once it is full. */
  #modelOf(call: Call, key: BucketKey): ModelBucket | undefined {
    const { id } = key;
    const model = this.#buckets.get(id)?.model;
    // One that came after this call may have been sent before it, and have made the bucket.
    if (model === undefined || !call.absent.has(id) || this.#made.has(id)) return model;
    if (!model.isForgettable(call.context.nowMs))
      this.#journal.violation(`${shownKey(id)} vanished while it was not full`);
    this.#buckets.delete(id);
    this.usage.gone(key);
    return undefined;
  }

  #born({ bucket, set, origin }: LimitedBucket, nowMs: number): ModelBucket {
    const model = new ModelBucket(set, origin, nowMs, this.#calendar);
    this.#buckets.set(bucket.id, { key: bucket, model });
    this.#made.add(bucket.id);
    this.usage.made(bucket, nowMs);
    return model;
  }

  #deleted(entityId: string): void {
    this.#deletions++;
    this.usage.forget(entityId);
    this.#purchases.forget(entityId);
    for (const { key } of this.#buckets.values()) {
      if (key.entityId !== entityId) continue;
      this.#buckets.delete(key.id);
      this.usage.gone(key);
      this.#noteMost(key.id);
      this.disturbances++;
    }
  }

  #allFit(call: Call, claims: readonly Claim[]): boolean {
    const { nowMs } = call.context;
    return claims.every(({ bucket, set, origin, take, bypass, leavePercent = 0 }) => {
      const model = this.#modelOf(call, bucket) ?? new ModelBucket(set, origin, nowMs, this.#calendar);
      if (model.bring(set, origin, nowMs, this.#heldMs.get(model))) this.disturbances++;
      return bypass || model.surelyFits(take, nowMs, leavePercent);
    });
  }

  // What the store answers is one thing, what it stored another.
  #compareStored(store: BucketStore, helds: readonly LimitedBucket[], nowMs: number): void {
    for (const { bucket } of helds) this.#noteMost(bucket.id);
    // Joined calls are answered together: the state behind this one has moved on already.
    if (this.underWay > 1) return;
    const states = atOnce(store.read(helds.map(({ bucket }) => bucket)));
    for (const [i, { bucket }] of helds.entries()) {
      const model = this.#buckets.get(bucket.id)?.model;
      const state = states[i];
      this.#forgotten.note(bucket.id, state?.limits.map(({ name }) => name) ?? []);
      if (model === undefined && state !== undefined) this.#tell(bucket, ["it exists, and was never made"]);
      if (model !== undefined && state !== undefined) this.#tell(bucket, this.#problemsOf(bucket, model, state, nowMs));
    }
  }

  #noteMost(bucketId: string): void {
    const model = this.#buckets.get(bucketId)?.model;
    for (const refund of this.#refunds) if (refund.held.bucket.id === bucketId) refund.look(model);
    this.#mosts.note(bucketId, model === undefined ? [] : [model]);
  }

  #begun(store: BucketStore, helds: readonly LimitedBucket[], context: CallContext): Call {
    this.usage.readAt(context.nowMs);
    const states = atOnce(store.read(helds.map(({ bucket }) => bucket)));
    const absent = new Set<string>();
    for (const [i, { bucket }] of helds.entries()) {
      // A call before this one in the queue may make the bucket first.
      if (states[i] === undefined && !this.#touched.has(bucket.id)) absent.add(bucket.id);
    }
    for (const { bucket } of helds) this.#touched.add(bucket.id);
    return { operation: currentOperation(), context, absent, rank: this.#truth.changes };
  }

  /** A call ended, and what it did of what a store does before anything else is not known. */
  #unheard({ context }: Call, helds: readonly LimitedBucket[]): void {
    for (const held of helds) {
      this.usage.perhapsOpened(held.bucket, context.nowMs);
      this.#changes.doubt(held.bucket);
      const { id } = held.bucket;
      this.#perhapsBrought.set(id, [...(this.#perhapsBrought.get(id) ?? []), { held, nowMs: context.nowMs }]);
    }
  }

  /** What is wrong with a bucket. Its limits may have come with a call that nobody was told of. */
  #problemsOf(bucket: BucketKey, model: ModelBucket, state: BucketState, nowMs: number): string[] {
    const { id } = bucket;
    this.#perhapsMet(bucket, model, state, nowMs);
    const known = model.set.signature === state.signature;
    const brought = known
      ? undefined
      : this.#perhapsBrought.get(id)?.find(({ held }) => held.set.signature === state.signature);
    if (brought !== undefined) {
      const { set, origin } = brought.held;
      if (model.bring(set, origin, brought.nowMs, this.#heldMs.get(model))) this.disturbances++;
      model.reachedMs = Math.max(model.reachedMs, brought.nowMs);
    }
    for (const refund of this.#refunds) if (refund.held.bucket.id === id) refund.seen(model, state);
    return model.problems(state, nowMs, (atMs) => this.#truth.isEnd(atMs));
  }

  #after<Reply>(
    reply: MaybePromise<Reply>,
    tell: (reply: Reply) => void,
    failed: () => void = () => {},
  ): MaybePromise<Reply> {
    this.underWay++;
    const told = (settled: Reply): Reply => {
      tell(settled);
      return settled;
    };
    const over = () => {
      if (--this.underWay > 0) return;
      this.#touched.clear();
      this.#made.clear();
    };
    if (reply instanceof Promise) {
      const ended = (error: unknown): never => {
        failed();
        throw error;
      };
      return reply.then(told, ended).finally(over);
    }
    try {
      return told(reply);
    } finally {
      over();
    }
  }

  #tell({ id }: BucketKey, problems: readonly string[]): void {
    for (const problem of problems) this.#journal.violation(`${shownKey(id)}: ${problem}`);
  }
}

/** What a take brings of changes; one by the limits of a lease meets those that are stored where it passes an end. */
function takenBy({ origin }: LimitedBucket, { context, isShortest }: Call): Brought {
  const { generation, limitsOf } = context as TakeContext;
  return { origin, isByLease: !isShortest && (generation === undefined || limitsOf === "lease") };
}

/** What all calls say about the bucket they mean. */
function shownWrite(what: string, { bucket, set }: LimitedBucket, amounts: readonly Amount[], nowMs: number): string {
  const moved = amounts.map(({ limit, milli }) => `${limit}:${milli}`).join(" ");
  return `${what} on ${shownKey(bucket.id)} at ${nowMs}: ${moved}, by ${set.signature}`;
}

function shownClaims(claims: readonly Claim[]): string {
  return claims
    .map(({ bucket, take }) => `${shownKey(bucket.id)} ${take.map((one) => `${one.limit}:${one.milli}`).join("+")}`)
    .join(", ");
}
