import { LOG_KEPT_MS } from "../domain/charge/refusal-log.ts";
import { HOUR_MS, hourOf, namedCounts, type UsageSnapshot } from "../domain/charge/usage.ts";
import { auditIdOf, type StoredConfig } from "../domain/config/config.ts";
import { pieceKey } from "../domain/config/piece.ts";
import { canonical } from "../domain/lease/idempotency.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { CopiedConfig, CopiedKind, CopiedRows } from "../ports/copy-store.ts";
import { bucketsAt } from "./buckets.ts";
import type { Side } from "./side.ts";

/** What was copied of a namespace. */
export interface Copied {
  /** Entities. */
  readonly entities: number;
  /** Plans. */
  readonly plans: number;
  /** Levels of configuration: limits, totals, policies, settings. */
  readonly levels: number;
  /** Owners of declared limits. */
  readonly owners: number;
  /** Buckets, each one however many shards it had. */
  readonly buckets: number;
  /** Hours of usage of a bucket. */
  readonly usageHours: number;
  /** Counts of refusals in an hour. */
  readonly refusalHours: number;
  /** Single refusals. */
  readonly refusals: number;
  /** Events of the audit log. */
  readonly auditEvents: number;
}

/** The instants that the reading of a namespace goes by. */
export interface Reading {
  /** The reading of the source's clock. */
  readonly nowMs: number;
  /** Hours that began before are over; those from then on are read again by every run. */
  readonly openFromMs: number;
  /** The number of rows of the kind that were read before. */
  readonly place: number;
}

/** Something of a namespace that is copied: a row of the table below. */
export interface Kind<Name extends CopiedKind = CopiedKind> {
  readonly kind: Name;
  /** Its name in differences and in the notes of progress. */
  readonly what: string;
  readonly counted?: keyof Copied;
  /** Its rows have several of what is counted: their number is this sum. */
  readonly countedAs?: string;
  /** It changes all the time: a run that goes on reads it from its beginning. */
  readonly isReadAgain?: true;
  read(side: Side, page: PageRequest, reading: Reading): Promise<Page<CopiedRows[Name]>>;
  /** `rows`: each row; `sums`: what they count; `count`: how many there are; `balances`: of buckets, at one instant. */
  readonly compared: "rows" | "sums" | "count" | "balances";
  /** A row as it is compared. */
  keyOf(row: CopiedRows[Name]): string;
  aboutOf(row: CopiedRows[Name]): { readonly entityId?: string; readonly resource?: string };
  sumsOf?(row: CopiedRows[Name]): Iterable<readonly [name: string, count: number]>;
}

/** The name of the record that a copy keeps of itself, among the owners of declared limits; no owner can be called so. */
export const LEDGER = "$COPY";

const DAY_MS = 24 * HOUR_MS;

function kind<Name extends CopiedKind>(row: Kind<Name>): Kind {
  return row as unknown as Kind;
}

function usage(hours: "closed" | "open"): Kind {
  return kind<"usage">({
    ...{ kind: "usage", what: "usage", counted: "usageHours", compared: "sums" },
    ...(hours === "open" ? { isReadAgain: true as const } : {}),
    read: ({ scope }, page, reading) =>
      ifKept(async () => scope.usage.query({ window: "hourly", ...spanOf(hours, reading) }, page)),
    keyOf: ({ windowStartMs, entityId, resource }) => `${windowStartMs}\n${entityId}\n${resource}`,
    aboutOf: ({ entityId, resource }) => ({ entityId, resource }),
    sumsOf: (row) => [["requests", row.requests] as const, ...namedCounts(row)].map(inMonth(row.windowStartMs)),
  });
}

