import { openMemory } from "../adapters/memory/store.ts";
import { clockFrom, systemClock, systemTurns } from "../adapters/system/clock.ts";
import { environment, fromEnvironment, systemWarnings } from "../adapters/system/environment.ts";
import { observableEvents } from "../adapters/system/events.ts";
import { systemDigest, systemRandom } from "../adapters/system/random.ts";
import type { OutageShareOption } from "../domain/config/config.ts";
import { DEFAULT_NAMESPACE, type Namespace } from "../domain/config/namespace.ts";
import { MEMORY_RETENTION } from "../domain/config/retention.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames, requireOption } from "../domain/names/known-names.ts";
import { checkNamespace, shown } from "../domain/names/names.ts";
import { pagesOf } from "../domain/names/paging.ts";
import { namespaceMissing } from "../engine/limiter/namespaces.ts";
import type { EngineDeps, Settings } from "../engine/limiter/settings.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import { calendar } from "./limits.ts";
import { countsCallers, refuseRetention, retentionOf } from "./retention.ts";
import {
  OPEN_OPTIONS,
  type OpenOptions,
  STORES_OF_OPTION,
  type StoreKind,
  shownStore,
  storeOfEnvironment,
} from "./store-kinds.ts";

/**
 * Twice what is meant to be in use at once: the older half is dropped when the younger is full. Of an id that is forgotten, limits are
 * read again, which costs some ten times a take from memory.
 */
const BUCKETS_MAX = 200_000;

/** The store in memory has no options of its own. */
const MEMORY: StoreKind = {
  written: '"memory"',
  options: [],
  names: (store) => store === "memory",
  open: (_store, options) => openMemory(calendar, retentionOf(options, MEMORY_RETENTION), systemTurns),
};

/** Everything a limiter is made of, from the options of the public edge: the one place that has defaults. */
export async function prepare(
  options: OpenOptions,
  kinds: readonly StoreKind[],
): Promise<{ deps: EngineDeps; settings: Settings }> {
  checkOptions(options);
  const { onUnavailable, strict = false } = options;
  const { unknownEntities = strict ? "refuse" : "allow", unnamedLimits = strict ? "refuse" : "warn" } = options;
  const namespace = checkNamespace(options.namespace ?? fromEnvironment("ZAEL_NAMESPACE") ?? DEFAULT_NAMESPACE);
  const configTtlMs = checkMs("configTtlMs", options.configTtlMs ?? 60_000, 0);
  const denyMemoryMs = checkMs("denyMemoryMs", options.denyMemoryMs ?? 1_000, 0);
  const timeoutMs = checkMs("timeoutMs", options.timeoutMs ?? 1_000, 1);
  if (options.adminTimeoutMs !== undefined) checkMs("adminTimeoutMs", options.adminTimeoutMs, 1);
  if (typeof onUnavailable === "object") checkShare(onUnavailable);
  else checkChoice("onUnavailable", onUnavailable, ["allow", "block"]);
  checkChoice("unknownEntities", options.unknownEntities, ["allow", "refuse"]);
  checkChoice("unnamedLimits", options.unnamedLimits, ["allow", "warn", "refuse"]);
  checkChoice("durability", options.durability, ["normal", "full"]);
  for (const name of ["create", "strict", "coalesce", "countRefusals", "refusalLog", "sharedTable", "exact"] as const)
    checkChoice(name, options[name], [true, false]);
  const countCallers = countsCallers(options);
  const given = options.clock === undefined ? undefined : clockFrom(checkClock(options.clock));
  const store = await openStore(
    options.store === undefined ? storeOfEnvironment(environment()) : options.store,
    { ...options, denyMemoryMs, timeoutMs },
    kinds,
  );
  try {
    const clock = clockOf(store, given, options);
    const found = (await store.namespaces.get(namespace)) ?? (await beingCopied(store, namespace));
    if (found === undefined) throw namespaceMissing(namespace);
    return {
      deps: {
        store,
        scope: store.scope(found.id),
        clock,
        calendar,
        random: systemRandom,
        digest: systemDigest,
        events: observableEvents(),
        turns: systemTurns,
        warnings: systemWarnings(placeOf(options.store)),
      },
      settings: {
        namespace,
        namespaceId: () => found.id,
        configTtlMs,
        denyMemoryMs: options.denyMemoryMs === undefined && store.name === "memory" ? 0 : denyMemoryMs,
        timeoutMs,
        onUnavailable,
        unknownEntities,
        unnamedLimits,
        countRefusals: options.countRefusals ?? true,
        refusalLog: options.refusalLog ?? true,
        countCallers,
        bucketsMax: BUCKETS_MAX,
      },
    };
  } catch (error) {
    // A store that was given stays the caller's.
    if (typeof options.store !== "object") await store.close();
    throw error;
  }
}

