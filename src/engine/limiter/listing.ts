import { OTHER } from "../../domain/charge/refusal-count.ts";
import { type UsageWindow, type Windows, windowStartMs } from "../../domain/charge/usage.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import type { LevelOptions } from "../../domain/config/config.ts";
import type { Entity } from "../../domain/config/entity.ts";
import { ending, type LimitsEnding, shownConfig } from "../../domain/config/overrides.ts";
import { planMissing } from "../../domain/config/plan.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { checkInstant, checkSpan } from "../../domain/names/instant.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkBucketResource, checkEntityId, checkPlanId, shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { UsageQuery } from "../../ports/usage-store.ts";
import type { EngineDeps } from "./settings.ts";

/** Which page of a list. */
export interface ListOptions {
  /** Items on a page, at most 10,000. Default: 1,000; 100 for audit events. */
  readonly limit?: number;
  /** The `cursor` of the page before. Default: the first page. */
  readonly cursor?: string;
}

/** A page of a list: an array with a `cursor`. The last page has none. */
export type ListPage<Item> = readonly Item[] & {
  /** Where the next page begins. */
  readonly cursor?: string;
};

const PAGE_MAX = 10_000;

const LIST_OPTIONS = new KnownNames<ListOptions>({ limit: true, cursor: true });

/**
 * A list that may have many pages. `await` it for one page, or use `for await` for all items, page after page.
 *
 * ```ts
 * for await (const entity of limiter.listEntities()) console.log(entity.id);
 * const page = await limiter.listEntities({ limit: 50 });
 * const next = await limiter.listEntities({ limit: 50, cursor: page.cursor });
 * ```
 */
export class Listing<Item, Shown = ListPage<Item>> implements PromiseLike<Shown>, AsyncIterable<Item> {
  readonly #fetch: (page: PageRequest) => MaybePromise<Page<Item>>;
  readonly #from: PageRequest;
  readonly #shape: (page: Page<Item>) => Shown;

  /** @internal */
  constructor(
    fetch: (page: PageRequest) => MaybePromise<Page<Item>>,
    from: PageRequest,
    shape: (page: Page<Item>) => Shown,
  ) {
    this.#fetch = fetch;
    this.#from = from;
    this.#shape = shape;
  }

