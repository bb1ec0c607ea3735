import { after } from "node:test";
import { setTimeout as inRealTime } from "node:timers/promises";
import { openDynamo, prepareTable } from "../../src/entry/dynamodb.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import type { Clock } from "../../src/ports/system.ts";
import type { Engine } from "../dynamodb/engine.ts";
import { Kit } from "./kit.ts";

/** One table for all tests of a suite; each has a namespace of its own. */
export function dynamoKit(engine: Engine): Kit {
  const { endpoint, client } = engine;
  const opened: { close(): unknown }[] = [];
  let namespaces = 0;
  let ready: Promise<{ readonly way: Way; readonly admin: RateLimiter }> | undefined;
  const setUp = async () => {
    // The stories are told in the past: a table that removes what has expired would remove what they are about.
    const stack = await engine.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    const way = { stack, endpoint, region: "eu-west-1", credentials: { accessKeyId: "test", secretAccessKey: "test" } };
    await prepareTable(way);
    const admin = await RateLimiter.open({ ...way, store: `dynamodb:${stack}`, timeoutMs: TIMEOUT_MS });
    opened.push(admin);
    return { way, admin };
  };
  after(async () => {
    for (const each of opened) await each.close();
    const { way } = (await ready) ?? {};
    if (way !== undefined) await client.send("DeleteTable", JSON.stringify({ TableName: way.stack }), CALL);
  });
  const newGround = async () => {
    ready ??= setUp();
    const { way, admin } = await ready;
    const { name } = await admin.registerNamespace(`ground-${namespaces++}`);
    const store = async (clock: Clock): Promise<Store> => {
      // The limiter on it is handed the clock, too.
      const { clock: _, ...store } = await openDynamo({ ...way, timeoutMs: TIMEOUT_MS, clock: impatient(clock) });
      opened.push(store);
      return store;
    };
    return { namespace: name, options: { timeoutMs: TIMEOUT_MS }, store };
  };
  return new Kit(newGround, { tells: false, isWhole: false, many: 30 });
}

type Way = Parameters<typeof openDynamo>[0];

// The engine shares its machine with everything else that is tested.
const TIMEOUT_MS = 10_000;
const CALL = { timeoutMs: TIMEOUT_MS };

/** Who waits a moment before it asks the table again is not kept waiting by a clock that stands still. */
function impatient(clock: Clock): Clock {
  const sleep: Clock["sleep"] = async (ms, signal) => {
    const woken = new AbortController();
    const either = signal === undefined ? woken.signal : AbortSignal.any([signal, woken.signal]);
    const slept = clock.sleep(ms, either);
    const passed = inRealTime(ms, undefined, { signal: either });
    await Promise.race([slept, passed]).finally(() => woken.abort());
    await Promise.allSettled([slept, passed]);
  };
  return { now: () => clock.now(), sleep };
}
