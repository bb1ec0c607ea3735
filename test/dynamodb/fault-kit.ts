import assert from "node:assert/strict";
import { after, before, type TestContext } from "node:test";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import { prepareTable } from "../../src/adapters/dynamodb/table-admin.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import {
  type Lease,
  Limit,
  type OpenOptions,
  RateLimitExceeded,
  RateLimiter,
  RateLimiterUnavailable,
} from "../../src/entry/index.ts";
import { isDeep } from "../depth.ts";
import type { DynamodbLocal } from "./dynamodb-local.ts";
import { nonceOf } from "./fault-passages.ts";
import { AFTER, BEFORE, type Fault, FaultProxy } from "./fault-proxy.ts";

/** What a child may have, and what both children together may have of their parent. */
export const CAPACITY = 20;
/** Longer than any answer takes that is not held up on purpose. */
export const PATIENT_MS = 30_000;
/** For requests that hang: so long they are waited for, in real time. On a busy machine others may be too slow for it. */
export const HASTY_MS = 1_000;

/** Every fault of one request, by its name. */
export const FAULTS: readonly (readonly [string, Fault])[] = Object.entries({ ...BEFORE, ...AFTER });

const OF_EACH_KIND: readonly string[] = [
  ...["the request is dropped", "the item is throttled", "a transaction is in the way"],
  ...["the answer is dropped", "the connection is reset before the answer got through"],
];

/** For stories that are told of one fault after the other: all in a deep run, and otherwise one of each kind. */
export const SOME_FAULTS = isDeep ? FAULTS : FAULTS.filter(([name]) => OF_EACH_KIND.includes(name));

const LIMIT = "rpd";
const STANDING_MS = 1_800_000_000_000;
const KEYS = { accessKeyId: "test", secretAccessKey: "test" };
const PROCESSES = 3;
const PRIMED = 1;
const OPENED_MAX = 50;
const AT_ONCE = 8;
const ATTEMPTS_MAX = 20;

/** Two children that charge one parent, on a resource of their own. */
interface Family {
  readonly resource: string;
  readonly parent: string;
  readonly ada: string;
  readonly bob: string;
}

export interface FaultGround {
  /** A family of its own on the table of the suite, behind a proxy of its own. */
  scene(t: TestContext): Promise<Scene>;
}

export function faultGround(dynamodb: DynamodbLocal): FaultGround {
  let table = "";
  let founder: RateLimiter;
  let families = 0;
  before(async () => {
    table = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    const base = { client: dynamodb.client, clock: systemClock, random: Math.random, ids: systemRandom };
    await prepareTable({ ...base, table, version: "0.0.0", timeoutMs: 60_000 });
    founder = await RateLimiter.open(wayTo(dynamodb.endpoint, table));
    await founder.setSystemDefaults([Limit.perDay(LIMIT, CAPACITY)]);
  });
  after(async () => {
    await founder.close();
    await dynamodb.client.send("DeleteTable", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 });
  });
  return {
    scene: async (t) => {
      const n = ++families;
      const family = { resource: `api-${n}`, parent: `team-${n}`, ada: `ada-${n}`, bob: `bob-${n}` };
      await founder.createEntity({ id: family.parent });
      for (const id of [family.ada, family.bob]) {
        await founder.createEntity({ id, parentId: family.parent, cascade: true });
      }
      return new Scene(t, { dynamodb, table, family, founder, proxy: await FaultProxy.open(t, dynamodb.endpoint) });
    },
  };
}

function wayTo(endpoint: string, table: string): OpenOptions {
  return {
    ...{ store: `dynamodb:${table}`, endpoint, region: "eu-west-1", credentials: KEYS },
    ...{ clock: { now: () => STANDING_MS }, timeoutMs: PATIENT_MS, denyMemoryMs: 0 },
    // A limiter that closes writes them down, for as long as a request may take; the proxy is gone by then.
    countRefusals: false,
    usage: { callers: false },
  };
}

interface SceneParts {
  readonly dynamodb: DynamodbLocal;
  readonly table: string;
  readonly family: Family;
  readonly proxy: FaultProxy;
  /** Goes past the proxy. */
  readonly founder: RateLimiter;
}

/** A family behind a proxy. Time stands still, so nothing is refilled: what was granted is gone until it is given back. */
export class Scene {
  readonly proxy: FaultProxy;
  readonly family: Family;
  readonly table: string;
  readonly #dynamodb: DynamodbLocal;
  readonly #founder: RateLimiter;
  readonly #t: TestContext;

  constructor(t: TestContext, parts: SceneParts) {
    this.#t = t;
    this.#founder = parts.founder;
    this.#dynamodb = parts.dynamodb;
    this.table = parts.table;
    this.family = parts.family;
    this.proxy = parts.proxy;
  }

  /** Each limiter is a process of its own. */
  async open(options: Partial<OpenOptions> = {}): Promise<RateLimiter> {
    const limiter = await RateLimiter.open({ ...wayTo(this.proxy.endpoint, this.table), ...options });
    this.#t.after(() => limiter.close());
    return limiter;
  }

  /**
   * Processes that have met ada and the parent, each with a slot for its nonces that no other has. One token of each child is
   * taken for good before: buckets stand below their brim then, and nobody guesses wrongly on which side.
   */
  processes(options: Partial<OpenOptions> = {}): Promise<readonly RateLimiter[]> {
    return this.#processes(PROCESSES, options);
  }

