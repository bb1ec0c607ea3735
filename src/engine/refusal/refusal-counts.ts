import {
  compareRefusals,
  OTHER,
  positionOfCursor,
  type RefusalCount,
  type RefusalTotal,
  refusalCursor,
  refusalsNotKept,
} from "../../domain/charge/refusal-count.ts";
import type { UsageWindow } from "../../domain/charge/usage.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkEntityId, checkLimitName, checkResource, shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { RefusalQuery } from "../../ports/refusal-store.ts";
import type { GuardedDeps } from "../acquire/guarded-deps.ts";
import { type EventPublisher, reasonOf } from "../limiter/event-publisher.ts";
import { type Listing, listing } from "../limiter/listing.ts";
import type { Settings } from "../limiter/settings.ts";
import { usageQuery } from "../limiter/usage-query.ts";
import type { Refusal } from "./refusal.ts";
import type { BookUser, RefusalBook } from "./refusal-book.ts";

/** Which refusals to answer. */
export interface RefusalRequest {
  /** Requests of this entity. Default: of all. */
  readonly entityId?: string;
  /** Requests for this resource. Default: for all. */
  readonly resource?: string;
  /** The name of the limit that refused. A number means the same as `pageSize`, as in other lists. Default: all limits. */
  readonly limit?: string | number;
  /** How long each window is. */
  readonly window: UsageWindow;
  /** The first window is the one that contains this instant. Default: from the beginning. */
  readonly fromMs?: number;
  /** Only windows that start before this instant. Default: to the end. */
  readonly toMs?: number;
  /** Items on a page, at most 10,000. Default: 1,000. */
  readonly pageSize?: number;
  /** The `cursor` of the page before. Default: the first page. */
  readonly cursor?: string;
}

/** Which refusals to add up. */
export interface RefusalTotalsRequest {
  /** What to add up by: the entity that asked, the resource, or the name of the limit that refused. */
  readonly by: "entity" | "resource" | "limit";
  /** How many to answer, the most refused first. Default: 10. */
  readonly top?: number;
  /** The first hour is the one that contains this instant. Default: from the beginning. */
  readonly fromMs?: number;
  /** Only hours that start before this instant. Default: to the end. */
  readonly toMs?: number;
}

const REQUEST = new KnownNames<RefusalRequest>({
  ...{ entityId: true, resource: true, limit: true, window: true, fromMs: true, toMs: true },
  ...{ pageSize: true, cursor: true },
});
const TOTALS_REQUEST = new KnownNames<RefusalTotalsRequest>({ by: true, top: true, fromMs: true, toMs: true });

const FIELDS = { entity: "entityId", resource: "resource", limit: "limit" } as const;

/** Rows read at a time when they are added up. */
const TOTALS_PAGE = 5_000;

/** Counts what one limiter refuses, and answers how many were refused by all processes on its store. */
export class RefusalCounts {
  readonly #deps: GuardedDeps;
  readonly #settings: Settings;
  readonly #user: BookUser;
  readonly #isCounted: boolean;
  /** Where this limiter has counted. */
  #used: RefusalBook | undefined;

