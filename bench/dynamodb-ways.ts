import { channel } from "node:diagnostics_channel";
import { Agent } from "node:http";
import { DynamoDB, type UpdateItemCommandInput } from "@aws-sdk/client-dynamodb";
import { RateLimiterDynamo } from "rate-limiter-flexible";
import { Pool } from "undici";
import { openTransport } from "../src/adapters/dynamodb/transport.ts";
import { Limit, RateLimiter } from "../src/entry/index.ts";

/** What is measured, where, and how. */
export interface Scene {
  readonly way: "floor" | "transport" | "ours" | "SDK tuned" | "SDK default" | "rate-limiter-flexible";
  readonly endpoint: string;
  readonly table: string;
  readonly limits: 1 | 2;
  /** Of ours: join claims on one bucket. */
  readonly coalesce: boolean;
  /** Of the limiters: one bucket for all callers, or many. */
  readonly buckets: "many" | "one";
}

/** One acquire, or what stands for it; rejects where it was not granted. */
export type Call = (i: number) => Promise<unknown>;

export const CONCURRENCY = 64;
export const REGION = "us-east-1";
/** As of a role: with a session token, which is sent with each request. */
export const CREDENTIALS = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "secret", sessionToken: "t".repeat(400) };
/** A table of rate-limiter-flexible, beside ours. */
export const flexibleTable = (table: string) => `${table}-flexible`;

// So much to take from and so slow a drip that nobody is refused and no bucket is ever full: each acquire is a plain take.
const CAPACITY = 1_000_000_000;
const LIMITS = (["rpm", "tpm"] as const).map((name) => Limit.perHour(name, 60, { burst: CAPACITY }));
const TOKENS = { rpm: 1, tpm: 500 };
const KEYS = Array.from({ length: 256 }, (_, i) => `user-${i}`);

/** How long to go on: at least both. */
export interface Stint {
  readonly milliseconds: number;
  readonly calls: number;
}

/** What came of it. */
export interface Told {
  readonly calls: number;
  /** Of the process's CPU, a call. */
  readonly microseconds: number;
  /** A call, where that was asked of the store. */
  readonly writeUnits?: number;
}

export async function callOf(scene: Scene): Promise<Call> {
  switch (scene.way) {
    case "ours":
      return ours(scene);
    case "floor":
      return floor(scene);
    case "transport":
      return transport(scene);
    case "SDK tuned":
      return sdk(scene, tunedClient(scene));
    case "SDK default":
      return sdk(scene, new DynamoDB({ region: REGION, endpoint: scene.endpoint, credentials: CREDENTIALS }));
    case "rate-limiter-flexible":
      return flexible(scene);
  }
}

/** Limits of the table, for all scenes on it. */
export async function configure({ endpoint, table }: Pick<Scene, "endpoint" | "table">): Promise<void> {
  const limiter = await openLimiter({ endpoint, table, coalesce: true });
  for (const count of [1, 2]) await limiter.setResourceDefaults(resourceOf(count), LIMITS.slice(0, count));
  await limiter.close();
}

function openLimiter({ endpoint, table, coalesce }: Pick<Scene, "endpoint" | "table" | "coalesce">) {
  return RateLimiter.open({
    ...{ store: `dynamodb:${table}`, endpoint, coalesce, region: REGION, credentials: CREDENTIALS, timeoutMs: 30_000 },
    // While others have their turns it would be forgotten, and then reading it be measured.
    configTtlMs: 3_600_000,
  });
}

function resourceOf(limits: number): string {
  return `limits-${limits}`;
}

async function ours(scene: Scene): Promise<Call> {
  const limiter = await openLimiter(scene);
  const resource = resourceOf(scene.limits);
  const consume: Record<string, number> = scene.limits === 1 ? { rpm: TOKENS.rpm } : TOKENS;
  const entityOf = keysOf(scene);
  return async (i) => {
    const { ok } = await limiter.tryAcquire({ entityId: entityOf(i), resource, consume });
    if (!ok) throw new Error("The bench was refused.");
  };
}

function keysOf({ way, coalesce, buckets }: Scene): (i: number) => string {
  // Each process on buckets of its own: what others write would change how they are written to.
  const prefix = `${way.replaceAll(" ", "-")}-${coalesce ? "joined" : "alone"}-${buckets}`;
  const keys = (buckets === "many" ? KEYS : ["user"]).map((key) => `${prefix}-${key}`);
  return (i) => keys[i % keys.length] as string;
}

