import type { DynamoClient } from "../adapters/dynamodb/client.ts";
import { readFaultOf, unavailable } from "../adapters/dynamodb/errors.ts";
import { LimiterError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { loadStreams, type SdkLocation, sdkOptions } from "./sdk-clients.ts";
import type { StreamRecord, StreamShard, StreamSource } from "./stream-source.ts";

interface DynamoStreamOptions extends SdkLocation {
  readonly table: string;
  /** For the table itself. */
  readonly client: DynamoClient;
}

/** The stream that a table has now. `close` ends the connections. */
export async function openDynamoStream(options: DynamoStreamOptions): Promise<StreamSource & { close(): void }> {
  const { arn: StreamArn, label } = await streamOf(options);
  const { DynamoDBStreamsClient, DescribeStreamCommand, GetShardIteratorCommand, GetRecordsCommand } =
    await loadStreams();
  const client = new DynamoDBStreamsClient(sdkOptions(options));
  return {
    label,

    async shards() {
      const shards: StreamShard[] = [];
      let isOver = false;
      let after: string | undefined;
      do {
        const input = given({ StreamArn, ExclusiveStartShardId: after });
        const { StreamDescription } = await client.send(new DescribeStreamCommand(input));
        for (const { ShardId, ParentShardId, SequenceNumberRange } of StreamDescription?.Shards ?? []) {
          const isClosed = SequenceNumberRange?.EndingSequenceNumber !== undefined;
          if (ShardId !== undefined) shards.push({ id: ShardId, parentId: ParentShardId, isClosed });
        }
        isOver = StreamDescription?.StreamStatus === "DISABLED";
        after = StreamDescription?.LastEvaluatedShardId;
      } while (after !== undefined);
      return { shards, isOver };
    },

    async open(ShardId, position) {
      const SequenceNumber = position.kind === "after" ? position.sequence : undefined;
      const input = given({ StreamArn, ShardId, ShardIteratorType: TYPES[position.kind], SequenceNumber });
      try {
        const { ShardIterator } = await client.send(new GetShardIteratorCommand(input));
        return ShardIterator === undefined ? { kind: "trimmed" } : { kind: "opened", iterator: ShardIterator };
      } catch (cause) {
        const { name } = cause as Error;
        // An expired shard is reported as not found.
        if (name === "TrimmedDataAccessException" || name === "ResourceNotFoundException") return { kind: "trimmed" };
        return busyOrThrow(cause);
      }
    },

    async read(iterator) {
      try {
        const answer = await client.send(new GetRecordsCommand({ ShardIterator: iterator }));
        const { Records = [], NextShardIterator } = answer;
        return { kind: "records", records: Records as readonly StreamRecord[], next: NextShardIterator };
      } catch (cause) {
        const { name } = cause as Error;
        if (name === "ExpiredIteratorException") return { kind: "expired" };
        if (name === "TrimmedDataAccessException") return { kind: "trimmed" };
        return busyOrThrow(cause);
      }
    },

    close: () => client.destroy(),
  };
}

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

const TYPES = { oldest: "TRIM_HORIZON", latest: "LATEST", after: "AFTER_SEQUENCE_NUMBER" } as const;

/** Transient faults may end; a missing right will not. */
function busyOrThrow(cause: unknown): { readonly kind: "busy"; readonly cause: unknown } {
  const { name, $metadata } = cause as Error & { $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode ?? 0;
  const isTransient = status === 0 || status >= 500 || /Throttl|LimitExceeded|Timeout/.test(name);
  if (isTransient && name !== "CredentialsProviderError") return { kind: "busy", cause };
  const { message } = cause as Error;
  throw new LimiterError("stream_refused", `The table's stream cannot be read (${name}: ${message}).`, { cause });
}
