import { DynamoItems } from "../../src/adapters/dynamodb/items.ts";
import { type DynamoStoreOptions, dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { clockFrom } from "../../src/adapters/system/clock.ts";
import type { RateLimiter } from "../../src/entry/index.ts";
import { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import { ConfigReadings } from "../../src/protocol/config-readings.ts";
import { ALL_RULES, type Rules } from "../../src/protocol/rules.ts";
import { TRUSTED_CLOCK } from "../../src/protocol/server-time.ts";
import { optionsFor } from "../dynamodb/store-kit.ts";
import type { Shared } from "./kit.ts";

/** What a trace comes to with a rule and without it. */
export async function played<Outcome>(
  rule: keyof Rules,
  trace: (rules: Rules) => Promise<Outcome>,
): Promise<{ readonly on: Outcome; readonly off: Outcome }> {
  return { on: await trace(ALL_RULES), off: await trace({ ...ALL_RULES, [rule]: false }) };
}

/** A process of ours that keeps only some of the rules, or does not know that the table is shared. */
export function ourWith(shared: Shared, options: Partial<DynamoStoreOptions>): Promise<RateLimiter> {
  const clock = clockFrom({ now: () => shared.now() });
  const store = dynamoOver(optionsFor(shared.engine.client, shared.table, { shared: true, clock, ...options }));
  return shared.our({ store: Object.assign(store, { clock }), clock: undefined as never });
}

/** The buckets of a process of ours, for what no limiter does of its own accord. */
export async function bucketsWith(shared: Shared, rules: Rules): Promise<ProtocolBuckets> {
  const clock = clockFrom({ now: () => shared.now() });
  const { table: tableName, engine } = shared;
  const common = { clock, random: Math.random };
  const items = new DynamoItems({
    ...{ ...common, client: engine.client, tableName, namespaceId: await shared.namespaceId() },
    ...{ listTimeoutMs: 10_000, auditKeptS: 60, auditIdOf: ({ eventId }) => eventId },
  });
  return new ProtocolBuckets({
    ...{ ...common, items, rules, calendar: createCalendar(), readings: new ConfigReadings(), shared: true },
    ...{ coalesce: true, exact: false, denyMemoryMs: 0 },
    serverTime: TRUSTED_CLOCK,
  });
}