  /** The same, but one. */
  async process(options: Partial<OpenOptions> = {}): Promise<RateLimiter> {
    const [only] = await this.#processes(1, options);
    return only as RateLimiter;
  }

  async #processes(count: number, options: Partial<OpenOptions>): Promise<readonly RateLimiter[]> {
    const found = new Map<string, RateLimiter>();
    for (const child of ["ada", "bob"] as const) await this.take(this.#founder, PRIMED, child);
    for (let opened = 0; found.size < count; opened++) {
      assert.ok(opened < OPENED_MAX, "no process got to know the family in time");
      const limiter = await this.open(options);
      const slot = await this.#slotOf(limiter);
      if (slot === undefined || found.has(slot)) await limiter.close();
      else found.set(slot, limiter);
    }
    await this.proxy.idle();
    return [...found.values()];
  }

  /** The slot of a process, which has met ada and the parent then; undefined when the machine was too busy for that. */
  async #slotOf(limiter: RateLimiter): Promise<string | undefined> {
    try {
      const seen = await this.proxy.during(async () => (await this.take(limiter, 1)).rollback());
      const slots = seen.flatMap((passage) => nonceOf(passage)?.slot ?? []);
      assert.ok(slots[0] !== undefined, "no take was seen to carry a nonce");
      return slots[0];
    } catch (error) {
      if (error instanceof RateLimiterUnavailable) return undefined;
      throw error;
    }
  }

  take(limiter: RateLimiter, count: number, child: "ada" | "bob" = "ada"): Promise<Lease> {
    const { resource, [child]: entityId } = this.family;
    return limiter.acquire({ entityId, resource, consume: tokens(count) });
  }

  /** Many ask at once, each for one token of a child in turn; what came of it. */
  async takeAll(limiters: readonly RateLimiter[], count: number): Promise<Rush> {
    const outcomes = await Promise.allSettled(
      Array.from({ length: count }, (_, i) =>
        this.take(limiters[i % limiters.length] as RateLimiter, 1, i < count / 2 ? "ada" : "bob"),
      ),
    );
    return {
      granted: outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : [])),
      failed: outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : [])),
    };
  }

  /** Takes all there is, first some at once, then the rest one by one; how much it was. */
  async drain(limiter: RateLimiter): Promise<number> {
    const { granted, failed } = await this.takeAll([limiter], AT_ONCE);
    for (const error of failed) assert.ok(error instanceof RateLimitExceeded, `not a refusal: ${error}`);
    let drained = granted.length;
    for (const child of ["ada", "bob"] as const) {
      while (drained <= CAPACITY && (await this.isGranted(limiter, child))) drained++;
    }
    return drained;
  }

  /** Whether one token more is granted. */
  async isGranted(limiter: RateLimiter, child: "ada" | "bob" = "ada"): Promise<boolean> {
    const { resource, [child]: entityId } = this.family;
    return (await limiter.tryAcquire({ entityId, resource, consume: tokens(1) })).ok;
  }

  /** It goes on for a process that has little time, as soon as the machine is quick enough for it. */
  async assertRecovered(limiter: RateLimiter): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const lease = await this.take(limiter, 1).catch((error: unknown) => assertUnavailable([error]));
      if (lease !== undefined) return assert.equal(lease.degraded, false);
    }
    assert.fail(`not granted in ${ATTEMPTS_MAX} attempts after the outage`);
  }

  /** Tokens as they are stored, all shards together; read past the proxy. A bucket that is not there is full. */
  async levels(): Promise<Levels> {
    const { resource, parent, ada, bob } = this.family;
    const input = JSON.stringify({ TableName: this.table, ConsistentRead: true });
    const answer = await this.#dynamodb.client.send("Scan", input, { timeoutMs: PATIENT_MS });
    assert.ok(answer.kind === "answered", "the table could not be read");
    const items = (answer.body.Items as readonly Attributes[]).filter((item) => item.resource?.S === resource);
    const levelOf = (entityId: string): number => {
      const shards = items.filter((item) => item.entity_id?.S === entityId && item[`b_${LIMIT}_tk`] !== undefined);
      if (shards.length === 0) return CAPACITY;
      return shards.reduce((all, item) => all + Number(item[`b_${LIMIT}_tk`]?.N) / 1000, 0);
    };
    return { parent: levelOf(parent), ada: levelOf(ada), bob: levelOf(bob) };
  }
}

export interface Rush {
  readonly granted: readonly Lease[];
  readonly failed: readonly unknown[];
}

export interface Levels {
  readonly parent: number;
  readonly ada: number;
  readonly bob: number;
}

export function tokens(count: number): Record<string, number> {
  return { [LIMIT]: count };
}

/** What is left when the children have taken so much. */
export function leftOf(before: Levels, { ada, bob }: { readonly ada: number; readonly bob: number }): Levels {
  return { parent: before.parent - ada - bob, ada: before.ada - ada, bob: before.bob - bob };
}

/** Everybody who was turned away was told of an outage, and why. */
export function assertUnavailable(errors: readonly unknown[]): void {
  for (const error of errors) {
    assert.ok(error instanceof RateLimiterUnavailable, `not an outage: ${error}`);
    assert.equal(error.code, "unavailable");
    assert.notEqual(error.cause, undefined);
  }
}

/** A promise that the test keeps when it likes. */
export function promised(): { readonly kept: Promise<void>; keep(): void } {
  let keep = () => {};
  const kept = new Promise<void>((resolve) => {
    keep = resolve;
  });
  return { kept, keep };
}
