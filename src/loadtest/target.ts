import type { DynamoAnswer, DynamoCall, DynamoClient, DynamoOperation } from "../adapters/dynamodb/client.ts";
import { openDynamo } from "../adapters/dynamodb/store.ts";
import { connect } from "../adapters/dynamodb/store-connect.ts";
import { settle, steadyMs, systemClock } from "../adapters/system/clock.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import { calendar } from "../entry/limits.ts";
import { openNamed, RateLimiter } from "../entry/rate-limiter.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";

/** The cost of answers, as DynamoDB told it. */
export interface Units {
  readonly calls: number;
  /** Capacity units of the table and its indexes together. */
  readonly reads: number;
  readonly writes: number;
}

const READS: ReadonlySet<DynamoOperation> = new Set(["GetItem", "BatchGetItem", "Query", "Scan"]);

/** A way to DynamoDB that adds up what goes over it. */
class MeteredClient implements DynamoClient {
  readonly #client: DynamoClient;
  #calls = 0;
  #reads = 0;
  #writes = 0;

  constructor(client: DynamoClient) {
    this.#client = client;
  }

  async send(operation: DynamoOperation, body: string, { timeoutMs }: DynamoCall): Promise<DynamoAnswer> {
    // Put before what is there: requests are text. The quick way to an item would pass over what the answer says of its cost.
    const answer = await this.#client.send(operation, `{"ReturnConsumedCapacity":"TOTAL",${body.slice(1)}`, {
      timeoutMs,
    });
    this.#calls += 1;
    if (READS.has(operation)) this.#reads += unitsIn(answer);
    else this.#writes += unitsIn(answer);
    return answer;
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  units(): Units {
    return { calls: this.#calls, reads: this.#reads, writes: this.#writes };
  }
}

/** A condition that did not hold costs a write, which the answer does not say. */
const REFUSED_WRITE_UNITS = 1;

function unitsIn(answer: DynamoAnswer): number {
  if (answer.kind === "failed" && answer.code === "ConditionalCheckFailedException") return REFUSED_WRITE_UNITS;
  if (answer.kind !== "answered") return 0;
  const told = [answer.body.ConsumedCapacity ?? []].flat() as readonly { readonly CapacityUnits?: number }[];
  return told.reduce((units, { CapacityUnits = 0 }) => units + CapacityUnits, 0);
}

/** The store that a load test runs on. */
export type LoadTarget =
  | { readonly kind: "memory" }
  | { readonly kind: "named"; readonly store: string }
  | { readonly kind: "dynamodb"; readonly table: TargetTable };

/** The way to a DynamoDB table, as the options and the environment say it. */
export interface TargetTable {
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
  /** The cost until now, as the store told it; undefined where it does not tell. */
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
