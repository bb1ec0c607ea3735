import type { TestContext } from "node:test";
import { createLog } from "../../src/aggregator/log.ts";
import { Metrics } from "../../src/aggregator/metrics.ts";
import { type ObjectStore, openS3 } from "../../src/aggregator/objects.ts";
import { type Archive, Receipts } from "../../src/aggregator/write-archive.ts";
import type { DynamodbLocal } from "../dynamodb/dynamodb-local.ts";
import { recordsOn } from "../dynamodb/store-kit.ts";
import type { S3Server } from "../s3/moto.ts";
import { S3Proxy } from "../s3/s3-proxy.ts";

export const CREDENTIALS = { accessKeyId: "test", secretAccessKey: "test" };

/** An archive in a bucket of its own, whose receipts lie in a table of their own. */
export interface ArchiveGround {
  readonly archive: Archive;
  readonly objects: ObjectStore;
  readonly receipts: Receipts;
  readonly metrics: Metrics;
  readonly proxy: S3Proxy;
  readonly bucket: string;
  readonly logged: string[];
}

export async function newArchive(
  t: TestContext,
  { dynamodb, s3 }: { readonly dynamodb: DynamodbLocal; readonly s3: S3Server },
  prefix: string,
): Promise<ArchiveGround> {
  const table = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
  t.after(() => dynamodb.client.send("DeleteTable", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 }));
  const bucket = await s3.newBucket();
  const proxy = await S3Proxy.open(t, s3.endpoint);
  const objects = await openS3({
    ...{ bucket, prefix, region: "us-east-1", endpoint: proxy.endpoint, credentials: CREDENTIALS, pathStyle: true },
  });
  t.after(() => objects.close());
  const receipts = new Receipts(recordsOn(dynamodb, table));
  const metrics = new Metrics();
  const logged: string[] = [];
  const log = createLog({ level: "info", write: (line) => logged.push(line), now: () => 0 });
  return { archive: { objects, receipts, metrics, log }, objects, receipts, metrics, proxy, bucket, logged };
}

export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) found.push(item);
  return found;
}

export const EVERYTHING = { namespaceId: undefined, fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
