import { Records } from "../adapters/dynamodb/records.ts";
import { dynamoOver } from "../adapters/dynamodb/store.ts";
import { type Connection, connect, locate } from "../adapters/dynamodb/store-connect.ts";
import { checkVersion, readVersion } from "../adapters/dynamodb/version.ts";
import { clockFrom, settle, steadyMs, systemClock } from "../adapters/system/clock.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import { Aggregator } from "../aggregator/aggregator.ts";
import { checkLogLevel, type LogLevel } from "../aggregator/log.ts";
import { type ObjectStore, openS3, parseArchiveLocation } from "../aggregator/objects.ts";
import { checkSnapshots, type SnapshotWindow } from "../aggregator/snapshots.ts";
import { requireOption } from "../domain/names/known-names.ts";
import type { Clock } from "../ports/system.ts";
import type { DynamoTable } from "./dynamodb.ts";
import { calendar } from "./limits.ts";

/** Which table, and what to do with it. */
export interface AggregatorOptions extends DynamoTable {
  /** Whether the Python original writes to this table too; its usage is then left to it. Default: `false`. */
  readonly sharedTable?: boolean;
  /**
   * Where to archive audit events that expire: `s3://BUCKET` or `s3://BUCKET/PREFIX`. Default: nothing is archived,
   * and the stream is not read.
   */
  readonly archive?: string;
  /** Another address for S3, such as `http://localhost:5000`. Default: the address of the region. */
  readonly s3Endpoint?: string;
  /** The sweep closes hours of usage this many hours after their end. Default: 2. */
  readonly sweepAfterHours?: number;
  /** Windows to copy into the layout of the Python original, for its readers. Default: none. */
  readonly snapshots?: readonly SnapshotWindow[];
  /** The least serious level that is logged. Ids of entities are logged at `"debug"` only. Default: `"info"`. */
  readonly logLevel?: LogLevel;
  /** Called with each line of logs or metrics. Default: standard error; in a Lambda function, standard output. */
  readonly write?: (line: string) => void;
  /** A clock for tests and simulations, used as it is. Default: the system clock, corrected to the server's time. */
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
}

/** The connection to a table, by its options. */
export function connected({ clock, ...table }: DynamoTable & Pick<AggregatorOptions, "clock">): Promise<Connection> {
  const { region, endpoint, credentials, client } = table;
  const given = clock === undefined ? undefined : clockFrom(clock);
  const profile = fromEnvironment("AWS_PROFILE");
  return connect({ region, endpoint, credentials, client, given, profile, local: systemClock, steadyMs });
}

const TIMEOUT_MS = 10_000;
const SWEEP_AFTER_HOURS = 2;

/** Opens a table that is there. Makes nothing. */
export async function openAggregator(
  options: AggregatorOptions,
  { runner, write }: { readonly runner: string | undefined; readonly write: (line: string) => void },
): Promise<Aggregator> {
  const checked = checkedOptions(options);
  const { region, credentials, sharedTable: shared = false } = options;
  const { client, clock, serverTime } = await connected(options);
  try {
    const base = { client, clock, random: jitter, ids: systemRandom };
    const records = new Records({ ...base, tableName: options.stack, timeoutMs: TIMEOUT_MS });
    checkVersion(await readVersion(records), { name: options.stack, shared });
    const store = dynamoOver({
      ...{ ...base, table: options.stack, calendar, shared, serverTime },
      ...{ coalesce: true, exact: false, denyMemoryMs: 0, timeoutMs: TIMEOUT_MS, adminTimeoutMs: TIMEOUT_MS },
      settle,
    });
    return new Aggregator({
      ...{ stack: options.stack, client, records, store, ...checked },
      objects: options.archive === undefined ? undefined : await openObjects({ ...options, archive: options.archive }),
      place: { region, endpoint: await streamsEndpoint(options), credentials },
      runner: runner ?? systemRandom.id(),
      ...{ write: options.write ?? write, clock, random: jitter, ids: systemRandom },
    });
  } catch (error) {
    await client.close();
    throw error;
  }
}

/** Where an archive is. */
export interface ArchivePlace extends Pick<DynamoTable, "region" | "credentials"> {
  /** `s3://BUCKET` or `s3://BUCKET/PREFIX`. */
  readonly archive: string;
  /** Another address for S3. Default: the address of the region. */
  readonly s3Endpoint?: string;
}

export async function openObjects({ archive, s3Endpoint, region, credentials }: ArchivePlace): Promise<ObjectStore> {
  const named = s3Endpoint ?? fromEnvironment("AWS_ENDPOINT_URL_S3") ?? fromEnvironment("AWS_ENDPOINT_URL");
  const location = parseArchiveLocation(archive);
  // Servers other than AWS seldom have a host name for each bucket.
  return openS3({ ...location, region, endpoint: s3Endpoint, credentials, pathStyle: named !== undefined });
}

/** DynamoDB Local has its streams where its tables are; AWS has hosts of their own for them, which the SDK knows. */
async function streamsEndpoint({ region, endpoint, client }: AggregatorOptions): Promise<string | undefined> {
  if (endpoint !== undefined || client !== undefined) return endpoint;
  const { endpoint: found } = await locate({ region, endpoint, profile: fromEnvironment("AWS_PROFILE") });
  return found === undefined || /\.(amazonaws\.com(\.cn)?|api\.aws)(:\d+)?(\/|$)/.test(found) ? undefined : found;
}

function checkedOptions(options: AggregatorOptions) {
  const { sweepAfterHours = SWEEP_AFTER_HOURS } = options;
  // Before anything is asked of the table.
  if (options.archive !== undefined) parseArchiveLocation(options.archive);
  return {
    sweepAfterHours: checkWhole("sweepAfterHours", sweepAfterHours, 0),
    snapshots: options.snapshots === undefined ? [] : checkSnapshots(options.snapshots),
    logLevel: checkLogLevel(options.logLevel ?? "info"),
  };
}

function checkWhole(name: string, value: unknown, least: number): number {
  const isValid = Number.isSafeInteger(value) && (value as number) >= least;
  requireOption(name, value, isValid, `a whole number, at least ${least}`);
  return value as number;
}
