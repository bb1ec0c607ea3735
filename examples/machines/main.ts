import { fork } from "node:child_process";
import { once } from "node:events";
import { Limit, RateLimiter } from "../../src/entry/index.ts";

// Three processes, as on three machines, ask for tokens of one organisation. DATABASE_URL says where the server is.
const [organisation = `acme-${Date.now()}`, key] = process.argv.slice(2);
const limiter = await RateLimiter.open({ store: "postgres", timeoutMs: 30_000 });

if (key !== undefined) {
  const request = { entityId: key, resource: "search", consume: { calls: 1 } };
  const asked = await Promise.all(Array.from({ length: 40 }, () => limiter.tryAcquire(request)));
  process.send?.(asked.filter(({ ok }) => ok).length);
} else {
  const keys = [1, 2, 3].map((i) => `${organisation}-key-${i}`);
  await limiter.createEntity({ id: organisation });
  for (const id of keys) await limiter.createEntity({ id, parentId: organisation });
  await limiter.setResourceDefaults("search", [Limit.perDay("calls", 30)], { appliesTo: "callers" });
  await limiter.setLimits(organisation, [Limit.perDay("calls", 50)], { resource: "search" });

  const machines = keys.map((id) => fork(import.meta.filename, [organisation, id]));
  const granted = await Promise.all(machines.map(async (machine) => Number((await once(machine, "message"))[0])));
  console.log(`asked 120 times, granted ${granted.reduce((sum, count) => sum + count)}`);
  console.log(`no key more than its 30: ${granted.every((count) => count <= 30)}`);
  const [left] = await limiter.available({ entityId: organisation, resource: "search" });
  console.log(`left of the organisation's 50: ${left?.available}`);
}
await limiter.close();
process.disconnect?.();
