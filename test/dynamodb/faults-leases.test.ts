import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type RateLimiter, RateLimiterUnavailable } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { faultGround, type Scene, tokens } from "./fault-kit.ts";
import { AFTER, BEFORE, type Fault, type Passage } from "./fault-proxy.ts";

const HOLDS = { holdMs: 300_000, holdMaxMs: 86_400_000, onExpiry: "refund" } as const;
/** One of each kind: never sent, refused, in the way, done unseen. A fault that hangs says as little, and takes seconds. */
const FAULTS: Readonly<Record<string, Fault>> = Object.fromEntries(
  Object.entries<Fault>({ ...BEFORE, ...AFTER }).filter(([name]) =>
    [
      "the connection is reset before the request got through",
      "the item is throttled",
      "a transaction is in the way",
      "the connection is reset before the answer got through",
      "the server fails after it was done",
    ].includes(name),
  ),
);
/** Time stands still at this instant for everybody else. */
const LATER = { now: () => 1_800_000_000_000 + HOLDS.holdMs };

/** A write of a record of a lease, alone or in a transaction. */
function isLeaseWrite({ operation, input }: Passage): boolean {
  const puts =
    operation === "TransactWriteItems"
      ? (input.TransactItems as { readonly Put?: { readonly Item: object } }[]).map(({ Put }) => Put?.Item)
      : [operation === "PutItem" ? (input.Item as object) : undefined];
  return puts.some((item) => item !== undefined && "lease" in item);
}

/** A write of an idempotency key by itself. */
function isKeyWrite({ operation, input }: Passage): boolean {
  const key = (input.Item ?? input.Key) as { readonly SK?: { readonly S?: string } } | undefined;
  return operation !== "GetItem" && key?.SK?.S === "#KEY";
}

const storedLeasesOn = (limiter: RateLimiter) => new StoredLeases(limiter, { ...HOLDS, onChange: () => {} });

await describeDynamo("stored leases under faults", (dynamodb) => {
  const ground = faultGround(dynamodb);

  /** Stored leases behind the proxy, by a limiter that has met the family, and what it asks for: three tokens of ada. */
  async function open(t: TestContext) {
    const scene = await ground.scene(t);
    const limiter = await scene.process();
    const { ada: entityId, resource } = scene.family;
    const asked = { entityId, resource, consume: tokens(3) };
    return { scene, storedLeases: storedLeasesOn(limiter), asked, before: await scene.levels() };
  }

  /** The first request of a kind meets the fault, the others get through. */
  function once(scene: Scene, is: (passage: Passage) => boolean, fault: Fault): void {
    let met = 0;
    scene.proxy.choose = (passage) => (is(passage) && met++ === 0 ? fault : undefined);
  }

  for (const [name, fault] of Object.entries(FAULTS)) {
    test(`${name}: a lease is taken once, settled once and there`, async (t) => {
      const { scene, storedLeases, asked, before } = await open(t);
      const taken = { ...before, ada: before.ada - 3, parent: before.parent - 3 };
      once(scene, isLeaseWrite, fault);
      const leaseId = (await storedLeases.acquire(asked)).lease.leaseId as string;
      assert.deepEqual(await scene.levels(), taken);
      once(scene, isLeaseWrite, fault);
      const limit = Object.keys(tokens(1))[0] as string;
      assert.deepEqual((await storedLeases.settle(leaseId, { consumed: tokens(1) })).consumed, { [limit]: 1 });
      assert.deepEqual(await scene.levels(), { ...before, ada: before.ada - 1, parent: before.parent - 1 });
      const other = storedLeasesOn(await scene.open());
      assert.equal((await other.settle(leaseId, { consumed: tokens(1) })).status, "settled");
      assert.deepEqual(await scene.levels(), { ...before, ada: before.ada - 1, parent: before.parent - 1 });
    });

    test(`${name}: a request with a key is done once`, async (t) => {
      const { scene, storedLeases, asked, before } = await open(t);
      const taken = { ...before, ada: before.ada - 3, parent: before.parent - 3 };
      once(scene, isKeyWrite, fault);
      const first = await storedLeases.acquire({ ...asked, idempotencyKey: `${asked.resource} begins badly` });
      assert.equal(first.replayed, false);
      once(scene, isLeaseWrite, fault);
      const second = await storedLeases.acquire({ ...asked, idempotencyKey: `${asked.resource} ends badly` });
      assert.equal(second.replayed, false);
      await storedLeases.rollback(second.lease.leaseId as string);
      const other = storedLeasesOn(await scene.open());
      assert.deepEqual(await other.acquire({ ...asked, idempotencyKey: `${asked.resource} begins badly` }), {
        ...first,
        replayed: true,
      });
      assert.deepEqual(await other.acquire({ ...asked, idempotencyKey: `${asked.resource} ends badly` }), {
        ...second,
        replayed: true,
      });
      assert.deepEqual(await scene.levels(), taken);
    });
  }

  test("a lease whose writer never hears that it was stored is not given back by it, but once by its end", async (t) => {
    const scene = await ground.scene(t);
    await scene.process();
    const before = await scene.levels();
    const storedLeases = storedLeasesOn(await scene.open({ timeoutMs: 2_000 }));
    const { ada: entityId, resource } = scene.family;
    scene.proxy.choose = (passage) => (isLeaseWrite(passage) ? AFTER["the server fails after it was done"] : undefined);
    await assert.rejects(storedLeases.acquire({ entityId, resource, consume: tokens(3) }), RateLimiterUnavailable);
    scene.proxy.choose = () => undefined;
    assert.deepEqual(await scene.levels(), { ...before, ada: before.ada - 3, parent: before.parent - 3 });
    const later = storedLeasesOn(await scene.open({ clock: LATER }));
    // With those of other stories on the table.
    assert.ok((await later.expireDue()) >= 1);
    assert.deepEqual(await scene.levels(), before);
    assert.equal(await later.expireDue(), 0);
    assert.deepEqual(await scene.levels(), before);
  });

  test("a rollback whose answers are all lost is credited by the next one, once", async (t) => {
    const { scene, asked, before } = await open(t);
    const storedLeases = storedLeasesOn(await scene.open({ timeoutMs: 2_000 }));
    const leaseId = (await storedLeases.acquire(asked)).lease.leaseId as string;
    scene.proxy.choose = (passage) =>
      isLeaseWrite(passage) ? AFTER["a gateway gives up after it was done"] : undefined;
    await assert.rejects(storedLeases.rollback(leaseId), RateLimiterUnavailable);
    scene.proxy.choose = () => undefined;
    for (let i = 0; i < 3; i++) assert.equal((await storedLeases.rollback(leaseId)).status, "rolledBack");
    assert.deepEqual(await scene.levels(), before);
  });
});