/** What an acquire sends, for each bucket, so that it can be sent any number of times: its nonce is never found there. */
async function recorded(scene: Scene): Promise<readonly UpdateItemCommandInput[]> {
  const take = await ours({ ...scene, buckets: "many", coalesce: false });
  for (let i = 0; i < KEYS.length; i++) await take(i);
  const created = channel("undici:request:create");
  const bodies: string[] = [];
  const listen = (message: unknown) => {
    bodies.push(String((message as { readonly request: { readonly body: unknown } }).request.body));
  };
  created.subscribe(listen);
  for (let i = 0; i < KEYS.length; i++) await take(i);
  created.unsubscribe(listen);
  return bodies.map((body) => {
    const input = JSON.parse(body) as UpdateItemCommandInput;
    const value = /<> (:\d+)/.exec(input.ConditionExpression ?? "")?.[1] ?? "";
    const nonce = input.ExpressionAttributeValues?.[value];
    if (nonce?.N === undefined) throw new Error(`The write of an acquire has no nonce: ${body}`);
    nonce.N = `${nonce.N.slice(0, -1)}${(Number(nonce.N.at(-1)) + 5) % 10}`;
    return input;
  });
}

/** The least that HTTP costs here: the same body and as many headers, through undici, the answer thrown away. */
async function floor(scene: Scene): Promise<Call> {
  const bodies = (await recorded(scene)).map((input) => JSON.stringify(input));
  const pool = new Pool(scene.endpoint, { connections: 2 * CONCURRENCY, headersTimeout: 0, bodyTimeout: 0 });
  const signature = `Signature=${"0".repeat(64)}`;
  const signed = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target";
  const headers = [
    ["content-type", "application/x-amz-json-1.0"],
    ["x-amz-date", "20260101T000000Z"],
    ["x-amz-target", "DynamoDB_20120810.UpdateItem"],
    [
      "authorization",
      `AWS4-HMAC-SHA256 Credential=${CREDENTIALS.accessKeyId}/20260101/${REGION}/dynamodb/aws4_request, ${signed}, ${signature}`,
    ],
    ["x-amz-security-token", CREDENTIALS.sessionToken],
  ].flat();
  return (i) =>
    new Promise<void>((resolve, reject) => {
      pool.dispatch(
        { method: "POST", path: "/", headers, body: bodies[i % bodies.length] as string },
        {
          onRequestStart() {},
          onResponseStart: (_controller, status) => {
            if (status !== 200) reject(new Error(`The floor was answered with ${status}.`));
          },
          onResponseData() {},
          onResponseEnd: () => resolve(),
          onResponseError: (_controller, error) => reject(error),
        },
      );
    });
}

/** The same body through our transport: signed, its answer checked and parsed. What an acquire adds to this is the limiter's. */
async function transport(scene: Scene): Promise<Call> {
  const bodies = (await recorded(scene)).map((input) => JSON.stringify(input));
  const { endpoint } = scene;
  const client = await openTransport({ region: REGION, endpoint, credentials: CREDENTIALS, now: Date.now });
  return async (i) => {
    const answer = await client.send("UpdateItem", bodies[i % bodies.length] as string, { timeoutMs: 30_000 });
    if (answer.kind !== "answered") throw new Error("The transport was refused.", { cause: answer });
  };
}

async function sdk(scene: Scene, client: DynamoDB): Promise<Call> {
  const inputs = await recorded(scene);
  return (i) => client.updateItem(inputs[i % inputs.length] as UpdateItemCommandInput);
}

function tunedClient({ endpoint }: Scene): DynamoDB {
  return new DynamoDB({
    region: REGION,
    endpoint,
    credentials: CREDENTIALS,
    maxAttempts: 1,
    cacheMiddleware: true,
    requestHandler: { httpAgent: new Agent({ keepAlive: true, maxSockets: CONCURRENCY }) },
  });
}

/** One of its limiters a limit, as its documentation says. */
async function flexible(scene: Scene): Promise<Call> {
  const storeClient = tunedClient(scene);
  const limiterOf = (keyPrefix: string) =>
    new RateLimiterDynamo({
      storeClient,
      keyPrefix,
      tableName: flexibleTable(scene.table),
      tableCreated: true,
      ttlSet: true,
      points: CAPACITY,
      duration: 3_600,
    });
  const requests = limiterOf("rpm");
  const tokens = limiterOf("tpm");
  const keyOf = keysOf(scene);
  return async (i) => {
    const key = keyOf(i);
    await requests.consume(key, TOKENS.rpm);
    if (scene.limits === 2) await tokens.consume(key, TOKENS.tpm);
  };
}
