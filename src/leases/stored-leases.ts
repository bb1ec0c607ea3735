import { aboveZero, belowZero, negated } from "../domain/charge/amounts.ts";
import { canonical } from "../domain/lease/idempotency.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import { checkLeave } from "../domain/limits/limit-numbers.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { checkEntityId, checkResource } from "../domain/names/names.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import { finishOf, oncePerKey } from "../engine/acquire/once-per-key.ts";
import type { OperationResult, ResetRequest, TopUpRequest } from "../engine/acquire/policies.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import { type Listing, type ListOptions, listing } from "../engine/limiter/listing.ts";
import type { Refusal } from "../engine/refusal/refusal.ts";
import { exceededBy } from "../engine/refusal/refused.ts";
import type { KeyMark } from "../ports/bucket-store.ts";
import type { DueLease, LeaseFilter } from "../ports/lease-store.ts";
import type { ChangeKey, ChangePlan, ChangeStep, HoldDefaults, StoredLeasesDeps } from "./change-plan.ts";
import { type DueOutcome, LeaseChanges } from "./changing.ts";
import { leaseClosed, leaseNotStored } from "./errors.ts";
import {
  ADJUST,
  type AdjustRequest,
  AMOUNTS,
  type AmountsRequest,
  CONSUME,
  type ConsumeRequest,
  checkHold,
  checkLeaseRequest,
  EXTEND,
  type ExtendRequest,
  type LeaseRequest,
  SETTLE,
  type SettleRequest,
} from "./lease-request.ts";
import { type LeaseView, viewOf } from "./lease-view.ts";
import { allOf, amountsOf, type ResourceAmounts, refuseSlotsOf, returnsOf, toTotals } from "./ledger.ts";
import type { LeaseAnswer } from "./record-of.ts";
import { slotsBack, withoutSlots } from "./slots.ts";
import { answerUnavailable, type Taking, takeLease } from "./taking.ts";

/** The settings of stored leases, all given: defaults belong to the public edge. */
export interface StoredLeasesOptions extends HoldDefaults {
  /** Called with a lease whose status has changed: opened, settled, rolled back, expired. */
  readonly onChange: (lease: LeaseView) => void;
}

/** `replayed`: the answer is that of an earlier request with the same idempotency key. */
export interface Answered extends LeaseAnswer {
  readonly replayed: boolean;
}

/** A grant or a refusal; `standingsIn` has the standings of a refusal. */
export type TryAnswer = ({ readonly ok: true } & Answered) | Refusal;

const NOTHING: ResourceAmounts = [];
const DUE_AT_ONCE = 100;
const FILTER = new KnownNames<LeaseFilter & ListOptions>({ entityId: true, resource: true, limit: true, cursor: true });

/**
 * Leases that live in the store of a limiter, in its namespace, and not in a process: any process on that store may settle, extend,
 * repeat or expire them.
 */
export class StoredLeases {
  readonly #limiter: Limiter;
  readonly #deps: StoredLeasesDeps;
  readonly #options: StoredLeasesOptions;
  readonly #changes: LeaseChanges;

