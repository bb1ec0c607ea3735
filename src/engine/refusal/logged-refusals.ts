import {
  compareLogged,
  isLogged,
  LOG_KEPT_MS,
  type LoggedRefusal,
  type LogPlace,
  type LogQuery,
  logCursor,
  loggedRefusal,
  type PlacedRefusal,
  placedIn,
  placeOfLogCursor,
} from "../../domain/charge/refusal-log.ts";
import { HOUR_MS, hourOf } from "../../domain/charge/usage.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { checkInstant, checkSpan } from "../../domain/names/instant.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkEntityId, checkLimitName, checkResource, shown } from "../../domain/names/names.ts";
import { type Page, type PageRequest, pagesOf } from "../../domain/names/paging.ts";
import type { RefusalLogStore } from "../../ports/usage-store.ts";

/** Which single refusals to answer. */
export interface RefusalLogRequest {
  /** Requests of this entity. Default: of all. */
  readonly entityId?: string;
  /** Requests for this resource. Default: for all. */
  readonly resource?: string;
  /** The name of the limit that refused. Default: all limits. */
  readonly limit?: string;
  /** Refusals from this instant on, in ms since 1970. Default: all that are kept. */
  readonly fromMs?: number;
  /** Refusals before this instant. Default: to the end. */
  readonly toMs?: number;
  /** Refusals on a page, at most 1,000. Default: 100. */
  readonly pageSize?: number;
  /** The `cursor` of the page before. Default: the first page. */
  readonly cursor?: string;
}

const REQUEST = new KnownNames<RefusalLogRequest>({
  ...{ entityId: true, resource: true, limit: true, fromMs: true, toMs: true, pageSize: true, cursor: true },
});

const PAGE_MAX = 1_000;
const PAGE_DEFAULT = 100;

/** The query of a request, and the first page that it asks for. */
export function logQuery(request: RefusalLogRequest, nowMs: number): LogQuery {
  const { entityId, resource, limit, ...span } = REQUEST.check(request, "The query of refusalLog");
  const fromMs = checkInstant("fromMs", span.fromMs, nowMs) ?? Number.NEGATIVE_INFINITY;
  const toMs = checkInstant("toMs", span.toMs, nowMs) ?? Number.POSITIVE_INFINITY;
  checkSpan({ name: "fromMs", ms: fromMs }, { name: "toMs", ms: toMs });
  return {
    ...(entityId === undefined ? {} : { entityId: checkEntityId(entityId) }),
    ...(resource === undefined ? {} : { resource: checkResource(resource) }),
    ...(limit === undefined ? {} : { limit: checkLimitName(limit) }),
    ...{ fromMs, toMs },
  };
}

export function logPage({ pageSize: limit = PAGE_DEFAULT, cursor }: RefusalLogRequest): PageRequest {
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > PAGE_MAX) {
    const is = `pageSize is ${shown(limit)}`;
    throw new ValidationError("page_invalid", `${is}; give a whole number from 1 to ${PAGE_MAX}.`);
  }
  return { limit, ...given({ cursor }) };
}

/** Rows read at a time. */
const ROWS_AT_ONCE = 100;

/**
 * A page of the log, newest first. Rows are read hour by hour: once there are enough refusals that are newer than the hour of the last row,
 * no other row can have one that belongs before them. `unwritten` are those of this process, which the store may have by now.
 */
export async function readLog(
  store: Pick<RefusalLogStore, "list">,
  query: LogQuery,
  { limit, cursor }: PageRequest,
  { unwritten, nowMs }: { readonly unwritten: readonly PlacedRefusal[]; readonly nowMs: number },
): Promise<Page<LoggedRefusal>> {
  const after = placeOfLogCursor(cursor);
  const kept = { ...query, fromMs: Math.max(query.fromMs, nowMs - LOG_KEPT_MS + 1) };
  const newest = new Newest(limit + 1, kept, after);
  newest.add(unwritten);
  // Clocks that are ahead have logged in hours to come.
  const lastMs = Math.min(kept.toMs - 1, after?.atMs ?? Number.POSITIVE_INFINITY, nowMs + 24 * HOUR_MS);
  const hours = { fromMs: hourOf(kept.fromMs), toMs: hourOf(lastMs) + HOUR_MS, ...given({ entityId: query.entityId }) };
  if (hours.fromMs < hours.toMs) {
    for await (const { items, cursor: next } of pagesOf((from) =>
      store.list(hours, { limit: ROWS_AT_ONCE, mayBeShort: true, ...from }),
    )) {
      for (const row of items) newest.add(placedIn(row));
      const last = items.at(-1);
      if (next !== undefined && last !== undefined && newest.isFullAfter(last.hourMs + HOUR_MS)) break;
    }
  }
  const found = newest.all();
  const items = found.slice(0, limit).map(loggedRefusal);
  const lastShown = found[limit - 1];
  return found.length > limit && lastShown !== undefined ? { items, cursor: logCursor(lastShown) } : { items };
}

/** The newest of many refusals, each once. */
class Newest {
  readonly #most: number;
  readonly #query: LogQuery;
  readonly #after: LogPlace | undefined;
  #found = new Map<string, PlacedRefusal>();

  constructor(most: number, query: LogQuery, after: LogPlace | undefined) {
    this.#most = most;
    this.#query = query;
    this.#after = after;
  }

  add(refusals: readonly PlacedRefusal[]): void {
    for (const one of refusals) {
      if (!isLogged(one, this.#query)) continue;
      if (this.#after !== undefined && compareLogged(one, this.#after) <= 0) continue;
      this.#found.set(`${one.id}\n${one.number}`, one);
    }
    if (this.#found.size > 4 * this.#most + CUT_AT) this.#cut();
  }

  /** True if so many as are wanted are of this instant or later. */
  isFullAfter(fromMs: number): boolean {
    let newer = 0;
    for (const { atMs } of this.#found.values()) if (atMs >= fromMs) newer++;
    return newer >= this.#most;
  }

  all(): readonly PlacedRefusal[] {
    this.#cut();
    return [...this.#found.values()];
  }

  #cut(): void {
    const sorted = [...this.#found].sort(([, a], [, b]) => compareLogged(a, b));
    this.#found = new Map(sorted.slice(0, this.#most));
  }
}

/** Refusals in memory beyond which those that cannot be on the page are dropped. */
const CUT_AT = 1_000;
