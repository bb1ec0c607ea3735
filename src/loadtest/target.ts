import { openDynamo } from "../adapters/dynamodb/store.ts";
import { connect } from "../adapters/dynamodb/store-connect.ts";
import { settle, steadyMs, systemClock } from "../adapters/system/clock.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import { calendar } from "../entry/limits.ts";
import { openNamed, RateLimiter } from "../entry/rate-limiter.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import { MeteredClient, type Units } from "./metered-client.ts";

/** The store that a load test runs on. */
export type LoadTarget =
  | { readonly kind: "memory" }
  | { readonly kind: "named"; readonly store: string }
  | { readonly kind: "dynamodb"; readonly table: TargetTable };

interface TargetTable {
  readonly stack: string;
  readonly region?: string;
  readonly endpoint?: string;
  readonly sharedTable?: boolean;
}

/** A limiter of one process of the test. */
export interface OpenTarget {
  readonly limiter: RateLimiter;
  /** The clock by which its buckets are refilled, in ms. */
  now(): number;
  /** What the store said that it cost until now; undefined where it does not tell. */
  units(): Units | undefined;
  close(): Promise<void>;
}

interface TargetOptions {
  readonly namespace: string;
  readonly timeoutMs: number;
}

export async function openTarget(target: LoadTarget, { namespace, timeoutMs }: TargetOptions): Promise<OpenTarget> {
  if (target.kind === "dynamodb") return openTable(target.table, { namespace, timeoutMs });
  // A load test neither makes nor migrates a store.
  const own = { store: target.kind === "memory" ? "memory" : target.store, create: false, adminTimeoutMs: timeoutMs };
  const store = await openNamed(own);
  return limiterOn(store, store.clock ?? systemClock, { namespace, timeoutMs }, () => undefined);
}

/** A limiter on a store that is closed with it. */
async function limiterOn(
  store: Store,
  clock: Clock,
  options: TargetOptions,
  units: OpenTarget["units"],
): Promise<OpenTarget> {
  try {
    const limiter = await RateLimiter.open({ store, ...options });
    const close = async () => {
      await limiter.close();
      await store.close();
    };
    return { limiter, now: () => clock.now(), units, close };
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function openTable(table: TargetTable, { namespace, timeoutMs }: TargetOptions): Promise<OpenTarget> {
  const { stack, region, endpoint, sharedTable: shared = false } = table;
  const connection = await connect({
    ...{ region, endpoint, credentials: undefined, client: undefined, given: undefined },
    ...{ profile: fromEnvironment("AWS_PROFILE"), local: systemClock, steadyMs },
  });
  const client = new MeteredClient(connection.client);
  const opened = await openDynamo({
    ...{ ...connection, client, table: stack, calendar, random: jitter, ids: systemRandom, shared },
    ...{ exact: false, coalesce: true, denyMemoryMs: 1_000, timeoutMs, adminTimeoutMs: timeoutMs, settle },
  }).catch(async (error: unknown) => {
    await client.close();
    throw error;
  });
  const store = Object.assign(opened, { clock: connection.clock });
  return limiterOn(store, connection.clock, { namespace, timeoutMs }, () => client.units());
}
