import { openDynamo } from "../adapters/dynamodb/store.ts";
import { connect } from "../adapters/dynamodb/store-connect.ts";
import { settle, steadyMs, systemClock } from "../adapters/system/clock.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import { calendar } from "../entry/limits.ts";
import { openPostgres } from "../entry/postgres.ts";
import { RateLimiter } from "../entry/rate-limiter.ts";
import { MeteredClient, type Units } from "./metered-client.ts";

/** The store that a load test runs on. */
export type LoadTarget =
  | { readonly kind: "memory" }
  | { readonly kind: "sqlite"; readonly file: string }
  | { readonly kind: "postgres"; readonly url: string }
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
  if (target.kind === "postgres") return openSchema(target.url, { namespace, timeoutMs });
  // A load test neither makes nor migrates a file.
  const own = target.kind === "memory" ? { store: "memory" } : { store: `sqlite:${target.file}`, create: false };
  const limiter = await RateLimiter.open({ ...own, namespace, timeoutMs });
  return { limiter, now: () => systemClock.now(), units: () => undefined, close: () => limiter.close() };
}

async function openSchema(url: string, { namespace, timeoutMs }: TargetOptions): Promise<OpenTarget> {
  const store = await openPostgres({ url, create: false, adminTimeoutMs: timeoutMs });
  try {
    const limiter = await RateLimiter.open({ store, namespace, timeoutMs });
    const clock = store.clock ?? systemClock;
    const close = async () => {
      await limiter.close();
      await store.close();
    };
    return { limiter, now: () => clock.now(), units: () => undefined, close };
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
  try {
    const opened = await openDynamo({
      ...{ ...connection, client, table: stack, calendar, random: jitter, ids: systemRandom, shared },
      ...{ exact: false, coalesce: true, denyMemoryMs: 1_000, timeoutMs, adminTimeoutMs: timeoutMs, settle },
    });
    const store = Object.assign(opened, { clock: connection.clock });
    const limiter = await RateLimiter.open({ store, namespace, timeoutMs });
    const close = async () => {
      await limiter.close();
      await store.close();
    };
    return { limiter, now: () => connection.clock.now(), units: () => client.units(), close };
  } catch (error) {
    await client.close();
    throw error;
  }
}
