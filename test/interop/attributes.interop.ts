import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { MINUTE_MS, SECOND_MS } from "../kit/contract-kit.ts";
import { ADA, admitted, ask, grants, numberIn, Shared } from "./kit.ts";

// What ours writes on an item, in the original's hands; and the reasons for what ours takes care to write.

/** Names that together with ours could be taken for something else. */
const NAMES = ["rq", "fr", "a_fr", "a_tk", "a_tc", "n0", "cfa", "rf", "x.y-z"];

await describeDynamo("attributes of ours in the original's hands", (dynamodb) => {
  test("limits may be called as attributes of ours are: taken, given back, reset, changed, looked at", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    const limits = NAMES.map((name) => Limit.perDay(name, 10));
    const each = (amount: number) => Object.fromEntries(NAMES.map((name) => [name, amount]));
    await our.setLimits(ADA.entityId, limits, { resource: ADA.resource });
    const ours = await our.acquire(ask(each(4)));
    const theirs = await their.acquire(ask(each(4)));
    assert.equal(await their.grants(ask(each(3))), false);
    await ours.release(each(2));
    await theirs.fail();
    await shared.pass(SECOND_MS);
    const seen = await their.limiter<Readonly<Record<string, number>>>("available", [ADA.entityId, ADA.resource]);
    assert.deepEqual(seen, each(8));
    await their.call("reset_bucket", [ADA.entityId, ADA.resource]);
    assert.equal(await admitted(our, ask(each(5)), 3), 2);
    await their.call("set_limits", [ADA.entityId, NAMES.map((name) => Limit.perDay(name, 20)), ADA.resource]);
    assert.ok(await grants(our, ask(each(0))));
    const item = await shared.item();
    for (const name of NAMES) assert.equal(numberIn(item, `b_${name}_cp`), 20_000, name);
  });

  test("what ours keeps on an item stays there through every write of the original", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.setLimits(ADA.entityId, [Limit.perMinute("rpm", 10)], { resource: ADA.resource });
    assert.ok(await grants(our, ask({ rpm: 10 })));
    await shared.pass(30 * SECOND_MS);
    const before = await shared.item();
    const lease = await their.acquire(ask({ rpm: 3 }));
    await lease.adjust({ rpm: 1 });
    await lease.end();
    await (await their.acquire(ask({ rpm: 1 }))).fail();
    const after = await shared.item();
    const ownNames = Object.keys(before).filter((name) => /^(n[0-9a-f]|cfa|cfl|frf|b_rq|b_rpm_fr)$/.test(name));
    assert.ok(ownNames.length >= 3, `ours kept only ${ownNames}`);
    for (const name of ownNames) assert.deepEqual(after[name], before[name], name);
  });

  test("without its count of writes every request of the original takes its slow path, for good", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.setLimits(ADA.entityId, [Limit.perMinute("rpm", 100)], { resource: ADA.resource });
    assert.ok(await grants(our, ask({ rpm: 1 })));
    const missing = Object.fromEntries(["tk", "cp", "ra", "rp", "tc"].map((part) => [`b_wcu_${part}`, undefined]));
    await shared.tamper(missing);
    const calls: string[] = [];
    await their.between(
      async ({ operation, when }) => {
        if (when === "before") calls.push(operation);
      },
      () => their.admits(ask({ rpm: 1 }), 3),
    );
    assert.ok(calls.filter((operation) => operation === "BatchGetItem").length >= 3, calls.join());
  });

  test("tokens over the brim without a mark are spent in full by the original", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.setLimits(ADA.entityId, [Limit.perDay("rpd", 10)], { resource: ADA.resource });
    assert.ok(await grants(our, ask({ rpd: 10 })));
    await shared.tamper({ b_rpd_tk: { N: "60000" } });
    assert.equal(await their.admits(ask({ rpd: 1 }), 70), 60);
  });

  test("a fraction of a millitoken makes a bucket unusable to the original; ours writes none", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    const odd = Limit.custom("odd", { capacity: 7, refillAmount: 3, refillPeriodMs: 11_000 });
    await our.setLimits(ADA.entityId, [odd], { resource: ADA.resource });
    for (let i = 0; i < 12; i++) {
      await shared.pass(1_234);
      await grants(our, ask({ odd: 1 }));
      for (const [name, { N }] of Object.entries(await shared.item())) {
        if (N !== undefined) assert.ok(Number.isSafeInteger(Number(N)), `${name} is ${N}`);
      }
    }
    await shared.tamper({ b_odd_tk: { N: "1.5" } });
    await shared.pass(MINUTE_MS);
    assert.equal(await their.refuses(ask({ odd: 5 })), "RateLimiterUnavailable");
  });

  test("a bucket that says `disabled` false is off the original's fast path: ours removes it instead", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.setLimits(ADA.entityId, [Limit.perMinute("rpm", 100)], { resource: ADA.resource });
    assert.ok(await grants(our, ask({ rpm: 1 })));
    await our.setAccess(ADA, "enforce");
    assert.equal("disabled" in (await shared.item()), false);
    await shared.tamper({ disabled: { BOOL: false } });
    const calls: string[] = [];
    await their.between(
      async ({ operation, when }) => {
        if (when === "before") calls.push(operation);
      },
      () => their.admits(ask({ rpm: 1 }), 2),
    );
    assert.ok(calls.length > 4, calls.join());
  });

  test("the owner that the original stamped is left alone by ours, and one that ours stamped is its own to go by", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.setResourceDefaults("api", [Limit.perMinute("rpm", 10)]);
    await our.createEntity({ id: "p" });
    await our.createEntity({ id: "ada", parentId: "p", cascade: true });
    await their.call("create_entity", ["eve"], { parent_id: "p", cascade: true });
    const stamp = async (entityId: string) => {
      const { cascade, parent_id, pgen, pinc } = await shared.item(0, entityId);
      return [cascade?.BOOL, parent_id?.S, pgen?.N, pinc?.S?.length];
    };
    assert.ok(await grants(our, ask({ rpm: 1 }, "ada")));
    assert.ok(await their.grants(ask({ rpm: 1 }, "eve")));
    const [ours, theirs] = [await stamp("ada"), await stamp("eve")];
    assert.deepEqual([ours[0], ours[1], ours[3]], [true, "p", 16]);
    assert.deepEqual([theirs[0], theirs[1], theirs[3]], [true, "p", 16]);
    await shared.pass(MINUTE_MS);
    assert.ok(await grants(our, ask({ rpm: 6 }, "eve")), "rebased, by ours");
    assert.deepEqual(await stamp("eve"), theirs);
    // Both of them charged their parent.
    assert.equal(await their.grants(ask({ rpm: 5 }, "p")), false);
    assert.ok(await their.grants(ask({ rpm: 4 }, "p")));
    // A move by either is followed by the other from the next request on.
    await our.createEntity({ id: "q" });
    await their.call("set_parent", ["ada", "q"]);
    await our.updateEntity("eve", { parentId: "q" });
    await shared.pass(2 * MINUTE_MS);
    assert.ok(await grants(our, ask({ rpm: 6 }, "ada")));
    assert.equal(await their.grants(ask({ rpm: 5 }, "eve")), false);
    assert.ok(await their.grants(ask({ rpm: 4 }, "eve")));
  });
});
