import { canonical } from "../domain/lease/canonical.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import { checkLeave } from "../domain/limits/floor.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { checkEntityId, checkResource } from "../domain/names/names.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { OperationResult, ResetRequest, TopUpRequest } from "../engine/acquire/policies.ts";
import { LeaseWrites } from "../engine/lease/lease-writes.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import { type Listing, type ListOptions, listing } from "../engine/limiter/listing.ts";
import type { Refusal } from "../engine/refusal/refusal.ts";
import { exceededBy } from "../engine/refusal/refused.ts";
import type { DueLease, LeaseFilter } from "../ports/lease-store.ts";
import type { KeyMark } from "../ports/lease-write.ts";
import type { ChangeKey, ChangePlan, ChangeStep } from "./change-plan.ts";
import { type DueOutcome, LeaseChanges } from "./changing.ts";
import type { LeaseAnswer } from "./draft-form.ts";
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
import { OncePerKey } from "./once.ts";
import { slotsBack, withoutSlots } from "./slots.ts";
import type { HoldDefaults, StoredLeasesDeps } from "./stored-leases-deps.ts";
import { LeaseTaking, type Taking } from "./taking.ts";

/** How stored leases behave; every value given, defaults belong to the public edge. */
export interface StoredLeasesOptions extends HoldDefaults {
  /** Called with a lease whose status has changed: opened, settled, rolled back, expired. */
  readonly onChange: (lease: LeaseView) => void;
}

/** An answer, and whether it is that of an earlier request with the same idempotency key. */
export interface Answered extends LeaseAnswer {
  readonly replayed: boolean;
}

/** A grant, or why it was refused; `standingsIn` says how the limits of a refusal stood. */
export type TryAnswer = ({ readonly ok: true } & Answered) | Refusal;

const NOTHING: ResourceAmounts = [];
const DUE_AT_ONCE = 100;
const FILTER = new KnownNames<LeaseFilter & ListOptions>({ entityId: true, resource: true, limit: true, cursor: true });

/**
 * Leases that live in the store of a limiter and not in a process: any process on that store may settle, extend, repeat or
 * expire them. They are those of the limiter's namespace.
 */
export class StoredLeases {
  readonly #limiter: Limiter;
  readonly #deps: StoredLeasesDeps;
  readonly #options: StoredLeasesOptions;
  readonly #once: OncePerKey;
  readonly #taking: LeaseTaking;
  readonly #changes: LeaseChanges;

