import { fork } from "node:child_process";
import { once } from "node:events";
import { Redis } from "ioredis";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openRedis } from "../../src/entry/redis.ts";

// Three processes, as on three machines, share the tokens of one organisation. Each sends by the client that it has anyway. REDIS_URL says where the server is.
const [organisation = `acme-${Date.now()}`, key] = process.argv.slice(2);
const client = new Redis(String(process.env.REDIS_URL));
const store = await openRedis({ send: ([name, ...rest]) => client.callBuffer(String(name), ...(rest as Buffer[])) });
const limiter = await RateLimiter.open({ store, timeoutMs: 30_000 });

if (key !== undefined) {
  const request = { entityId: key, resource: "gpt-4", consume: { calls: 1, tokens: 100 } };
  const asked = await Promise.all(Array.from({ length: 40 }, () => limiter.tryAcquire(request)));
  const granted = asked.flatMap((outcome) => (outcome.ok ? [outcome.lease] : []));
  // Each call was estimated at 100 tokens, and took 60.
  await Promise.all(granted.map((lease) => lease.settle({ tokens: 60 })));
  process.send?.(granted.length);
} else {
  const keys = [1, 2, 3].map((i) => `${organisation}-key-${i}`);
  await limiter.createEntity({ id: organisation });
  for (const id of keys) await limiter.createEntity({ id, parentId: organisation });
  const ofKey = [Limit.perDay("calls", 30), Limit.perDay("tokens", 100_000)];
  await limiter.setResourceDefaults("gpt-4", ofKey, { appliesTo: "callers" });
  const ofOrganisation = [Limit.perDay("calls", 50), Limit.perDay("tokens", 100_000)];
  await limiter.setLimits(organisation, ofOrganisation, { resource: "gpt-4" });

  const machines = keys.map((id) => fork(import.meta.filename, [organisation, id]));
  const granted = await Promise.all(machines.map(async (machine) => Number((await once(machine, "message"))[0])));
  console.log(`asked 120 times, granted ${granted.reduce((sum, count) => sum + count)}`);
  console.log(`no key more than its 30: ${granted.every((count) => count <= 30)}`);
  const { total } = await limiter.usageSummary({ entityId: organisation, window: "daily" });
  console.log(`the organisation has used ${total.calls} calls and ${total.tokens} tokens`);
}
await limiter.close();
await store.close();
client.disconnect();
process.disconnect?.();
