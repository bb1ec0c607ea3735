import {
  compareRefusals,
  OTHER,
  positionOfCursor,
  type RefusalCount,
  type RefusalTotal,
  refusalCursor,
  refusalsNotKept,
} from "../../domain/charge/refusal-count.ts";
import {
  type LoggedRefusal,
  type LogQuery,
  refusalLogNotKept,
  shortRequestId,
} from "../../domain/charge/refusal-log.ts";
import type { Status } from "../../domain/charge/status.ts";
import type { UsageWindow } from "../../domain/charge/usage.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkEntityId, checkLimitName, checkResource, shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { RefusalQuery } from "../../ports/usage-store.ts";
import type { GuardedDeps } from "../acquire/guarded-deps.ts";
import type { AcquireRequest } from "../acquire/request.ts";
import { type BookUser, bookUser } from "../book/book.ts";
import { type EventPublisher, reasonOf } from "../limiter/event-publisher.ts";
import { type Listing, listing, usageQuery } from "../limiter/listing.ts";
import type { Settings } from "../limiter/settings.ts";
import { logPage, logQuery, type RefusalLogRequest, readLog } from "./logged-refusals.ts";
import type { Refusal } from "./refusal.ts";
import type { RefusalBook } from "./refusal-book.ts";

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

/** Counts the refusals of one limiter, and lists those of all processes on its store. */
export class RefusalCounts {
  readonly #deps: GuardedDeps;
  readonly #settings: Settings;
  readonly #user: BookUser;
  readonly #isCounted: boolean;
  /** The book of this limiter, once it has counted. */
  #used: RefusalBook | undefined;

  constructor(deps: GuardedDeps, settings: Settings, publisher: EventPublisher) {
    this.#deps = deps;
    this.#settings = settings;
    this.#user = bookUser(deps.clock, (about, cause) => {
      const why = cause === undefined ? "the store did not answer" : reasonOf(cause);
      publisher.degraded(about, "refusals_not_stored", `counts of refusals may not be stored: ${why}`, cause);
    });
    this.#isCounted = settings.countRefusals && deps.scope.refusals.isKept;
  }

  /** Counts a refused request in the background, and keeps it by itself. `waitedMs` undefined: it did not wait. */
  counted(request: RefusedRequest, refusal: Refusal, waitedMs: number | undefined): void {
    if (!this.#isCounted) return;
    const refused = loggedOf(request, refusal.primary, waitedMs, this.#deps.clock.now());
    const count = (book: RefusalBook) => {
      this.#used = book;
      book.count(refused, this.#settings.refusalLog, this.#user);
    };
    const book = this.#book();
    if (book instanceof Promise) void book.then(count, () => {});
    else count(book);
  }

  list(request: RefusalRequest): Listing<RefusalCount> {
    const query = refusalQuery(request, this.#deps);
    const { cursor } = request;
    const limit = typeof request.limit === "number" ? request.limit : request.pageSize;
    return listing((page) => this.#page(query, page), given({ limit, cursor }));
  }

  /** Single refusals, newest first. */
  log(request: RefusalLogRequest): Listing<LoggedRefusal> {
    const query = logQuery(request, this.#deps.clock.now());
    return listing((page) => this.#logPage(query, page), logPage(request));
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

  /** Writes unwritten counts before the limiter closes; before the store closes, those of all its limiters. */
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

  async #logPage(query: LogQuery, page: PageRequest): Promise<Page<LoggedRefusal>> {
    const { countRefusals, refusalLog } = this.#settings;
    if (!countRefusals) throw refusalsNotKept("countRefusals");
    if (!refusalLog) throw refusalLogNotKept();
    // Counts that are written meanwhile are in both, and shown once.
    const unwritten = (await this.#book()).unwrittenLog(query);
    const { scope, clock } = this.#deps;
    return readLog(scope.refusalLog, query, page, { unwritten, nowMs: clock.now() });
  }

  #book(): RefusalBook | Promise<RefusalBook> {
    const { refusalBooks, random, clock } = this.#deps;
    const id = this.#settings.namespaceId();
    return id instanceof Promise
      ? id.then((known) => refusalBooks.of(known, random, clock.now()))
      : refusalBooks.of(id, random, clock.now());
  }
}

/** A request that was refused. */
type RefusedRequest = Pick<AcquireRequest, "entityId" | "resource" | "requestId">;

function loggedOf(
  { entityId, resource, requestId }: RefusedRequest,
  primary: Status,
  waitedMs: number | undefined,
  atMs: number,
): LoggedRefusal {
  const { limit, counts, entityId: level, requested, available, capacity, retryAfterMs } = primary;
  const logged: LoggedRefusal = {
    ...{ atMs, entityId, resource, limit, counts, level, total: primary.resource === TOTAL_RESOURCE },
    ...{ requested, available, capacity },
    retryAfterMs: Number.isFinite(retryAfterMs) ? retryAfterMs : null,
  };
  const named = requestId === undefined ? undefined : shortRequestId(String(requestId));
  return waitedMs === undefined && named === undefined
    ? logged
    : { ...logged, ...given({ waitedMs, requestId: named }) };
}

/** Adds the unwritten counts of this process that belong on the page. */
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

function refusalQuery(request: RefusalRequest, deps: GuardedDeps): RefusalQuery {
  const { entityId, resource, limit, window, fromMs, toMs, pageSize } = REQUEST.check(request, "The query of refusals");
  if (typeof limit === "number" && pageSize !== undefined) {
    throw new ValidationError(
      "page_invalid",
      `limit is ${limit} and pageSize ${shown(pageSize)}; with a pageSize, limit is the name of a limit.`,
    );
  }
  return {
    ...usageQuery({ window, ...given({ fromMs, toMs }) }, deps),
    window,
    ...(entityId === undefined ? {} : { entityId: nameOrOther(entityId, checkEntityId) }),
    ...(resource === undefined ? {} : { resource: nameOrOther(resource, checkResource) }),
    ...(limit === undefined || typeof limit === "number" ? {} : { limit: nameOrOther(limit, checkLimitName) }),
  };
}

function nameOrOther(name: string, check: (name: unknown) => string): string {
  return name === OTHER ? name : check(name);
}