function refusals(hours: "closed" | "open"): Kind {
  return kind<"refusal">({
    ...{ kind: "refusal", what: "refusals", counted: "refusalHours", compared: "sums" },
    ...(hours === "open" ? { isReadAgain: true as const } : {}),
    read: async ({ scope, deps }, page, reading) => {
      if (!scope.refusals.isKept) return { items: [] };
      const found = await scope.refusals.query({ window: "hourly", ...spanOf(hours, reading) }, page);
      const items = found.items.map(({ windowStartMs: hourMs, entityId, resource, limit, level, total, count }) => {
        // A row for each count: a page may end between two of one bucket, and a row is written whole.
        const id = deps.digest.of(`copy\n${limit}\n${level}\n${total}`);
        const counts = [{ limit, level, total, count }];
        return { id, hourMs, entityId, resource, version: reading.nowMs, mustExist: false, counts };
      });
      return { ...found, items };
    },
    keyOf: ({ hourMs, entityId, resource, id }) => `${hourMs}\n${entityId}\n${resource}\n${id}`,
    aboutOf: ({ entityId, resource }) => ({ entityId, resource }),
    sumsOf: ({ hourMs, counts }) => counts.map(({ limit, count }) => [limit, count] as const).map(inMonth(hourMs)),
  });
}

/** Rows of other processes: none of this one goes on with them. */
function refusalLog(hours: "closed" | "open"): Kind {
  return kind<"refusalLog">({
    ...{ kind: "refusalLog", what: "single refusals", counted: "refusals", countedAs: "refusals", compared: "rows" },
    ...(hours === "open" ? { isReadAgain: true as const } : {}),
    read: async ({ scope }, page, reading) => {
      if (!scope.refusals.isKept) return { items: [] };
      const { fromMs, toMs } = spanOf(hours, reading);
      return scope.refusalLog.list({ fromMs: Math.max(fromMs, hourOf(reading.nowMs - LOG_KEPT_MS)), toMs }, page);
    },
    keyOf: ({ hourMs, entityId, id }) => `${hourMs}\n${entityId}\n${id}`,
    aboutOf: ({ entityId }) => ({ entityId }),
    sumsOf: (row) => [["refusals", row.refusals.length]],
  });
}

function callers(hours: "closed" | "open"): Kind {
  return kind<"caller">({
    ...{ kind: "caller", what: "usage of callers", compared: "sums" },
    ...(hours === "open" ? { isReadAgain: true as const } : {}),
    read: async ({ scope: { callers: store }, deps }, page, reading) => {
      if (store?.isKept !== true) return { items: [] };
      const found = await store.query({ window: "hourly", ...spanOf(hours, reading) }, page);
      const id = deps.digest.of("copy");
      const items = found.items.map(({ windowStartMs: hourMs, entityId, resource, counts }) => {
        return { id, hourMs, entityId, resource, version: reading.nowMs, mustExist: false, counts };
      });
      return { ...found, items };
    },
    keyOf: ({ hourMs, entityId, resource }) => `${hourMs}\n${entityId}\n${resource}`,
    aboutOf: ({ entityId, resource }) => ({ entityId, resource }),
    sumsOf: ({ hourMs, counts }) => Object.entries(counts).map(inMonth(hourMs)),
  });
}

/**
 * Everything that is copied, in the order in which it is written: what others refer to first, what changes all the time last. Another
 * kind is a row here, in `CopiedRows`, and in the two writers (`records/copies.ts`, `adapters/dynamodb/copies.ts`).
 */