/**
 * A namespace that a copy fills, so that there is a limiter with which the copy can go on: no tokens can be taken there. It is looked for
 * only where there is no other of the name.
 */
async function beingCopied({ namespaces }: Store, name: string): Promise<Namespace | undefined> {
  for await (const { items } of pagesOf((from) => namespaces.listOrphans({ limit: 100, ...from }))) {
    const found = items.find((orphan) => orphan.status === "copying" && orphan.name === name);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Where a store is that others of this process may open too; undefined: nobody else has it. */
function placeOf(store: OpenOptions["store"] = storeOfEnvironment(environment())): string | undefined {
  return typeof store === "string" && store !== "memory" ? store : undefined;
}

/** Opens the store that is named, of one of these kinds or in memory; one that is open already is answered as it is. */
export async function openStore(
  store: string | Store,
  options: OpenOptions,
  kinds: readonly StoreKind[],
): Promise<Store> {
  if (typeof store === "object" && store !== null && typeof store.scope === "function") {
    refuseRetention(options, store.name);
    return store;
  }
  const all = [MEMORY, ...kinds];
  const kind = typeof store === "string" ? all.find(({ names }) => names(store)) : undefined;
  for (const [name, whose] of Object.entries(STORES_OF_OPTION) as [keyof typeof STORES_OF_OPTION, string][]) {
    if (kind === undefined || options[name] === undefined || kind.options.includes(name)) continue;
    throw new ValidationError(
      "option_invalid",
      `${name} is for ${whose}, and the store is ${shownStore(store)}; leave it out, or name another store.`,
    );
  }
  const opened = await kind?.open(store as string, options, calendar);
  if (opened !== undefined) return opened;
  throw new ValidationError(
    "store_unknown",
    `Unknown store ${shownStore(store)}; give ${all.map(({ written }) => written).join(", ")}, or a store object.`,
  );
}

/** A limiter must use the clock of its store, where the store has one. */
function clockOf(store: Store, given: Clock | undefined, { store: asked }: OpenOptions): Clock {
  if (given !== undefined && store.clock !== undefined && typeof asked === "object") {
    throw new ValidationError(
      "option_invalid",
      `The store ${store.name} has its own clock; pass \`clock\` where that store is opened.`,
    );
  }
  return given ?? store.clock ?? systemClock;
}

function checkOptions(options: OpenOptions): void {
  if (typeof options === "string") {
    throw new ValidationError(
      "options_invalid",
      `RateLimiter.open takes options, not ${shownStore(options)}; give { store: ${shownStore(options)} }.`,
    );
  }
  OPEN_OPTIONS.check(options, "The options of RateLimiter.open");
}

function checkMs(name: string, value: unknown, least: number): number {
  const isValid = Number.isSafeInteger(value) && (value as number) >= least;
  requireOption(name, value, isValid, `whole milliseconds, at least ${least}`);
  return value as number;
}

function checkChoice(name: string, value: unknown, choices: readonly unknown[]): void {
  const known = choices.map((choice) => JSON.stringify(choice)).join(" or ");
  requireOption(name, value, value === undefined || choices.includes(value), known);
}

const SHARE = new KnownNames<OutageShareOption>({ share: true });

function checkShare(given: OutageShareOption | null): void {
  const share = given === null ? undefined : SHARE.check(given, "onUnavailable").share;
  if (typeof share === "number" && share > 0 && share <= 1) return;
  throw new ValidationError(
    "on_unavailable_invalid",
    `onUnavailable is ${given === null ? "null" : `a share of ${shown(share)}`}; give { share } above 0 and at most 1, "allow" or "block".`,
  );
}

function checkClock<Given extends { now(): number }>(clock: Given): Given {
  requireOption("clock", clock, typeof clock?.now === "function", "an object with now(): milliseconds");
  return clock;
}
