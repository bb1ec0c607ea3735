import type { Amount, Tokens } from "../../domain/charge/amounts.ts";
import {
  type BesideBuckets,
  type CallerAmount,
  type CallerChange,
  type CallerUse,
  callerAmounts,
  changedUse,
  GRANTED,
  REQUESTS_NAME,
  sumsOf,
} from "../../domain/charge/caller-usage.ts";
import { hourOf } from "../../domain/charge/usage.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { CallerStore, CallerSum, UsageQuery } from "../../ports/usage-store.ts";
import type { ChainLink } from "../acquire/chain-link.ts";
import type { GuardedDeps } from "../acquire/guarded-deps.ts";
import { type BookUser, bookUser } from "../book/book.ts";
import { type EventPublisher, reasonOf } from "../limiter/event-publisher.ts";
import type { Settings } from "../limiter/settings.ts";
import type { CallerBook } from "./caller-book.ts";

/** A level of a take on one resource, and how much of its limits was taken. */
interface TakenLevel {
  readonly link: Pick<ChainLink, "bucket" | "charged" | "access">;
  readonly take: readonly Amount[];
}

/** A take on one resource: who asked, and what of it no bucket counts. */
interface CallerTake {
  readonly entityId: string;
  readonly resource: string;
  readonly takenAtMs: number;
  /** Undefined: buckets count all of it. */
  readonly beside: BesideBuckets | undefined;
}

/**
 * What of a take no bucket of the caller counts, by the limits of the take; undefined: all is counted. `link` and `take` are of the
 * caller, `several` has all levels if there are more.
 */
export function besideBuckets(
  consume: Tokens | undefined,
  link: TakenLevel["link"],
  take: readonly Amount[],
  several: readonly TakenLevel[] | undefined,
): BesideBuckets | undefined {
  const isCounted = take.length > 0;
  if (isCounted && (consume === undefined || isAllCounted(consume, link))) return undefined;
  const levels = several ?? [{ link, take }];
  const counting = levels.map(({ link }) => ({
    limits: link.charged.limits,
    isTotal: link.bucket.resource === TOTAL_RESOURCE,
  }));
  const named = Object.entries(consume ?? {}).map(([limit, tokens]) => ({ limit, milli: (tokens ?? 0) * 1000 }));
  const amounts = callerAmounts(named, counting);
  if (isCounted && amounts === undefined) return undefined;
  return {
    levels: counting,
    bypass: link.access === "bypass",
    amounts: amounts ?? [],
    request: requestBeside(isCounted, levels),
  };
}

/** Who counts a request, by the levels that it took from. `isCounted`: the bucket of the caller does. */
export function requestBeside(isCounted: boolean, levels: readonly TakenLevel[]): BesideBuckets["request"] {
  if (isCounted) return "counted";
  const isTaken = levels.some(({ link, take }) => take.length > 0 && link.bucket.resource !== TOTAL_RESOURCE);
  return isTaken ? "covered" : "alone";
}

// Part of every take: most name what the limits of the caller are called.
function isAllCounted(consume: Tokens, { charged: { limits, isByName } }: TakenLevel["link"]): boolean {
  if (!isByName) return false;
  for (const name in consume) {
    let isKnown = false;
    for (let i = 0; i < limits.length && !isKnown; i++) isKnown = limits[i]?.name === name;
    if (!isKnown) return false;
  }
  return true;
}

/** Counts what granted requests ask of their own entities beside the buckets, and how many were granted. */
export class CallerUsage {
  readonly #deps: GuardedDeps;
  readonly #settings: Settings;
  readonly #user: BookUser;
  readonly #isCounted: boolean;
  /** The book of this limiter, once it was needed. */
  #used: CallerBook | undefined;