export const KINDS: readonly Kind[] = [
  kind<"plan">({
    ...{ kind: "plan", what: "plan", counted: "plans", compared: "rows" },
    read: async ({ scope }, page) => scope.plans.list(page),
    keyOf: ({ id }) => id,
    aboutOf: () => ({}),
  }),
  kind<"entity">({
    ...{ kind: "entity", what: "entity", counted: "entities", compared: "rows" },
    read: async ({ scope }, page) => scope.entities.list(page),
    keyOf: ({ id }) => id,
    aboutOf: ({ id }) => ({ entityId: id }),
  }),
  kind<"config">({
    ...{ kind: "config", what: "level", counted: "levels", compared: "rows" },
    read: async ({ scope, keepsUsageDays }, page) => {
      const found = await scope.manifests.listConfigs({}, page);
      return { ...found, items: found.items.flatMap((one) => copiedPart(one, keepsUsageDays)) };
    },
    keyOf: ({ scope }) => canonical(scope),
    aboutOf: ({ scope }) => ({
      entityId: auditIdOf(scope),
      ...("resource" in scope ? { resource: scope.resource } : {}),
    }),
  }),
  kind<"history">({
    ...{ kind: "history", what: "history", compared: "rows" },
    read: async ({ copy }, page) => copy.list("history", page),
    keyOf: ({ key }) => key.join("\n"),
    aboutOf: ({ key: [, entityId, resource] }) => ({ entityId, resource }),
  }),
  kind<"owner">({
    ...{ kind: "owner", what: "owner", counted: "owners", compared: "rows" },
    read: async ({ copy }, page) => {
      const found = await copy.list("owner", page);
      return { ...found, items: found.items.filter(({ owner }) => owner !== LEDGER) };
    },
    keyOf: ({ owner }) => owner,
    aboutOf: () => ({}),
  }),
  kind<"owned">({
    ...{ kind: "owned", what: "ownership", compared: "rows" },
    read: async ({ scope }, page) => scope.manifests.list(page),
    keyOf: ({ piece }) => pieceKey(piece),
    aboutOf: ({ piece: { entityId, resource } }) => ({
      ...(entityId === undefined ? {} : { entityId }),
      ...(resource === undefined ? {} : { resource }),
    }),
  }),
  kind<"audit">({
    ...{ kind: "audit", what: "audit events", counted: "auditEvents", compared: "count" },
    read: async ({ copy }, page, { place }) => {
      const found = await copy.list("audit", page);
      return { ...found, items: found.items.map((event, i) => ({ event, place: place + i })) };
    },
    keyOf: ({ event }) => event.eventId,
    aboutOf: ({ event }) => ({ entityId: event.entityId }),
  }),
  usage("closed"),
  callers("closed"),
  refusals("closed"),
  refusalLog("closed"),
  kind<"bucket">({
    ...{ kind: "bucket", what: "bucket", counted: "buckets", compared: "balances", isReadAgain: true },
    read: (side, page, { nowMs }) => bucketsAt(side, page, nowMs),
    keyOf: ({ key }) => key.id,
    aboutOf: ({ key: { entityId, resource } }) => ({ entityId, resource }),
  }),
  usage("open"),
  callers("open"),
  refusals("open"),
  refusalLog("open"),
];

/** A place of the table, for the record that a copy keeps of itself. */
export function nameOf({ kind: name, isReadAgain }: Kind): string {
  return isReadAgain ? `${name} again` : name;
}

/** Usage that is not kept is empty: there is none to copy, and no place for it. */
async function ifKept(read: () => Promise<Page<UsageSnapshot>>): Promise<Page<UsageSnapshot>> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ValidationError && error.code === "usage_not_kept") return { items: [] };
    throw error;
  }
}

/** Clocks that are ahead have counted in hours to come. */
function spanOf(hours: "closed" | "open", { openFromMs, nowMs }: Reading) {
  return hours === "closed" ? { fromMs: 0, toMs: openFromMs } : { fromMs: openFromMs, toMs: nowMs + DAY_MS };
}

function inMonth(atMs: number) {
  const month = new Date(atMs).toISOString().slice(0, 7);
  return ([name, count]: readonly [string, number]) => [`${month} ${name}`, count] as const;
}

/** A source stays frozen, its copy is not. Where a store cannot say so, usage is kept as long as it was opened for. */
function copiedPart({ scope, config }: CopiedConfig, keepsUsageDays: boolean): readonly CopiedConfig[] {
  const { frozen: _, usageKeptDays, ...rest }: StoredConfig = config;
  const kept = keepsUsageDays ? { ...rest, ...given({ usageKeptDays }) } : rest;
  const saysNothing = kept.limits.length === 0 && Object.keys(kept).length === 1;
  return saysNothing ? [] : [{ scope, config: kept }];
}
