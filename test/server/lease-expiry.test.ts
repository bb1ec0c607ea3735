import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit, LimiterError, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { LeaseView } from "../../src/leases/lease-view.ts";
import type { NamespaceStore } from "../../src/ports/config-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { LeaseExpiry } from "../../src/server/lease-expiry.ts";
import { Tenants } from "../../src/server/tenants.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { atDepth } from "../depth.ts";

const T0 = 1_800_000_000_000;
const HOLDS = { holdMs: 60_000, holdMaxMs: 86_400_000, onExpiry: "refund" } as const;
const asked = { entityId: "k", resource: "api", consume: { rpm: 1 } } as const;

interface Questions {
  table: number;
  namespace: number;
  leases: number;
}

/** Instances on one store that counts what it is asked about leases; `denied` as credentials of one tenant are. */
async function instances(t: TestContext, namespaceCount: number) {
  const clock = new SimulatedClock(T0);
  const inner = openMemory();
  const questions: Questions = { table: 0, namespace: 0, leases: 0 };
  let isDenied = false;
  const withDueLeases: NamespaceStore["withDueLeases"] = (untilMs) => {
    questions.table++;
    if (isDenied) throw new LimiterError("access_denied", "The credentials may not ask for this.");
    return inner.namespaces.withDueLeases(untilMs);
  };
  const store = overriding<Store>(inner, {
    namespaces: overriding(inner.namespaces, { withDueLeases }),
    scope: (id) => {
      const scoped = inner.scope(id);
      const leases = overriding(scoped.leases, {
        findDue: (...args) => {
          questions.namespace++;
          return scoped.leases.findDue(...args);
        },
        get: (...args) => {
          questions.leases++;
          return scoped.leases.get(...args);
        },
      });
      return { ...scoped, leases };
    },
  });
  const limiter = await RateLimiter.open({ store, clock });
  t.after(() => limiter.close());
  const names = Array.from({ length: namespaceCount }, (_, i) => `tenant-${i}`);
  for (const name of names) await limiter.registerNamespace(name);
  for (const name of names.slice(0, 3)) await limiter.namespace(name).setSystemDefaults([Limit.perHour("rpm", 10)]);
  const started = (named: readonly string[] = []) => {
    const closed: LeaseView[] = [];
    const log: string[] = [];
    const onChange = (lease: LeaseView) => expiry.changed(lease);
    const tenants = new Tenants(limiter, { ...HOLDS, onChange }, () => {});
    const expiry = new LeaseExpiry({
      ...{ limiter, tenants, namespaces: store.namespaces, lookEveryMs: 60_000, visitsAll: false },
      now: () => clock.now(),
      ...{
        named: () => named,
        onClosed: (lease: LeaseView) => closed.push(lease),
        log: (line: string) => log.push(line),
      },
    });
    return { expiry, tenants, closed, log };
  };
  const left = async (name: string) =>
    (await limiter.namespace(name).available({ entityId: "k", resource: "api" }))[0]?.available;
  const deny = () => {
    isDenied = true;
  };
  return { clock, questions, limiter, started, left, deny, names };
}

/** A look every second, as the service makes them. */
async function seconds(count: number, clock: SimulatedClock, ...all: { readonly expiry: LeaseExpiry }[]) {
  for (let i = 0; i < count; i++) {
    await clock.advance(1_000);
    for (const { expiry } of all) await expiry.look();
  }
}

test("an idle service asks once a minute, however many namespaces there are", async (t) => {
  const { clock, questions, started } = await instances(t, 500);
  const one = started();
  await one.expiry.look();
  await seconds(300, clock, one);
  assert.deepEqual(questions, { table: 6, namespace: 0, leases: 0 });
});