  constructor(deps: GuardedDeps, settings: Settings, publisher: EventPublisher) {
    this.#deps = deps;
    this.#settings = settings;
    this.#user = bookUser(deps.clock, ({ entityId, resource }, cause) => {
      const why = cause === undefined ? "the store did not answer" : reasonOf(cause);
      const about = { entityId: entityId === GRANTED ? "" : entityId, resource };
      publisher.degraded(about, "usage_not_stored", `usage of callers may not be stored: ${why}`, cause);
    });
    this.#isCounted = settings.countCallers && deps.scope.callers?.isKept === true;
  }

  get isCounted(): boolean {
    return this.#isCounted;
  }

  /** Counts a granted request, in the background. */
  granted(resource: string, part: CallerTake, others: readonly CallerTake[]): void {
    if (!this.#isCounted) return;
    const { takenAtMs } = part;
    if (this.#used !== undefined) this.#used.granted(resource, takenAtMs, this.#user);
    else this.#withBook((book) => book.granted(resource, takenAtMs, this.#user));
    if (part.beside !== undefined) this.#taken(part, part.beside);
    for (let i = 0; i < others.length; i++) {
      const other = others[i] as CallerTake;
      if (other.beside !== undefined) this.#taken(other, other.beside);
    }
  }

  /** Counts a change of a lease, and answers its use after it. `request`: the change is one more that no bucket of the caller counts. */
  changed(
    at: { readonly entityId: string; readonly resource: string },
    use: CallerUse,
    {
      named,
      how,
      request,
    }: { readonly named: readonly Amount[]; readonly how: CallerChange } & {
      readonly request?: BesideBuckets["request"];
    },
  ): CallerUse {
    const changed = changedUse(use, named, how);
    this.differed(at, use.bypass, changed.difference, request ?? "counted");
    return changed.use;
  }

  /** Counts a difference in this hour. */
  differed(
    at: { readonly entityId: string; readonly resource: string },
    bypass: boolean,
    difference: readonly CallerAmount[],
    request: BesideBuckets["request"],
  ): void {
    if (difference.length === 0 && request === "counted") return;
    this.#add({ ...at, hourMs: hourOf(this.#deps.clock.now()) }, bypass, difference, request);
  }

  /** The entity was deleted: what is unwritten of it is not written any more. */
  forget(entityId: string): void {
    this.#used?.forget(entityId);
  }

  /** Writes unwritten counts before the limiter closes; before the store closes, those of all its limiters. */
  async close(what: "limiter" | "store"): Promise<void> {
    const own = this.#used === undefined ? [] : [this.#used];
    const books = what === "store" ? this.#deps.callerBooks.all() : own;
    await Promise.all(books.map((book) => book.close(what, this.#user)));
  }

  /** Pages of the book; undefined: nothing is kept. */
  get pages(): ((query: UsageQuery, page: PageRequest) => Promise<Page<CallerSum>>) | undefined {
    const { callers } = this.#deps.scope;
    if (callers?.isKept !== true) return undefined;
    const read: CallerStore["query"] = (query, page) => callers.query(query, page);
    return async (query, page) => (await this.#book()).page(query, page, read);
  }

  #taken({ entityId, resource, takenAtMs }: CallerTake, { bypass, amounts, request }: BesideBuckets): void {
    this.#add({ entityId, resource, hourMs: hourOf(takenAtMs) }, bypass, amounts, request);
  }

  #add(
    place: { readonly entityId: string; readonly resource: string; readonly hourMs: number },
    bypass: boolean,
    amounts: readonly CallerAmount[],
    request: BesideBuckets["request"],
  ): void {
    if (!this.#isCounted) return;
    this.#withBook((book) => {
      for (const amount of amounts) {
        for (const sum of sumsOf(amount, bypass)) book.add(place, sum, amount.milli / 1000, this.#user);
      }
      if (request === "counted") return;
      book.add(place, { name: REQUESTS_NAME, isAlone: request === "alone" }, 1, this.#user);
    });
  }

  #withBook(count: (book: CallerBook) => void): void {
    const book = this.#used ?? this.#book();
    if (book instanceof Promise) void book.then(count, () => {});
    else count(book);
  }

  #book(): CallerBook | Promise<CallerBook> {
    if (this.#used !== undefined) return this.#used;
    const { callerBooks, random, clock } = this.#deps;
    const of = (id: string) => {
      this.#used = callerBooks.of(id, random, clock.now());
      return this.#used;
    };
    const id = this.#settings.namespaceId();
    return id instanceof Promise ? id.then(of) : of(id);
  }
}
