import type { DynamoDBStreamsClient } from "@aws-sdk/client-dynamodb-streams";
import type { DynamoClient } from "../adapters/dynamodb/client.ts";
import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import { readFaultOf, unavailable } from "../adapters/dynamodb/errors.ts";
import { LimiterError } from "../domain/names/errors.ts";
import { loadStreams } from "./optional.ts";
import type { StreamRecord } from "./stream-record.ts";
import type { StreamOpened, StreamPosition, StreamRead, StreamShard, StreamSource } from "./stream-source.ts";

interface DynamoStreamOptions {
  readonly table: string;
  /** For the table itself. */
  readonly client: DynamoClient;
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
  readonly credentials: Credentials | CredentialsProvider | undefined;
}

/** The stream that a table has now. `close` ends the connections. */
export async function openDynamoStream(options: DynamoStreamOptions): Promise<StreamSource & { close(): void }> {
  const { arn, label } = await streamOf(options);
  const sdk = await loadStreams();
  const { region, endpoint, credentials } = options;
  const client = new sdk.DynamoDBStreamsClient({
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials: credentials as never }),
    maxAttempts: ATTEMPTS_MAX,
    requestHandler: { connectionTimeout: CONNECT_TIMEOUT_MS, requestTimeout: REQUEST_TIMEOUT_MS },
  });
  return new DynamoStream(sdk, client, { arn, label });
}

const ATTEMPTS_MAX = 3;
const CONNECT_TIMEOUT_MS = 3_000;
const REQUEST_TIMEOUT_MS = 30_000;
const DESCRIBE_TIMEOUT_MS = 10_000;

async function streamOf({ table, client }: DynamoStreamOptions): Promise<{ arn: string; label: string }> {
  const body = JSON.stringify({ TableName: table });
  const answer = await client.send("DescribeTable", body, { timeoutMs: DESCRIBE_TIMEOUT_MS });
  if (answer.kind !== "answered") throw unavailable("describe", table, readFaultOf(answer, table));
  const { LatestStreamArn, LatestStreamLabel, StreamSpecification } = answer.body.Table as {
    LatestStreamArn?: string;
    LatestStreamLabel?: string;
    StreamSpecification?: { StreamEnabled?: boolean; StreamViewType?: string };
  };
  if (StreamSpecification?.StreamEnabled !== true || LatestStreamArn === undefined) {
    throw new LimiterError(
      "stream_missing",
      `The table "${table}" has no stream, so expired items cannot be archived; turn one on with NEW_AND_OLD_IMAGES.`,
    );
  }
  const { StreamViewType: view = "" } = StreamSpecification;
  if (view !== "NEW_AND_OLD_IMAGES" && view !== "OLD_IMAGE") {
    throw new LimiterError(
      "stream_view",
      `The stream of the table "${table}" has ${view}, without old images; it needs NEW_AND_OLD_IMAGES or OLD_IMAGE.`,
    );
  }
  return {
    arn: LatestStreamArn,
    label: LatestStreamLabel ?? LatestStreamArn.slice(LatestStreamArn.lastIndexOf("/") + 1),
  };
}

type Sdk = typeof import("@aws-sdk/client-dynamodb-streams");

class DynamoStream implements StreamSource {
  readonly label: string;
  readonly #sdk: Sdk;
  readonly #client: DynamoDBStreamsClient;
  readonly #arn: string;

  constructor(
    sdk: Sdk,
    client: DynamoDBStreamsClient,
    { arn, label }: { readonly arn: string; readonly label: string },
  ) {
    this.#sdk = sdk;
    this.#client = client;
    this.#arn = arn;
    this.label = label;
  }

  async shards(): Promise<{ shards: readonly StreamShard[]; isOver: boolean }> {
    const shards: StreamShard[] = [];
    let isOver = false;
    let after: string | undefined;
    do {
      const start = after === undefined ? {} : { ExclusiveStartShardId: after };
      const command = new this.#sdk.DescribeStreamCommand({ StreamArn: this.#arn, ...start });
      const { StreamDescription } = await this.#client.send(command);
      for (const { ShardId, ParentShardId, SequenceNumberRange } of StreamDescription?.Shards ?? []) {
        const isClosed = SequenceNumberRange?.EndingSequenceNumber !== undefined;
        if (ShardId !== undefined) shards.push({ id: ShardId, parentId: ParentShardId, isClosed });
      }
      isOver = StreamDescription?.StreamStatus === "DISABLED";
      after = StreamDescription?.LastEvaluatedShardId;
    } while (after !== undefined);
    return { shards, isOver };
  }

  async open(shardId: string, position: StreamPosition): Promise<StreamOpened> {
    const input = {
      ...{ StreamArn: this.#arn, ShardId: shardId, ShardIteratorType: TYPES[position.kind] },
      ...(position.kind === "after" ? { SequenceNumber: position.sequence } : {}),
    };
    try {
      const { ShardIterator } = await this.#client.send(new this.#sdk.GetShardIteratorCommand(input));
      return ShardIterator === undefined ? { kind: "trimmed" } : { kind: "opened", iterator: ShardIterator };
    } catch (cause) {
      const { name } = cause as Error;
      // A shard that is gone as a whole is not found.
      if (name === "TrimmedDataAccessException" || name === "ResourceNotFoundException") return { kind: "trimmed" };
      return busyOrThrow(cause);
    }
  }

  async read(iterator: string): Promise<StreamRead> {
    try {
      const command = new this.#sdk.GetRecordsCommand({ ShardIterator: iterator });
      const { Records = [], NextShardIterator } = await this.#client.send(command);
      return { kind: "records", records: Records as readonly StreamRecord[], next: NextShardIterator };
    } catch (cause) {
      const { name } = cause as Error;
      if (name === "ExpiredIteratorException") return { kind: "expired" };
      if (name === "TrimmedDataAccessException") return { kind: "trimmed" };
      return busyOrThrow(cause);
    }
  }

  close(): void {
    this.#client.destroy();
  }
}

const TYPES = { oldest: "TRIM_HORIZON", latest: "LATEST", after: "AFTER_SEQUENCE_NUMBER" } as const;

/** What the SDK has tried in vain may be better later; what is not allowed will not be. */
function busyOrThrow(cause: unknown): { readonly kind: "busy"; readonly cause: unknown } {
  const { name, $metadata } = cause as Error & { $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode ?? 0;
  const isTransient = status === 0 || status >= 500 || /Throttl|LimitExceeded|Timeout/.test(name);
  if (isTransient && name !== "CredentialsProviderError") return { kind: "busy", cause };
  const { message } = cause as Error;
  throw new LimiterError("stream_refused", `The table's stream cannot be read (${name}: ${message}).`, { cause });
}
