import { DynamoItems } from "../../src/adapters/dynamodb/items.ts";
import { OwnerStamps } from "../../src/adapters/dynamodb/items-owner.ts";
import { type DynamoStoreOptions, dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { clockFrom } from "../../src/adapters/system/clock.ts";
import { TRUSTED_CLOCK } from "../../src/clock/clock-bounds.ts";
import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { RateLimiter } from "../../src/entry/index.ts";
import type { ScopedStore, Store } from "../../src/ports/store.ts";
import { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { optionsFor } from "../dynamodb/store-kit.ts";
import { SHARED_FAULTLESS, type SharedFaulty } from "../protocol/faulty-shared-clients.ts";
import type { Shared } from "./kit.ts";

/** What a trace comes to with a client that keeps a rule and with one that lacks it. */
export async function played<Outcome>(
  faulty: SharedFaulty,
  trace: (client: SharedFaulty) => Promise<Outcome>,
): Promise<{ readonly on: Outcome; readonly off: Outcome }> {
  return { on: await trace(SHARED_FAULTLESS), off: await trace(faulty) };
}

/** A process of ours on the store as it is; `options` may say that it does not know that the table is shared. */
export function ourWith(shared: Shared, options: Partial<DynamoStoreOptions>): Promise<RateLimiter> {
  return limiterOver(shared, storeOf(shared, options));
}

/** A process of ours whose buckets are written by such a client. */
export function ourLacking(shared: Shared, client: SharedFaulty): Promise<RateLimiter> {
  const base = storeOf(shared, { shared: true });
  const scopes = new Map<string, ScopedStore>();
  const scope = (namespaceId: string): ScopedStore => {
    const known = scopes.get(namespaceId) ?? scopeOf(base, namespaceId, shared, client);
    scopes.set(namespaceId, known);
    return known;
  };
  return limiterOver(shared, overriding<Store>(base, { scope }));
}

/** The buckets of such a client, for what no limiter does of its own accord. */
export async function bucketsLacking(shared: Shared, client: SharedFaulty): Promise<ProtocolBuckets> {
  const namespaceId = await shared.namespaceId();
  const { config } = storeOf(shared, { shared: true }).scope(namespaceId);
  const { dialect, readings = new ConfigReadings() } = client();
  return bucketsOf(shared, namespaceId, { dialect, readings, config });
}

function limiterOver(shared: Shared, store: Store): Promise<RateLimiter> {
  return shared.our({ store: Object.assign(store, { clock: clockOf(shared) }), clock: undefined as never });
}

function storeOf(shared: Shared, options: Partial<DynamoStoreOptions>): Store {
  const { dynamodb, table } = shared;
  return dynamoOver(optionsFor(dynamodb.client, table, { shared: true, clock: clockOf(shared), ...options }));
}

function clockOf(shared: Shared) {
  return clockFrom({ now: () => shared.now() });
}

function scopeOf(base: Store, namespaceId: string, shared: Shared, client: SharedFaulty): ScopedStore {
  const scope = base.scope(namespaceId);
  const { dialect, readings = new ConfigReadings() } = client();
  // The buckets know a reading of configuration by its number, so the same counter has to number them.
  const config = overriding(scope.config, {
    resolve: async (...asked) => {
      const reading = readings.begin();
      return { ...(await scope.config.resolve(...asked)), reading };
    },
  });
  return { ...scope, config, buckets: bucketsOf(shared, namespaceId, { dialect, readings, config: scope.config }) };
}

function bucketsOf(
  shared: Shared,
  namespaceId: string,
  { config, ...client }: Required<ReturnType<SharedFaulty>> & Pick<ScopedStore, "config">,
): ProtocolBuckets {
  const { table: tableName, dynamodb, records } = shared;
  const common = { clock: clockOf(shared), random: Math.random };
  const resolveNow = async ({ entityId, resource }: BucketKey) => config.resolve(entityId, resource);
  const items = new DynamoItems({
    ...{ ...common, client: dynamodb.client, tableName, namespaceId },
    ...{ listTimeoutMs: 10_000, auditKeptS: 60, auditIdOf: ({ eventId }) => eventId },
    owners: new OwnerStamps(namespaceId, { records, reader: { resolveNow } }),
  });
  return new ProtocolBuckets({
    ...{ ...common, ...client, items, calendar: createCalendar() },
    ...{ coalesce: true, exact: false, denyMemoryMs: 0 },
    serverTime: TRUSTED_CLOCK,
    usageKeptS: () => 0,
    bucketsMax: 20_000,
  });
}