  constructor(limiter: Limiter, options: StoredLeasesOptions) {
    const { deps, settings, acquirer } = partsOf(limiter);
    this.#limiter = limiter;
    this.#options = options;
    this.#deps = {
      namespace: settings.namespace,
      leases: deps.scope.leases,
      acquirer,
      writes: new LeaseWrites(deps, settings, acquirer.listeners),
      engine: deps,
      onChange: options.onChange,
    };
    this.#once = new OncePerKey(this.#deps);
    this.#taking = new LeaseTaking(this.#deps);
    this.#changes = new LeaseChanges(this.#deps);
  }

  /** Takes the tokens, or throws `RateLimitExceeded` (or `RateLimiterUnavailable`). */
  async acquire(request: LeaseRequest): Promise<Answered> {
    const outcome = await this.#take("acquire", request);
    if (!("ok" in outcome)) return outcome;
    throw exceededBy(outcome);
  }

  /** Takes the tokens, or answers why not. Only a refusal is a value; everything else is thrown as by `acquire`. */
  async tryAcquire(request: LeaseRequest): Promise<TryAnswer> {
    const outcome = await this.#take("try", request);
    return "ok" in outcome ? outcome : { ok: true, ...outcome };
  }

  /** A lease that is open, or was closed within the last day. */
  async get(leaseId: string): Promise<LeaseView> {
    return this.#view(await this.#changes.read(leaseId));
  }

  /** Closes the lease with what it came to in total, and charges or gives back the difference. The same may be sent again. */
  async settle(leaseId: string, request: SettleRequest = {}): Promise<LeaseView> {
    const { consumed = {}, also = {} } = SETTLE.check(request, "The request of settle");
    const by = this.#deps.engine.digest.of(canonical({ settle: consumed, also }));
    const step: ChangeStep = (record, nowMs) => {
      if (record.status === "settled" && record.closing?.by === by) return "done";
      requireOpen(record);
      const totals = amountsOf(record, { own: consumed, also }, "settle");
      const { returns, ...plan } = byDifference(record, toTotals(record, totals));
      const back = [...returns.flatMap(withoutSlots), ...slotsBack(record)];
      return { ...plan, returns: back, to: { status: "settled", closing: { atMs: nowMs, by } } };
    };
    return this.#view((await this.#changes.change(leaseId, step, undefined)).record);
  }

  /** Gives everything back and closes the lease. The same may be sent again. */
  async rollback(leaseId: string): Promise<LeaseView> {
    const step: ChangeStep = (record, nowMs) => {
      if (record.status === "rolledBack") return "done";
      requireOpen(record);
      const closing = { atMs: nowMs, by: "rollback" };
      const to = { status: "rolledBack", closing } as const;
      return { ...NO_CHARGE, returns: allOf(record), passes: "none", reason: "rollback", to };
    };
    return this.#view((await this.#changes.change(leaseId, step, undefined)).record);
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

  /** Takes more, if it is there: throws `RateLimitExceeded` when not, and then nothing was taken. */
  consume(leaseId: string, request: ConsumeRequest): Promise<Answered> {
    const { amounts, also, leavePercent: asked, ...key } = CONSUME.check(request, "The request of consume");
    const leavePercent = checkLeave(asked);
    return this.#keyed({ leaseId, key, asks: { consume: amounts, also } }, (record) => {
      requireOpen(record);
      const takes = amountsOf(record, { own: amounts, also }, "consume");
      return { debits: NOTHING, takes, leavePercent, returns: [], reason: "adjust", to: {} };
    });
  }

  /** Gives back, at most what is held. */
  release(leaseId: string, request: AmountsRequest): Promise<Answered> {
    const { amounts, also, ...key } = AMOUNTS.check(request, "The request of release");
    return this.#keyed({ leaseId, key, asks: { release: amounts, also } }, (record) => {
      requireOpen(record);
      const back = amountsOf(record, { own: amounts, also }, "release");
      const passes = back.map((some) => some.map(({ limit, milli }) => ({ limit, milli: -milli })));
      return { ...NO_CHARGE, returns: returnsOf(record, back), passes, reason: "release", to: {} };
    });
  }

  /** Goes on holding for so many ms from now, at most as long as its slots are: they are renewed with it, and the answer says until when. */
  async extend(leaseId: string, request: ExtendRequest): Promise<LeaseView> {
    const { holdMs } = EXTEND.check(request, "The request of extend");
    const heldMs = checkHold(holdMs, this.#options.holdMaxMs, "");
    const step: ChangeStep = (record, nowMs) => {
      requireOpen(record);
      const to = { expiresAtMs: nowMs + heldMs };
      return { ...NO_CHARGE, returns: [], renewMs: heldMs, reason: "adjust", to };
    };
    return this.#view((await this.#changes.change(leaseId, step, undefined)).record);
  }

  /** Open leases: of an entity, for a resource, or all. */
  list(query: LeaseFilter & ListOptions = {}): Listing<LeaseView> {
    const { entityId, resource, ...options } = FILTER.check(query, "The query of leases");
    if (entityId !== undefined) checkEntityId(entityId);
    if (resource !== undefined) checkResource(resource);
    const filter = {
      ...(entityId === undefined ? {} : { entityId }),
      ...(resource === undefined ? {} : { resource }),
    };
    const fetch = async (page: PageRequest): Promise<Page<LeaseView>> => {
      const { items, ...rest } = await this.#deps.leases.listOpen(filter, page);
      const nowMs = this.#deps.engine.clock.now();
      return { ...rest, items: items.filter((one) => nowMs < one.expiresAtMs).map((one) => this.#view(one)) };
    };
    return listing(fetch, options);
  }

  /**
   * Writes down the end of leases whose time is up, of this process or of others. Answers how many; throws, once it has ended those
   * it could, why others could not be.
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

  /** Leases that are due until then, some of them where there are more. */
  findDue(untilMs: number, max: number): Promise<readonly DueLease[]> {
    return this.#changes.findDue(untilMs, max);
  }

  /** Ends those of these leases whose time is up; answers what became of each. */
  endDue(leaseIds: readonly string[]): Promise<readonly DueOutcome[]> {
    return this.#changes.endDue(leaseIds);
  }

  /** Finds out about changes by this process whose answers were lost, and gives back what they owe. */
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
    const { watch } = this.#deps.acquirer;
    if (!watch.isActive) return take();
    // A repeat is an answer to a request that was told already.
    return watch.run(asked, take, (told) => ("ok" in told ? "refused" : told.replayed ? undefined : "acquired"));
  }

  async #taken(operation: string, taking: Taking): Promise<Answered | Refusal> {
    const { asked, holdMs, onExpiry, idempotencyKey, keyOwner } = taking;
    const { signal: _, requestId: __, ...asks } = asked;
    const { answer, replayed } = await this.#once.run<LeaseAnswer | Refusal>(
      { idempotencyKey, keyOwner, asks: { [operation]: asks, holdMs, onExpiry }, waits: asked.wait !== undefined },
      (mark) => this.#taking.take(taking, mark),
      (cause) => {
        if (!(cause instanceof RateLimiterUnavailable)) throw cause;
        return this.#taking.unavailable(taking, cause).answer;
      },
    );
    return "ok" in answer ? answer : { ...answer, replayed };
  }

  async #keyed(
    {
      leaseId,
      key: given,
      asks,
    }: { leaseId: string; key: Pick<LeaseRequest, "idempotencyKey" | "keyOwner">; asks: object },
    step: (record: LeaseRecord) => ChangePlan,
  ): Promise<Answered> {
    const answerOf = (record: LeaseRecord, standings: LeaseAnswer["standings"]): LeaseAnswer => {
      return { lease: this.#view(record), standings };
    };
    const { answer, replayed } = await this.#once.run(
      { ...ownKey(given), asks: { ...asks, leaseId }, waits: false },
      async (mark) => {
        const key: ChangeKey | undefined =
          mark === undefined
            ? undefined
            : { mark, finishOf: (next, { standings }) => this.#finish(mark, answerOf(next, standings)) };
        const { record, charge } = await this.#changes.change(leaseId, step, key);
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
    const { answer, replayed } = await this.#once.run(
      { idempotencyKey, keyOwner, asks: { [operation]: asks }, waits: false },
      async (mark) => {
        if (mark === undefined) return { answer: await work(request), isKept: false };
        // The bucket remembers it too: where the first attempt died after it was done, it is not done again.
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
    return { ...mark, answer: JSON.stringify(answer), nowMs: this.#deps.engine.clock.now() };
  }

  #view(record: LeaseRecord): LeaseView {
    return viewOf(record, this.#deps.namespace);
  }
}

function ownKey({ idempotencyKey, keyOwner }: Pick<LeaseRequest, "idempotencyKey" | "keyOwner">) {
  return { idempotencyKey, keyOwner };
}

const NO_CHARGE = { debits: NOTHING, takes: NOTHING };

function requireOpen({ leaseId, status }: LeaseRecord): void {
  if (status !== "open") throw leaseClosed(leaseId, status);
}

/** What is more is debited, what is less is given back. */
function byDifference(record: LeaseRecord, differences: ResourceAmounts): ChangePlan {
  const debits = differences.map((amounts) => amounts.filter(({ milli }) => milli > 0));
  const less = differences.map((amounts) =>
    amounts.filter(({ milli }) => milli < 0).map(({ limit, milli }) => ({ limit, milli: -milli })),
  );
  return { debits, takes: NOTHING, returns: returnsOf(record, less), passes: differences, reason: "adjust", to: {} };
}
