import assert from "node:assert/strict";
import { after, before, type TestContext, test } from "node:test";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { connect } from "../../src/adapters/dynamodb/store-connect.ts";
import { prepareTable } from "../../src/adapters/dynamodb/table-admin.ts";
import { steadyMs, systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import type { ServerTime } from "../../src/clock/clock-bounds.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import type { Clock } from "../../src/ports/system.ts";
import { claim } from "../kit/contract-kit.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { optionsFor, Wire } from "./store-kit.ts";

const HOUR_MS = 3_600_000;
const CAPACITY = 60;
/** One token a minute: an hour is worth all of them, and no test takes a minute. */
const HOURLY = Limit.perHour("rph", CAPACITY);
/** Until the next token at the latest, and what a clock may be off by then. */
const SOON_MS = 65_000;
const TIMEOUT_MS = 30_000;

const OFFSETS = [
  ["an hour ahead", HOUR_MS],
  ["an hour behind", -HOUR_MS],
] as const;

/** A machine whose clock is off by what the test says; its oscillator is not. */
interface Machine {
  offsetMs: number;
  readonly wire: Wire;
  readonly clock: Clock;
  readonly store: Store;
  readonly serverTime: ServerTime;
  /** Closed before its connection: a limiter that closes writes what it has counted, and would wait for an answer in vain. */
  readonly limiters: RateLimiter[];
}

async function newMachine(t: TestContext, dynamodb: DynamodbLocal, table: string, offsetMs: number): Promise<Machine> {
  const off = { offsetMs };
  const local: Clock = {
    now: () => systemClock.now() + off.offsetMs,
    ...{ sleep: systemClock.sleep, sleepInBackground: systemClock.sleepInBackground as Clock["sleep"] },
  };
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  const way = { endpoint: dynamodb.endpoint, region: "eu-west-1", credentials, client: undefined, profile: undefined };
  const connection = await connect({ ...way, local, steadyMs, given: undefined });
  const limiters: RateLimiter[] = [];
  t.after(async () => {
    for (const limiter of limiters) await limiter.close();
    await connection.client.close();
  });
  const wire = new Wire(connection.client);
  const { clock, serverTime } = connection;
  const store = Object.assign(dynamoOver(optionsFor(wire, table, { ...connection, client: wire })), { clock });
  return Object.assign(off, { wire, clock, store, serverTime, limiters });
}

await describeDynamo("clients whose clocks are wrong", (dynamodb) => {
  let table = "";
  let entities = 0;
  before(async () => {
    table = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    const base = { client: dynamodb.client, clock: systemClock, random: Math.random, ids: systemRandom };
    await prepareTable({ ...base, table, version: "0.0.0", timeoutMs: 60_000 });
  });
  after(() => dynamodb.client.send("DeleteTable", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 }));

  const open = async (machine: Machine): Promise<RateLimiter> => {
    const limiter = await RateLimiter.open({ store: machine.store, timeoutMs: TIMEOUT_MS, denyMemoryMs: 0 });
    machine.limiters.push(limiter);
    return limiter;
  };

  /** Drained: there is nothing, and soon there is something again, whoever asks. */
  const assertDrained = async (limiters: readonly RateLimiter[], entityId: string): Promise<void> => {
    for (const limiter of limiters) {
      const outcome = await limiter.tryAcquire({ entityId, resource: "api", consume: { rph: 2 }, limits: [HOURLY] });
      assert.ok(!outcome.ok, "more was granted than there is");
      assert.ok(outcome.retryAfterMs > 0 && outcome.retryAfterMs <= 2 * SOON_MS, `wait for ${outcome.retryAfterMs} ms`);
    }
  };

  const drain = async (limiter: RateLimiter, entityId: string): Promise<void> => {
    const request = { entityId, resource: "api", consume: { rph: CAPACITY }, limits: [HOURLY] };
    assert.equal((await limiter.tryAcquire(request)).ok, true, "a full bucket was not granted");
  };

  for (const [off, offsetMs] of OFFSETS) {
    test(`${off}, a newcomer at a drained bucket mints nothing and freezes nobody`, async (t) => {
      const entityId = `a-${++entities}`;
      const right = await open(await newMachine(t, dynamodb, table, 0));
      await drain(right, entityId);
      const wrong = await open(await newMachine(t, dynamodb, table, offsetMs));
      await assertDrained([wrong, right, wrong, right], entityId);
    });

    test(`${off}, whoever makes a bucket and drains it leaves it as anybody would`, async (t) => {
      const entityId = `a-${++entities}`;
      const wrong = await open(await newMachine(t, dynamodb, table, offsetMs));
      const right = await open(await newMachine(t, dynamodb, table, 0));
      await drain(wrong, entityId);
      await assertDrained([right, wrong, right], entityId);
    });

    test(`${off} from one moment to the next: read first, and then as before`, async (t) => {
      const entityId = `a-${++entities}`;
      const machine = await newMachine(t, dynamodb, table, 0);
      const [wrong, right] = [await open(machine), await open(await newMachine(t, dynamodb, table, 0))];
      await drain(wrong, entityId);
      const other = `a-${++entities}`;
      await drain(right, other);
      // Put by somebody; or the machine slept, which looks the same from here.
      machine.offsetMs = offsetMs;
      assert.equal(machine.serverTime.isKnown(), false);
      const [first] = await machine.wire.during(() => assertDrained([wrong], entityId));
      assert.equal(first, "BatchGetItem");
      assert.equal(machine.serverTime.isKnown(), true);
      await assertDrained([right, wrong, right], entityId);
      await assertDrained([wrong, right], other);
    });

    test(`${off} and never answered yet: the first take reads, and takes by the server's time`, async (t) => {
      const entityId = `a-${++entities}`;
      const right = await newMachine(t, dynamodb, table, 0);
      const { id = "" } = (await right.store.namespaces.get("default")) ?? {};
      const { store, clock, wire, serverTime } = await newMachine(t, dynamodb, table, offsetMs);
      assert.equal(serverTime.isKnown(), false);
      const all = claim(entityId, [HOURLY], { rph: CAPACITY }, { origin: { asOfMs: 0, generation: 1 } });
      const context = { timeoutMs: TIMEOUT_MS, generation: undefined, atomic: false };
      const calls = await wire.during(async () => {
        const reply = await store.scope(id).buckets.take([all], { ...context, nowMs: clock.now() });
        assert.deepEqual(reply === "stale" ? reply : reply.map(({ kind }) => kind), ["taken"]);
      });
      assert.deepEqual(calls, ["BatchGetItem", "PutItem"]);
      const [state] = await right.store.scope(id).buckets.read([all.bucket]);
      assert.ok(Math.abs((state?.epochMs ?? 0) - systemClock.now()) < SOON_MS, "the epoch is off by an hour");
      await assertDrained([await open(right)], entityId);
    });
  }
});