  /** One page, for `await`. */
  // biome-ignore lint/suspicious/noThenProperty: a list is awaited for its first page.
  then<Fulfilled = Shown, Rejected = never>(
    onFulfilled?: ((page: Shown) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    return this.#first().then(onFulfilled, onRejected);
  }

  /** Everything, page after page, for `for await`. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    const { limit } = this.#from;
    for (let at: PageRequest | undefined = this.#from; at !== undefined; ) {
      const { items, cursor }: Page<Item> = await this.#fetch({ ...at, mayBeShort: true });
      yield* items;
      at = cursor === undefined ? undefined : { limit, cursor };
    }
  }

  async #first(): Promise<Shown> {
    return this.#shape(await this.#fetch(this.#from));
  }
}

/** A list of items as they come. */
export function listing<Item>(
  fetch: (page: PageRequest) => MaybePromise<Page<Item>>,
  options: ListOptions | undefined,
): Listing<Item> {
  if (options !== undefined) LIST_OPTIONS.check(options, "The options of a list");
  return new Listing(fetch, pageRequest(options, 1000), ({ items, cursor }) =>
    Object.assign([...items], cursor === undefined ? {} : { cursor }),
  );
}

function pageRequest(options: ListOptions | undefined, limitDefault: number): PageRequest {
  const { limit = limitDefault, cursor } = options ?? {};
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > PAGE_MAX) {
    throw new ValidationError("page_invalid", `limit is ${shown(limit)}; give a whole number from 1 to ${PAGE_MAX}.`);
  }
  if (cursor !== undefined && typeof cursor !== "string") {
    throw new ValidationError("cursor_invalid", `cursor is ${shown(cursor)}; give the cursor of the previous page.`);
  }
  return { limit, ...given({ cursor }) };
}

/** One set of limits of an entity, with its options. The set without `resource` is the default of the entity. */
export interface StoredSet extends LevelOptions, LimitsEnding {
  /** The resource. Absent: all resources that have no set of their own. */
  readonly resource?: string;
  /** The limits, in the order in which they were set. */
  readonly limits: readonly Limit[];
}

export function limitsListed(
  { scope: { config }, clock }: EngineDeps,
  entityId: string,
  options: ListOptions,
): Listing<StoredSet> {
  checkEntityId(entityId);
  return listing(async (page) => {
    const nowMs = clock.now();
    const { items, cursor } = await config.listForEntity(entityId, nowMs, page);
    const sets = items.map(({ scope, config }) => {
      const { limits, inherit, appliesTo, untilMs, then } = shownConfig(config, nowMs);
      const resource = scope.level === "entity" ? scope.resource : undefined;
      const end = untilMs === undefined ? {} : ending(untilMs, then ?? null);
      return { ...given({ resource }), limits, ...given({ inherit, appliesTo }), ...end };
    });
    return { items: sets, ...given({ cursor }) };
  }, options);
}

/** Events, newest first. */
export type AuditListing = Listing<AuditEvent, { readonly events: readonly AuditEvent[]; readonly cursor?: string }>;

const AUDIT_QUERY = new KnownNames<{ readonly entityId?: string } & ListOptions>({
  ...{ entityId: true, limit: true, cursor: true },
});

export function auditListed({ scope }: EngineDeps, query: { readonly entityId?: string } & ListOptions): AuditListing {
  const { entityId } = AUDIT_QUERY.check(query, "The query of auditEvents");
  const filter = entityId === undefined ? {} : { entityId: checkAuditId(entityId) };
  return new Listing(
    (page) => scope.audit.list(filter, page),
    pageRequest(query, 100),
    ({ items, cursor }) => ({ events: items, ...given({ cursor }) }),
  );
}

/** Ids that begin with `$` stand for resources, plans, namespaces and the system. */
function checkAuditId(id: string): string {
  return /^\$(SYSTEM|(RESOURCE|PLAN|NAMESPACE):[^\s#]+)$/.test(id) ? id : checkEntityId(id);
}

const ENTITY_QUERY = new KnownNames<{ readonly planId?: string } & ListOptions>({
  ...{ planId: true, limit: true, cursor: true },
});

/** All entities, or those that refer to a plan. */
export function entitiesListed(
  { scope: { entities, plans } }: EngineDeps,
  query: { readonly planId?: string } & ListOptions,
): Listing<Entity> {
  const { planId, ...page } = ENTITY_QUERY.check(query, "The query of listEntities");
  if (planId === undefined) return listing((request) => entities.list(request), page);
  checkPlanId(planId);
  return listing(async (request) => {
    const found = await plans.listEntities(planId, request);
    // A missing plan has no entities. Throw, so that a misspelled id is noticed.
    if (found.items.length === 0 && (await plans.get(planId)) === undefined) throw planMissing(planId);
    return found;
  }, page);
}

/** Which usage to answer. */
export interface UsageRequest {
  /** Of this entity. Default: of all. */
  readonly entityId?: string;
  /** Of this resource; `"*"` is the total. Default: of all. */
  readonly resource?: string;
  /** How long each window is. */
  readonly window: UsageWindow;
  /**
   * An IANA time zone: daily and monthly windows begin at midnight there, and have the hours (UTC) that begin in them. Default: UTC.
   */
  readonly tz?: string;
  /** The first window is the one that contains this instant. Default: from the beginning. */
  readonly fromMs?: number;
  /** Only windows that start before this instant. Default: to the end. */
  readonly toMs?: number;
}

export function usageQuery(
  request: UsageRequest,
  { clock, calendar }: Pick<EngineDeps, "clock" | "calendar">,
): UsageQuery {
  const { entityId, resource } = request;
  const nowMs = clock.now();
  const window = windowsOf(request, calendar);
  const fromMs = checkInstant("fromMs", request.fromMs, nowMs);
  const toMs = checkInstant("toMs", request.toMs, nowMs);
  checkSpan({ name: "fromMs", ms: fromMs }, { name: "toMs", ms: toMs });
  return {
    ...(entityId === undefined ? {} : { entityId: entityId === OTHER ? OTHER : checkEntityId(entityId) }),
    ...(resource === undefined ? {} : { resource: resource === OTHER ? OTHER : checkBucketResource(resource) }),
    window,
    fromMs: fromMs === undefined || !Number.isFinite(fromMs) ? 0 : windowStartMs(window, fromMs),
    toMs: toMs ?? Number.MAX_SAFE_INTEGER,
  };
}

const MIDNIGHTS = { daily: "0 0 * * *", monthly: "0 0 1 * *" } as const;

function windowsOf({ window, tz }: Pick<UsageRequest, "window" | "tz">, calendar: Calendar): Windows {
  if (window !== "hourly" && window !== "daily" && window !== "monthly") {
    throw new ValidationError("window_invalid", `window is ${shown(window)}; give "hourly", "daily" or "monthly".`);
  }
  if (tz === undefined) return window;
  if (window === "hourly") {
    throw new ValidationError(
      "option_invalid",
      `tz is ${shown(tz)} with hourly windows, which begin alike everywhere; leave tz out, or give "daily" or "monthly".`,
    );
  }
  const cron = MIDNIGHTS[window];
  const problem =
    typeof tz === "string"
      ? calendar.problemOf(cron, tz, "reset")
      : `tz is ${shown(tz)}; give the name of a time zone, such as "Europe/Berlin".`;
  if (problem !== undefined) throw new ValidationError("tz_invalid", problem);
  return {
    length: window,
    tz,
    startOf: (atMs) => calendar.previousReset(cron, tz, atMs),
    endOf: (startMs) => calendar.nextReset(cron, tz, startMs),
  };
}
