import { isOfOnePeriod, PLAIN_TICKET } from "../domain/bucket/give-back.ts";
import { measuresOf, milliOf, REQUESTS, type Tokens } from "../domain/charge/amounts.ts";
import { type Asked, changedBy, chargedTo } from "../domain/charge/charges.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import { ResourceDisabled, ValidationError } from "../domain/names/errors.ts";
import type { Outcome } from "../engine/acquire/acquiring.ts";
import { refusalOfNever, withoutSlots } from "../engine/acquire/request.ts";
import { allEnded } from "../engine/acquire/store-calls.ts";
import type { StoreClient } from "../engine/acquire/store-client.ts";
import { type Lease, partsOfLease, settleNow } from "../engine/lease/lease.ts";
import type { LevelMove } from "../engine/lease/lease-ledger.ts";
import { answersOf, hasSlots, heldOf, type LeasePart, SinglePart, type TakenPart } from "../engine/lease/lease-part.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import type { Refusal } from "../engine/refusal/refusal.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { LoggedRequest } from "./logged-requests.ts";

/** A clock that is set. */
export interface SetClock {
  nowMs: number;
}

/** The limit that stood in the way of a request. */
export interface Refused {
  readonly kind: "refused";
  /** The name of the limit; `null`: the resource is switched off. */
  readonly limit: string | null;
  /** Whose limit it is; of a resource that is switched off, the scope at which it is. */
  readonly level: string;
  /** True: the limit is one of the totals. */
  readonly total: boolean;
  readonly waitMs: number;
}

/** The decision about a request. `unlimited`: no limit counts anything of it. */
export type Decision = Refused | { readonly kind: "granted" | "unlimited" };

const GRANTED: Decision = { kind: "granted" };
const UNLIMITED: Decision = { kind: "unlimited" };

/** Work that is due at an instant of the log: the end of a lease, or the renewal of its slots. */
interface Due {
  readonly atMs: number;
  readonly lease: Lease;
  /** The end of the work that the lease is for. */
  readonly endMs: number;
  readonly actual: Tokens | undefined;
}

/** A set of limits on a store that answers at once, at the instants of a log. */
export class ReplayedLimits {
  readonly #limiter: Limiter;
  readonly #client: StoreClient;
  readonly #clock: SetClock;
  readonly #due = new InOrder<Due>();

  constructor(limiter: Limiter, clock: SetClock) {
    this.#limiter = limiter;
    this.#client = partsOf(limiter).acquirer.client;
    this.#clock = clock;
  }

  /** Decides about the next request, after what is due until then. */
  decide(logged: LoggedRequest): MaybePromise<Decision> {
    const worked = this.#workUntil(logged.atMs);
    return worked instanceof Promise ? worked.then(() => this.#decideNow(logged)) : this.#decideNow(logged);
  }

  #decideNow({ atMs, request, endMs, actual }: LoggedRequest): MaybePromise<Decision> {
    this.#clock.nowMs = atMs;
    let outcome: Outcome;
    try {
      outcome = this.#limiter.tryAcquireSync(request);
    } catch (error) {
      return decisionOf(error);
    }
    if (!outcome.ok) return refusedBy(outcome);
    const { lease } = outcome;
    if (endMs > atMs) this.#keep({ lease, endMs, actual });
    else {
      const ended = settled(this.#client, lease, actual);
      if (ended instanceof Promise) return ended.then(() => GRANTED);
    }
    return GRANTED;
  }

  #workUntil(atMs: number): MaybePromise<unknown> {
    while (this.#due.firstMs <= atMs) {
      const due = this.#due.takeFirst();
      this.#clock.nowMs = due.atMs;
      const worked = due.atMs === due.endMs ? settled(this.#client, due.lease, due.actual) : this.#renew(due);
      if (worked instanceof Promise) return worked.then(() => this.#workUntil(atMs));
    }
  }

  async #renew(due: Due): Promise<void> {
    await due.lease.renew();
    this.#keep(due);
  }

  /** Keeps a lease until the end of its work; its slots are renewed meanwhile, as a program does. */
  #keep({ lease, endMs, actual }: Omit<Due, "atMs">): void {
    const untilMs = lease.holdsUntilMs ?? endMs;
    const { nowMs } = this.#clock;
    const atMs = untilMs < endMs ? nowMs + Math.max(1, Math.floor((untilMs - nowMs) / 2)) : endMs;
    this.#due.add({ atMs, lease, endMs, actual });
  }
}

function decisionOf(error: unknown): Decision {
  if (error instanceof ResourceDisabled) {
    return { kind: "refused", limit: null, level: error.level, total: false, waitMs: Number.POSITIVE_INFINITY };
  }
  if (!(error instanceof ValidationError)) throw error;
  const refusal = refusalOfNever(error);
  if (refusal !== undefined) return { ...refusedBy(refusal), waitMs: Number.POSITIVE_INFINITY };
  if (error.code === "limits_missing" || error.code === "consume_empty") return UNLIMITED;
  throw error;
}