test("a lease that this instance opened ends in its second, and nobody was asked for it", async (t) => {
  const { clock, questions, started, left } = await instances(t, 3);
  const one = started();
  await one.expiry.look();
  const { storedLeases } = await one.tenants.get("tenant-0").tools();
  await storedLeases.acquire({ ...asked, holdMs: 5_500 });
  const before = { ...questions };
  await seconds(5, clock, one);
  assert.equal(await left("tenant-0"), 9);
  await seconds(1, clock, one);
  assert.equal(await left("tenant-0"), 10);
  assert.deepEqual([questions.table, questions.namespace], [before.table, before.namespace]);
});

test("leases of an instance that is gone end within a minute, and those it would end soon in their second", async (t) => {
  const { clock, started, left } = await instances(t, 3);
  const [dead, other] = [started(), started()];
  await (await dead.tenants.get("tenant-0").tools()).storedLeases.acquire({ ...asked, holdMs: 30_000 });
  await (await dead.tenants.get("tenant-1").tools()).storedLeases.acquire({ ...asked, holdMs: 70_000 });
  await other.expiry.look();
  await (await dead.tenants.get("tenant-2").tools()).storedLeases.acquire({ ...asked, holdMs: 1_000 });
  await seconds(30, clock, other);
  assert.equal(await left("tenant-0"), 10, "it was found before it was due");
  await seconds(30, clock, other);
  assert.equal(await left("tenant-2"), 10, "opened after the question, it is found by the next");
  assert.equal(await left("tenant-1"), 9);
  await seconds(10, clock, other);
  assert.equal(await left("tenant-1"), 10);
});

test("due leases of very many namespaces are all ended by the same look", { timeout: 120_000 }, async (t) => {
  const { clock, started, limiter, names, questions } = await instances(t, atDepth(250, 2_000));
  const opener = started();
  for (const name of names) {
    const tools = opener.tenants.toolsOf(name, (await limiter.getNamespace(name)).id);
    await tools.limiter.setSystemDefaults([Limit.perHour("rpm", 10)]);
    await tools.storedLeases.acquire({ ...asked, holdMs: 1_000 });
  }
  await clock.advance(1_000);
  const other = started();
  questions.table = 0;
  await other.expiry.look();
  assert.equal(questions.table, 1);
  for (const name of names) {
    const items = await limiter.namespace(name).available({ entityId: "k", resource: "api" });
    assert.equal(items[0]?.available, 10, name);
  }
});

test("with credentials of one tenant, leases of the namespaces that tokens name are ended all the same", async (t) => {
  const { clock, started, left, deny } = await instances(t, 3);
  await (await started().tenants.get("tenant-0").tools()).storedLeases.acquire({ ...asked, holdMs: 1_000 });
  deny();
  const other = started(["tenant-0", "missing"]);
  await clock.advance(1_000);
  await other.expiry.look();
  assert.equal(await left("tenant-0"), 10);
  await seconds(120, clock, other);
  assert.equal(other.log.length, 1, other.log.join("\n"));
  assert.match(other.log[0] ?? "", /do not allow listing expired leases of all namespaces/);
});

test("a lease that another instance settled is told once its hold is over, and an extended one is kept", async (t) => {
  const { clock, started, left } = await instances(t, 3);
  const [one, two] = [started(), started()];
  const mine = (await one.tenants.get("tenant-0").tools()).storedLeases;
  const theirs = (await two.tenants.get("tenant-0").tools()).storedLeases;
  const first = (await mine.acquire({ ...asked, holdMs: 5_000 })).lease.leaseId as string;
  const second = (await mine.acquire({ ...asked, holdMs: 5_000 })).lease.leaseId as string;
  await theirs.settle(first);
  await theirs.extend(second, { holdMs: 20_000 });
  await seconds(10, clock, one);
  assert.deepEqual(
    one.closed.map(({ leaseId, status }) => [leaseId, status]),
    [[first, "settled"]],
  );
  assert.equal((await mine.get(second)).status, "open");
  await seconds(10, clock, one);
  assert.equal((await theirs.get(second)).status, "expired");
  assert.equal(await left("tenant-0"), 9);
});
