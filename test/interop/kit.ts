import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import type { TestContext } from "node:test";
import type { Attributes, AttributeValue } from "../../src/adapters/dynamodb/codec.ts";
import type { Records } from "../../src/adapters/dynamodb/records.ts";
import { itemTableKey } from "../../src/adapters/dynamodb/schema.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { prepareTable } from "../../src/entry/dynamodb.ts";
import { type AcquireRequest, type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import type { DynamodbLocal } from "../dynamodb/dynamodb-local.ts";
import { recordsOn } from "../dynamodb/store-kit.ts";
import { T0 } from "../kit/contract-kit.ts";
import { RELEASE } from "./environment.ts";
import { type Ask, Original } from "./original.ts";
import { OriginalProcess } from "./original-process.ts";

// One table, both on it. Time stands still until a test lets it pass, for both at once; round trips are real, and those of the
// original can be held up.

export const REGION = "us-east-1";
export const CREDENTIALS = { accessKeyId: "test", secretAccessKey: "test" };

let original: OriginalProcess | undefined;

/** One process of the original a file: a test has clients of its own in it. */
export function originalProcess(): OriginalProcess {
  original ??= new OriginalProcess();
  return original;
}

export interface SharedOptions {
  /** Whose code makes the table and its version record. */
  readonly madeBy?: "ours" | "original";
  /** Time as it is, instead of a clock that stands still. */
  readonly realTime?: boolean;
}

export class Shared {
  readonly dynamodb: DynamodbLocal;
  readonly table: string;
  readonly records: Records;
  readonly #realTime: boolean;
  readonly #closing: (() => Promise<unknown>)[] = [];
  #nowMs = T0;
  #namespaceId: string | undefined;

  private constructor(dynamodb: DynamodbLocal, table: string, realTime: boolean) {
    this.dynamodb = dynamodb;
    this.table = table;
    this.records = recordsOn(dynamodb, table);
    this.#realTime = realTime;
  }

  static async on(dynamodb: DynamodbLocal, t: TestContext, options: SharedOptions = {}): Promise<Shared> {
    const { madeBy = "ours", realTime = false } = options;
    const { endpoint, client } = dynamodb;
    const where = { endpoint, region: REGION };
    // Nothing expires: by a clock that stands still it would be long ago.
    const table =
      madeBy === "ours"
        ? await dynamodb.newTable({ gsi2Projection: "ALL", expiry: false })
        : `interop-${process.pid}-${randomBytes(6).toString("hex")}`;
    if (madeBy === "ours") await prepareTable({ ...where, stack: table, credentials: CREDENTIALS });
    // With the record that its deployment leaves: where it cannot ask for its functions it forbids itself half of what it can.
    else await originalProcess().ask("create_table", { ...where, table, lambda_version: RELEASE });
    const shared = new Shared(dynamodb, table, realTime);
    await originalProcess().ask("clock", { ms: realTime ? null : shared.#nowMs });
    t.after(async () => {
      await Promise.all(shared.#closing.map((close) => close()));
      await client.send("DeleteTable", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 });
    });
    return shared;
  }

  now(): number {
    return this.#nowMs;
  }

  /** Puts the clock of both. */
  async at(nowMs: number): Promise<void> {
    this.#nowMs = nowMs;
    await originalProcess().ask("clock", { ms: nowMs });
  }

  /** Lets time pass, for both. */
  pass(ms: number): Promise<void> {
    return this.at(this.#nowMs + ms);
  }

  /** A process of ours. It remembers no refusals: a refusal shall be the table's word. */
  async our(options: Partial<OpenOptions> = {}): Promise<RateLimiter> {
    const limiter = await RateLimiter.open({
      ...{
        store: `dynamodb:${this.table}`,
        endpoint: this.dynamodb.endpoint,
        region: REGION,
        credentials: CREDENTIALS,
      },
      ...{ sharedTable: true, denyMemoryMs: 0, timeoutMs: 10_000 },
      ...(this.#realTime ? {} : { clock: { now: () => this.#nowMs } }),
      ...options,
    });
    this.#closing.push(() => limiter.close());
    return limiter;
  }

  /** A process of the original. It remembers no refusals either. */
  async their(options: TheirOptions = {}): Promise<Original> {
    const { namespace = "default", how = "open", ...more } = options;
    const name = await originalProcess().ask<string>("open", {
      ...{ how, namespace, table: this.table, region: REGION, endpoint: this.dynamodb.endpoint },
      options: { rejection_cache_ttl: 0, ...more },
    });
    const client = new Original(originalProcess(), name);
    this.#closing.push(() => client.close());
    return client;
  }

  /** A shard of a bucket as it is stored. */
  async item(shard = 0, entityId: string = ADA.entityId): Promise<Attributes> {
    const item = await this.found(shard, entityId);
    assert.ok(item !== undefined, `there is no shard ${shard} of ${entityId}`);
    return item;
  }

  async found(shard: number, entityId: string = ADA.entityId): Promise<Attributes | undefined> {
    return this.records.get(
      itemTableKey(await this.namespaceId(), { bucket: bucketKey(entityId, ADA.resource), shard }),
    );
  }

  /** Changes attributes of a shard behind everybody's back; undefined removes one. */
  async tamper(attributes: Readonly<Record<string, AttributeValue | undefined>>, shard = 0): Promise<void> {
    const kept = Object.entries({ ...(await this.item(shard)), ...attributes }).filter(
      ([, value]) => value !== undefined,
    );
    const input = JSON.stringify({ TableName: this.table, Item: Object.fromEntries(kept) });
    const answer = await this.dynamodb.client.send("PutItem", input, { timeoutMs: 10_000 });
    assert.equal(answer.kind, "answered");
  }

  async namespaceId(name = "default"): Promise<string> {
    this.#namespaceId ??= (await (await this.our()).getNamespace(name)).id;
    return this.#namespaceId;
  }
}

export interface TheirOptions {
  readonly how?: "open" | "connect";
  readonly namespace?: string;
  readonly config_cache_ttl?: number;
  readonly rejection_cache_ttl?: number;
}

/** The bucket that most tests are about. */
export const ADA = { entityId: "ada", resource: "api" } as const;

export function ask(consume: Readonly<Record<string, number>>, entityId: string = ADA.entityId): Ask {
  return { entityId, resource: ADA.resource, consume };
}

/** How many of so many requests ours admits, one after the other. */
export async function admitted(limiter: RateLimiter, request: AcquireRequest, times: number): Promise<number> {
  let count = 0;
  for (let i = 0; i < times; i++) if (await grants(limiter, request)) count++;
  return count;
}

/** Whether ours admits it; what was taken stays taken. */
export async function grants(limiter: RateLimiter, request: AcquireRequest): Promise<boolean> {
  const answer = await limiter.tryAcquire(request);
  if (answer.ok) {
    assert.equal(answer.lease.degraded, false, "admitted because the store did not answer");
    await answer.lease.settle();
  }
  return answer.ok;
}

export function numberIn(item: Attributes, name: string): number {
  const text = item[name]?.N;
  assert.ok(text !== undefined, `the item has no ${name}`);
  return Number(text);
}