  constructor(limiter: Limiter, options: StoredLeasesOptions) {
    const { deps, settings, acquirer } = partsOf(limiter);
    this.#limiter = limiter;
    this.#options = options;
    this.#deps = {
      namespace: settings.namespace,
      leases: deps.scope.leases,
      acquirer,
      timeoutMs: settings.timeoutMs,
      engine: deps,
      onChange: options.onChange,
    };
    this.#changes = new LeaseChanges(this.#deps);
  }

  /** Takes the tokens, or throws `RateLimitExceeded` (or `RateLimiterUnavailable`). */
  async acquire(request: LeaseRequest): Promise<Answered> {
    const outcome = await this.#take("acquire", request);
    if (!("ok" in outcome)) return outcome;
    throw exceededBy(outcome);
  }

  /** Takes the tokens, or returns the refusal. Other errors are thrown as by `acquire`. */
  async tryAcquire(request: LeaseRequest): Promise<TryAnswer> {
    const outcome = await this.#take("try", request);
    return "ok" in outcome ? outcome : { ok: true, ...outcome };
  }

  /** A lease that is open, or was closed within the last day. */
  async get(leaseId: string): Promise<LeaseView> {
    return this.#view(await this.#changes.read(leaseId));
  }

  /** Closes the lease, and charges or gives back the difference to the totals. Can be repeated. */
  async settle(leaseId: string, request: SettleRequest = {}): Promise<LeaseView> {
    const { consumed = {}, also = {} } = SETTLE.check(request, "The request of settle");
    // No parts are no parts, in whichever form: a repeat is the same request.
    const named = Array.isArray(also) && also.length === 0 ? {} : also;
    const by = this.#deps.engine.digest.of(canonical({ settle: consumed, also: named }));
    const step: ChangeStep = (record, nowMs) => {
      if (record.status === "settled" && record.closing?.by === by) return "done";
      requireOpen(record);
      const totals = amountsOf(record, { own: consumed, also }, "settle");
      const { returns, ...plan } = byDifference(record, toTotals(record, totals));
      const back = [...returns.flatMap(withoutSlots), ...slotsBack(record)];
      const beside = { named: totals, how: "totals" } as const;
      return { ...plan, returns: back, beside, to: { status: "settled", closing: { atMs: nowMs, by } } };
    };
    return this.#changed(leaseId, step);
  }

  /** Gives everything back and closes the lease. Can be repeated. */
  async rollback(leaseId: string): Promise<LeaseView> {
    const step: ChangeStep = (record, nowMs) => {
      if (record.status === "rolledBack") return "done";
      requireOpen(record);
      const closing = { atMs: nowMs, by: "rollback" };
      const to = { status: "rolledBack", closing } as const;
      return { ...NO_CHARGE, returns: allOf(record), passes: "none", beside: "all", reason: "rollback", to };
    };
    return this.#changed(leaseId, step);
  }

  /** Charges a difference: positive takes more, into debt if need be; negative gives back, at most what is held. */
  adjust(leaseId: string, request: AdjustRequest): Promise<Answered> {
    const { delta, also, ...key } = ADJUST.check(request, "The request of adjust");
    return this.#keyed({ leaseId, key, asks: { adjust: delta, also } }, (record) => {
      requireOpen(record);
      const plan = byDifference(record, amountsOf(record, { own: delta, also }, "adjust"));
      refuseSlotsOf(record, plan.debits);
      return plan;
    });
  }

  /** Takes more, or throws `RateLimitExceeded` and takes nothing. */
  consume(leaseId: string, request: ConsumeRequest): Promise<Answered> {
    const { amounts, also, leavePercent: asked, ...key } = CONSUME.check(request, "The request of consume");
    const leavePercent = checkLeave(asked);
    return this.#keyed({ leaseId, key, asks: { consume: amounts, also } }, (record) => {
      requireOpen(record);
      const takes = amountsOf(record, { own: amounts, also }, "consume");
      const beside = { named: takes, how: "difference" } as const;
      return { debits: NOTHING, takes, leavePercent, returns: [], beside, reason: "adjust", to: {} };
    });
  }

  /** Gives back, at most what is held. */
  release(leaseId: string, request: AmountsRequest): Promise<Answered> {
    const { amounts, also, ...key } = AMOUNTS.check(request, "The request of release");
    return this.#keyed({ leaseId, key, asks: { release: amounts, also } }, (record) => {
      requireOpen(record);
      const back = amountsOf(record, { own: amounts, also }, "release");
      const passes = back.map((amounts) => amounts.map(negated));
      const beside = { named: back, how: "back" } as const;
      return { ...NO_CHARGE, returns: returnsOf(record, back), passes, beside, reason: "release", to: {} };
    });
  }

  /** Holds the lease for `holdMs` from now, at most as long as its slots, which are renewed with it. */
  async extend(leaseId: string, request: ExtendRequest): Promise<LeaseView> {
    const { holdMs } = EXTEND.check(request, "The request of extend");
    const heldMs = checkHold(holdMs, this.#options.holdMaxMs, "");
    const step: ChangeStep = (record, nowMs) => {
      requireOpen(record);
      const to = { expiresAtMs: nowMs + heldMs };
      return { ...NO_CHARGE, returns: [], renewMs: heldMs, reason: "adjust", to };
    };
    return this.#changed(leaseId, step);
  }

  /** Open leases: of an entity, for a resource, or all. */
  list(query: LeaseFilter & ListOptions = {}): Listing<LeaseView> {
    const { entityId, resource, ...options } = FILTER.check(query, "The query of leases");
    if (entityId !== undefined) checkEntityId(entityId);
    if (resource !== undefined) checkResource(resource);
    const filter = given({ entityId, resource });
    const fetch = async (page: PageRequest): Promise<Page<LeaseView>> => {
      const { items, ...rest } = await this.#deps.leases.listOpen(filter, page);
      const nowMs = this.#deps.engine.clock.now();
      return { ...rest, items: items.filter((one) => nowMs < one.expiresAtMs).map((one) => this.#view(one)) };
    };
    return listing(fetch, options);
  }

  /**
   * Writes the end of expired leases of any process, and returns their number. If some cannot be ended, it throws the reason after it has
   * ended the others.
   */
  async expireDue(): Promise<number> {
    let expired = 0;
    for (;;) {
      const run = await this.#changes.expireDue(DUE_AT_ONCE);
      expired += run.expired;
      if (run.found === DUE_AT_ONCE && run.expired > 0 && run.failure === undefined) continue;
      if (run.failure !== undefined) throw run.failure.error;
      return expired;
    }
  }

  /** Leases that are due until then, at most `max`. */
  async findDue(untilMs: number, max: number): Promise<readonly DueLease[]> {
    return this.#deps.leases.findDue(untilMs, max);
  }

  /** Ends the expired ones of these leases; returns the result for each. */
  endDue(leaseIds: readonly string[]): Promise<readonly DueOutcome[]> {
    return this.#changes.endDue(leaseIds);
  }

  /** Resolves changes of this process whose answers were lost, and gives back what they owe. */
  resolveLost(): Promise<void> {
    return this.#changes.resolve();
  }

  /** `Limiter.topUp` under a key of its principal: a repeat gets the first answer. */
  topUp(request: TopUpRequest): Promise<{ readonly result: OperationResult; readonly replayed: boolean }> {
    return this.#operate("topUp", request, (keyed) => this.#limiter.topUp(keyed));
  }

  /** `Limiter.resetBucket` under a key of its principal. */
  reset(request: ResetRequest): Promise<{ readonly result: OperationResult; readonly replayed: boolean }> {
    return this.#operate("reset", request, (keyed) => this.#limiter.resetBucket(keyed));
  }

  async #take(operation: string, request: LeaseRequest): Promise<Answered | Refusal> {
    const { asked, holdMs, onExpiry } = checkLeaseRequest(request, this.#options);
    const { idempotencyKey, keyOwner } = request;
    const taking = { asked, holdMs, onExpiry, idempotencyKey, keyOwner };
    const take = () => this.#taken(operation, taking);
    const { publisher } = this.#deps.acquirer;
    if (!publisher.isWatched) return take();
    // A repeat was published with the first answer.
    return publisher.watch(asked, take, (told) => ("ok" in told ? "refused" : told.replayed ? undefined : "acquired"));
  }

  async #taken(operation: string, taking: Taking): Promise<Answered | Refusal> {
    const { asked, holdMs, onExpiry, idempotencyKey, keyOwner } = taking;
    const { signal: _, requestId: __, ...asks } = asked;
    const { answer, replayed } = await oncePerKey<LeaseAnswer | Refusal>(
      this.#deps,
      { idempotencyKey, keyOwner, asks: { [operation]: asks, holdMs, onExpiry }, waits: asked.wait !== undefined },
      (mark) => takeLease(this.#deps, taking, mark),
      (cause) => {
        if (!(cause instanceof RateLimiterUnavailable)) throw cause;
        return answerUnavailable(this.#deps, taking, cause).answer;
      },
    );
    return "ok" in answer ? answer : { ...answer, replayed };
  }

  async #keyed(
    { leaseId, key, asks }: { leaseId: string; key: Pick<LeaseRequest, "idempotencyKey" | "keyOwner">; asks: object },
    step: (record: LeaseRecord) => ChangePlan,
  ): Promise<Answered> {
    const answerOf = (record: LeaseRecord, standings: LeaseAnswer["standings"]): LeaseAnswer => {
      return { lease: this.#view(record), standings };
    };
    const { answer, replayed } = await oncePerKey(
      this.#deps,
      { idempotencyKey: key.idempotencyKey, keyOwner: key.keyOwner, asks: { ...asks, leaseId }, waits: false },
      async (mark) => {
        const change: ChangeKey | undefined = mark && {
          mark,
          finishOf: (next, { standings }) => this.#finish(mark, answerOf(next, standings)),
        };
        const { record, charge } = await this.#changes.change(leaseId, step, change);
        return { answer: answerOf(record, charge?.standings ?? []), isKept: mark !== undefined };
      },
    );
    return { ...answer, replayed };
  }

  async #operate<Request extends TopUpRequest | ResetRequest>(
    operation: string,
    request: Request,
    work: (request: Request) => Promise<OperationResult>,
  ): Promise<{ readonly result: OperationResult; readonly replayed: boolean }> {
    const { idempotencyKey, principal: keyOwner, ...asks } = request;
    const { answer, replayed } = await oncePerKey(
      this.#deps,
      { idempotencyKey, keyOwner, asks: { [operation]: asks }, waits: false },
      async (mark) => {
        if (mark === undefined) return { answer: await work(request), isKept: false };
        // The bucket remembers the key, too: if the first attempt died after the operation, it is not repeated.
        const result = await work({ ...request, idempotencyKey: this.#deps.engine.digest.of(mark.key) });
        const finish = this.#finish(mark, result);
        const reply = await this.#deps.leases.create({ record: undefined, finish }, finish.nowMs);
        if (reply.kind === "unavailable") throw leaseNotStored("The answer under the idempotency key", reply.cause);
        return { answer: result, isKept: true };
      },
    );
    return { result: answer, replayed };
  }

  #finish(mark: KeyMark, answer: unknown) {
    return finishOf(mark, answer, this.#deps.engine.clock.now());
  }

  async #changed(leaseId: string, step: ChangeStep): Promise<LeaseView> {
    return this.#view((await this.#changes.change(leaseId, step, undefined)).record);
  }

  #view(record: LeaseRecord): LeaseView {
    return viewOf(record, this.#deps.namespace);
  }
}

const NO_CHARGE = { debits: NOTHING, takes: NOTHING };

function requireOpen({ leaseId, status }: LeaseRecord): void {
  if (status !== "open") throw leaseClosed(leaseId, status);
}

/** Debits positive differences and gives negative ones back. */
function byDifference(record: LeaseRecord, differences: ResourceAmounts): ChangePlan {
  const debits = differences.map(aboveZero);
  const returns = returnsOf(record, differences.map(belowZero));
  const beside = { named: differences, how: "difference" } as const;
  return { debits, takes: NOTHING, returns, passes: differences, beside, reason: "adjust", to: {} };
}