  constructor(deps: GuardedDeps, settings: Settings, publisher: EventPublisher) {
    this.#deps = deps;
    this.#settings = settings;
    this.#user = {
      clock: deps.clock,
      notStored: (about, cause) => {
        const why = cause === undefined ? "the store did not answer" : reasonOf(cause);
        publisher.degraded(about, "refusals_not_stored", `counts of refusals may not be stored: ${why}`, cause);
      },
    };
    this.#isCounted = settings.countRefusals && deps.scope.refusals.isKept;
  }

  /** Counts a request that ended refused. Nobody waits for it, and nothing fails by it. */
  counted(request: { readonly entityId: string; readonly resource: string }, { primary }: Refusal): void {
    if (!this.#isCounted) return;
    const { entityId, resource } = request;
    const total = primary.resource === TOTAL_RESOURCE;
    const key = { entityId, resource, limit: primary.limit, level: primary.entityId, total };
    const count = (book: RefusalBook) => {
      this.#used = book;
      book.count(key, this.#user);
    };
    const book = this.#book();
    if (book instanceof Promise) void book.then(count, () => {});
    else count(book);
  }

  list(request: RefusalRequest): Listing<RefusalCount> {
    const query = refusalQuery(request, this.#deps.clock.now());
    const { cursor } = request;
    const limit = typeof request.limit === "number" ? request.limit : request.pageSize;
    return listing((page) => this.#page(query, page), {
      ...(limit === undefined ? {} : { limit }),
      ...(cursor === undefined ? {} : { cursor }),
    });
  }

  async totals(request: RefusalTotalsRequest): Promise<RefusalTotal[]> {
    const { by, top = 10, ...span } = TOTALS_REQUEST.check(request, "The query of refusalTotals");
    if (!Object.hasOwn(FIELDS, by)) {
      throw new ValidationError("option_invalid", `by is ${shown(by)}; give "entity", "resource" or "limit".`);
    }
    if (!Number.isSafeInteger(top) || top < 1) {
      throw new ValidationError("option_invalid", `top is ${shown(top)}; give a whole number, at least 1.`);
    }
    const field = FIELDS[by];
    const sums = new Map<string, number>();
    for await (const one of this.list({ ...span, window: "hourly", pageSize: TOTALS_PAGE })) {
      sums.set(one[field], (sums.get(one[field]) ?? 0) + one.count);
    }
    const most = [...sums].sort(([a, some], [b, others]) => others - some || (a < b ? -1 : 1)).slice(0, top);
    return most.map(([name, count]) => ({ [field]: name, count }));
  }

  /** Writes what is not written yet, before the limiter closes; before the store does, that of all its limiters. */
  async close(what: "limiter" | "store"): Promise<void> {
    const own = this.#used === undefined ? [] : [this.#used];
    const books = what === "store" ? this.#deps.refusalBooks.all() : own;
    await Promise.all(books.map((book) => book.close(what, this.#user)));
  }

  async #page(query: RefusalQuery, page: PageRequest): Promise<Page<RefusalCount>> {
    if (!this.#settings.countRefusals) throw refusalsNotKept("countRefusals");
    const book = await this.#book();
    return book.reading(query, async (own) => withOwn(await this.#deps.scope.refusals.query(query, page), own, page));
  }

  #book(): RefusalBook | Promise<RefusalBook> {
    const { refusalBooks, random, clock } = this.#deps;
    const id = this.#settings.namespaceId();
    return id instanceof Promise
      ? id.then((known) => refusalBooks.of(known, random, clock.now()))
      : refusalBooks.of(id, random, clock.now());
  }
}

/** A page of the store with what this process has not written yet, as far as it belongs on that page. */
function withOwn(stored: Page<RefusalCount>, own: readonly RefusalCount[], page: PageRequest): Page<RefusalCount> {
  const after = positionOfCursor(page.cursor);
  const last = positionOfCursor(stored.cursor);
  const inside = own.filter(
    (one) =>
      (after === undefined || compareRefusals(one, after) > 0) &&
      (last === undefined || compareRefusals(one, last) <= 0),
  );
  if (inside.length === 0) return stored;
  const sums = new Map<string, RefusalCount>();
  for (const one of [...stored.items, ...inside]) {
    const position = refusalCursor(one);
    sums.set(position, { ...one, count: one.count + (sums.get(position)?.count ?? 0) });
  }
  const all = [...sums.values()].sort(compareRefusals);
  if (all.length <= page.limit) return { ...stored, items: all };
  const items = all.slice(0, page.limit);
  return { items, cursor: refusalCursor(items.at(-1) as RefusalCount) };
}

function refusalQuery(request: RefusalRequest, nowMs: number): RefusalQuery {
  const { entityId, resource, limit, window, fromMs, toMs, pageSize } = REQUEST.check(request, "The query of refusals");
  if (typeof limit === "number" && pageSize !== undefined) {
    throw new ValidationError(
      "page_invalid",
      `limit is ${limit} and pageSize ${shown(pageSize)}; with a pageSize, limit is the name of a limit.`,
    );
  }
  const span = { ...(fromMs === undefined ? {} : { fromMs }), ...(toMs === undefined ? {} : { toMs }) };
  return {
    ...usageQuery({ window, ...span }, nowMs),
    ...(entityId === undefined ? {} : { entityId: nameOrOther(entityId, checkEntityId) }),
    ...(resource === undefined ? {} : { resource: nameOrOther(resource, checkResource) }),
    ...(limit === undefined || typeof limit === "number" ? {} : { limit: nameOrOther(limit, checkLimitName) }),
  };
}

function nameOrOther(name: string, check: (name: unknown) => string): string {
  return name === OTHER ? name : check(name);
}