function refusedBy({ primary, retryAfterMs }: Refusal): Refused {
  const { limit, entityId: level, resource } = primary;
  return { kind: "refused", limit, level, total: resource === TOTAL_RESOURCE, waitMs: retryAfterMs };
}

interface Timed {
  readonly atMs: number;
}

interface Place<Item> {
  readonly item: Item;
  readonly number: number;
}

/** Items by their instant; those of one instant in the order in which they were added. A binary heap. */
class InOrder<Item extends Timed> {
  readonly #heap: Place<Item>[] = [];
  #added = 0;

  /** The instant of the first; `Infinity`: there are none. */
  get firstMs(): number {
    return this.#heap[0]?.item.atMs ?? Number.POSITIVE_INFINITY;
  }

  add(item: Item): void {
    let at = this.#heap.push({ item, number: this.#added++ }) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.#isBefore(at, above)) return;
      this.#swap(at, above);
      at = above;
    }
  }

  takeFirst(): Item {
    const heap = this.#heap;
    this.#swap(0, heap.length - 1);
    const { item } = heap.pop() as Place<Item>;
    for (let at = 0; ; ) {
      let first = at;
      for (const below of [2 * at + 1, 2 * at + 2]) {
        if (below < heap.length && this.#isBefore(below, first)) first = below;
      }
      if (first === at) return item;
      this.#swap(at, first);
      at = first;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const a = this.#at(one);
    const b = this.#at(other);
    return a.item.atMs === b.item.atMs ? a.number < b.number : a.item.atMs < b.item.atMs;
  }

  #swap(one: number, other: number): void {
    const [a, b] = [this.#at(one), this.#at(other)];
    this.#heap[one] = b;
    this.#heap[other] = a;
  }

  #at(index: number): Place<Item> {
    return this.#heap[index] as Place<Item>;
  }
}

/**
 * Settles a lease to totals, as its method does; undefined: as it was taken. Most need no ledger, since nobody looks at the lease
 * afterwards: what each level comes to is written at once.
 */
function settled(client: StoreClient, lease: Lease, totals: Tokens | undefined): MaybePromise<unknown> {
  if (totals === undefined) return settleNow(lease, undefined);
  const [own, ...others] = partsOfLease(lease) as readonly [LeasePart, ...LeasePart[]];
  const levels = others.length > 0 || hasSlots(own) ? undefined : plainLevels(own);
  if (levels === undefined) return settleNow(lease, countedOf(own, totals));
  const asked = changedBy(totals, "settle");
  const written = levels.flatMap((level) => writeDifference(client, level, asked));
  return written.some((one) => one instanceof Promise) ? allEnded(written) : undefined;
}

/** The levels of a take of which all comes back by its ticket; undefined: a shadow, or a period that ended meanwhile, makes parts of it. */
function plainLevels(part: LeasePart): readonly TakenPart[] | undefined {
  const levels =
    part instanceof SinglePart
      ? [part.asTaken]
      : answersOf(part).map((answer, i) => {
          const { link, take, holdMs } = part.demands[i] as LeasePart["demands"][number];
          return { link, take, ticket: answer?.ticket ?? PLAIN_TICKET, holdMs };
        });
  return levels.every(({ ticket }) => ticket.shadowed.length === 0 && isOfOnePeriod(ticket)) ? levels : undefined;
}

function writeDifference(
  client: StoreClient,
  { link, take, ticket }: TakenPart,
  asked: Asked,
): readonly MaybePromise<unknown>[] {
  const { more, less } = differenceOf(take, withoutSlots(link.charged, chargedTo(link.charged, asked)));
  return [
    ...(more.length === 0 ? [] : [client.debit(heldOf(link, PLAIN_TICKET), more, "adjust")]),
    ...(less.length === 0 ? [] : [client.giveBack([heldOf(link, ticket)], [less], "adjust")]),
  ];
}

function differenceOf(taken: TakenPart["take"], totals: TakenPart["take"]): LevelMove {
  const more: TakenPart["take"][number][] = [];
  const less: TakenPart["take"][number][] = [];
  for (const { limit, milli } of totals) {
    const takenMilli = milliOf(taken, limit);
    if (milli > takenMilli) more.push({ limit, milli: milli - takenMilli });
    if (milli < takenMilli) less.push({ limit, milli: takenMilli - milli });
  }
  return { more, less };
}

/** The totals of measures that some limit of the lease's own resource counts. */
function countedOf({ demands }: LeasePart, totals: Tokens): Tokens {
  const counted = new Set([REQUESTS, ...demands.flatMap(({ link }) => measuresOf(link.charged.limits))]);
  return Object.fromEntries(Object.entries(totals).filter(([measure]) => counted.has(measure)));
}
