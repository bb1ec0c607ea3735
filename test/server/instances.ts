import assert from "node:assert/strict";
import type { serving } from "./serve-kit.ts";
import { NS, problem } from "./service-kit.ts";

// The promises about several services on one store, a deploy and a crash, over HTTP and with real processes.

const quota = [{ name: "n", capacity: 100, refillAmount: 0, refillPeriodMs: 1_000, resetAfterMs: 86_400_000 }];
const take = { entityId: "key-1", resource: "gpt-4", consume: { n: 10 } };

type Served = Awaited<ReturnType<typeof serving>>;

const left = async ({ call }: Served, entityId = "key-1"): Promise<number> =>
  (await call("GET", `${NS}/available?entityId=${entityId}&resource=gpt-4`)).body.items[0].available;

/** Two at once, then one that is killed, then one that starts anew. `start` gives a service on the store of the story. */
export async function storyOfInstances(start: () => Promise<Served>): Promise<void> {
  const [one, two] = await Promise.all([start(), start()]);
  await one.call("PUT", `${NS}/limits?resource=gpt-4`, { body: { limits: quota } });

  // A load balancer may send anything anywhere.
  const headers = { "idempotency-key": "first" };
  const taken = await one.call("POST", `${NS}/acquire`, { body: take, headers });
  assert.equal(taken.status, 201);
  const repeated = await two.call("POST", `${NS}/acquire`, { body: take, headers });
  assert.deepEqual([repeated.body.leaseId, repeated.headers.get("idempotency-replayed")], [taken.body.leaseId, "true"]);
  assert.equal((await two.call("GET", `${NS}/leases`)).body.items.length, 1);

  // Of all that settle or roll it back at once, one wins.
  const at = `${NS}/leases/${taken.body.leaseId}`;
  const ends = await Promise.all(
    [one, two, one, two].map(({ call }, i) =>
      i % 2 === 0 ? call("POST", `${at}/rollback`) : call("POST", `${at}/settle`, { body: { consumed: { n: 4 } } }),
    ),
  );
  const [status] = new Set(ends.filter((end) => end.status === 200).map((end) => end.body.status));
  for (const end of ends) if (end.status !== 200) problem(end, 409, "lease_closed");
  assert.deepEqual([await left(one), await left(two)], status === "settled" ? [96, 96] : [100, 100]);
  const base = await left(one);

  // A crash: what was answered is there, by id and by key.
  const before = await one.call("POST", `${NS}/acquire`, {
    body: { ...take, holdMs: 3_600_000 },
    headers: { "idempotency-key": "crash" },
  });
  const short = await one.call("POST", `${NS}/acquire`, {
    body: { ...take, entityId: "short", holdMs: 1_000, onExpiry: "refund" },
  });
  one.child.kill("SIGKILL");
  await one.ended;
  assert.equal((await two.call("GET", `${NS}/leases/${before.body.leaseId}`)).body.status, "open");
  // Another instance ends it without being asked, on DynamoDB within a minute; the poll bounds a busy machine.
  while ((await left(two, "short")) !== 100) await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal((await two.call("GET", `${NS}/leases/${short.body.leaseId}`)).body.status, "expired");

  // A deploy: leases stay open and go on with the next start.
  two.child.kill("SIGTERM");
  assert.equal((await two.ended).code, 0);
  const three = await start();
  assert.equal(await left(three), base - 10);
  const again = await three.call("POST", `${NS}/acquire`, {
    body: { ...take, holdMs: 3_600_000 },
    headers: { "idempotency-key": "crash" },
  });
  assert.deepEqual([again.body.leaseId, again.headers.get("idempotency-replayed")], [before.body.leaseId, "true"]);
  const settled = await three.call("POST", `${NS}/leases/${before.body.leaseId}/settle`, {
    body: { consumed: { n: 3 } },
  });
  assert.deepEqual([settled.status, settled.body.consumed], [200, { n: 3 }]);
  assert.equal(await left(three), base - 3);
}

export const storyTimeout = { timeout: 180_000 };
