import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Limiter } from "../../src/engine/limiter/limiter.ts";
import { Limit } from "../../src/entry/limits.ts";
import { applyManifest, driftOf, exportManifest } from "../../src/entry/manifest.ts";
import type { Store } from "../../src/ports/store.ts";
import { type Fault, FaultStore } from "../../src/testing/fault-store.ts";
import { atDepth } from "../depth.ts";
import { apply, limiterOn, lines, opened, plan, STORES } from "./apply-kit.ts";

const BEFORE = `
owner: o
system: { on_unavailable: allow, limits: { rpm: 9 } }
resources: { a: { limits: { rpm: 1 }, disabled: true }, b: { limits: { rpm: 1 } } }
entities: { p: { name: P }, c: { parent: p, limits: { rpm: 1 } }, old: { name: Old, limits: { rpm: 1 } } }
`;
const AFTER = `
owner: o
system: { limits: { rpm: 8 } }
resources: { a: { limits: { rpm: 2 } }, d: { limits: { rpm: 1 }, cascade: true } }
entities: { p: { name: Q }, n: { parent: p, resources: { a: { limits: { rpm: 3 } } } }, c: { limits: { rpm: 1 } } }
`;
const PRUNE = { prune: true };
const coded = (code: string) => (error: unknown) => (error as { code?: string }).code === code;

/** All that is stored and who owns it, whenever it was written. */
async function everything(store: Store, limiter: Limiter): Promise<unknown> {
  const { items } = await store.scope("default").manifests.list({ limit: 1_000 });
  return { live: await exportManifest(limiter), owned: items.map(({ atMs: _, ...rest }) => rest) };
}

for (const [name, open] of STORES) {
  describe(`an apply that is cut off on ${name}`, () => {
    for (const fault of ["lostBefore", "lostAfter"] as const) {
      test(`${fault === "lostBefore" ? "before" : "after"} its writes: planned and applied again, all is as if nothing had been`, async (t) => {
        const calm = await opened(t, open);
        await apply(calm.limiter, BEFORE);
        await apply(calm.limiter, AFTER, PRUNE);
        const expected = await everything(calm.store, calm.limiter);
        let writes = 0;
        for (let isCut = true; isCut; writes += atDepth(5, 1)) {
          isCut = await cutOff(t, open, { fault, writes, expected });
          assert.ok(writes < 100);
        }
        // A run and, a change, entering, writing and confirming or striking out.
        assert.ok(writes > 30, `only ${writes} writes were cut off`);
      });
    }

    test("a second apply inside the first: the first is refused, and what it wrote is still owned", async (t) => {
      const { store, clock, limiter } = await opened(t, open);
      const one = "owner: o\nresources: { a: { limits: { rpm: 1 } }, z: { limits: { rpm: 1 } } }";
      const other = "owner: o\nresources: { b: { limits: { rpm: 1 } } }";
      // In the middle of every write of the first, once each.
      for (let at = 0; at < 7; at++) {
        let changes = -1;
        const slow = new FaultStore(store, {
          pause: async (call, before) => {
            if (call !== "change" || before !== "applying") return;
            changes += 1;
            if (changes === at) await apply(limiter, other, PRUNE);
          },
        });
        const first = await limiterOn(slow, clock);
        const outcome = await apply(first, one, PRUNE).then(
          () => "done",
          (error: { code?: string }) => error.code,
        );
        assert.ok(
          outcome === "apply_in_progress" || outcome === "plan_outdated" || outcome === "done",
          `${at}: ${outcome}`,
        );
        // Y7: everything that is there is known to somebody.
        const { items } = await store.scope("default").manifests.list({ limit: 100 });
        const owned = items.map(({ piece }) => piece.resource);
        for (const resource of await limiter.listResources()) assert.ok(owned.includes(resource), `${at}: ${resource}`);
        const last = await apply(limiter, "owner: o\nresources: {}", PRUNE);
        assert.ok(last.changes.every(({ action }) => action === "delete" || action === "release"));
        assert.deepEqual([...(await limiter.listResources())], []);
      }
    });

    test("Y7: several at once of one owner: nothing is lost, and at least one is done", async (t) => {
      const { limiter, store } = await opened(t, open);
      const names = ["a", "b", "c", "d"];
      const texts = names.map((each) => `owner: o\nresources: { ${each}: { limits: { rpm: 1 } } }`);
      const outcomes = await Promise.allSettled(texts.map((text) => applyUnlessOutdated(limiter, text)));
      for (const outcome of outcomes) {
        if (outcome.status === "rejected")
          assert.ok(["apply_in_progress", "plan_outdated"].includes(outcome.reason.code));
      }
      assert.ok(outcomes.some(({ status }) => status === "fulfilled"));
      const { items } = await store.scope("default").manifests.list({ limit: 100 });
      const owned = items.map(({ piece }) => piece.resource);
      for (const resource of await limiter.listResources()) assert.ok(owned.includes(resource), resource);
      await apply(limiter, texts[0] as string, PRUNE);
      assert.deepEqual([...(await limiter.listResources())], ["a"]);
    });

    test("several at once of as many owners: each its own, and a piece that all want goes to one", async (t) => {
      const { limiter } = await opened(t, open);
      const owners = ["u", "v", "w"];
      const text = (owner: string) =>
        `owner: ${owner}\nresources: { shared: { limits: { rpm: 1 } }, ${owner}: { limits: { rpm: 1 } } }`;
      const plans = await Promise.all(owners.map((owner) => plan(limiter, text(owner))));
      const outcomes = await Promise.allSettled(plans.map((each) => applyManifest(limiter, each)));
      const refused = outcomes.filter((each) => each.status === "rejected");
      assert.equal(refused.length, 2);
      for (const { reason } of refused) assert.equal(reason.code, "owned_by_other");
      const winner = owners[outcomes.findIndex(({ status }) => status === "fulfilled")] as string;
      assert.deepEqual((await plan(limiter, text(winner))).changes, []);
      for (const owner of owners) {
        const own = `owner: ${owner}\nresources: { ${owner}: { limits: { rpm: 1 } } }`;
        await apply(limiter, own, PRUNE);
        assert.deepEqual(await limiter.getResourceDefaults(owner), [Limit.perMinute("rpm", 1)]);
      }
    });

    test("Y6: a delete that failed stays owned, and the next plan shows it", async (t) => {
      const { store, clock, limiter } = await opened(t, open);
      await apply(limiter, "owner: o\nresources: { a: { limits: { rpm: 1 } } }");
      const faulty = new FaultStore(store, {});
      const bad = await limiterOn(faulty, clock);
      const found = await plan(bad, "owner: o\nresources: {}", PRUNE);
      // After the run and the entry as pending, the delete itself.
      faulty.failNext("change", "refused", 2);
      await assert.rejects(applyManifest(bad, found), coded("unavailable"));
      assert.deepEqual(await limiter.getResourceDefaults("a"), [Limit.perMinute("rpm", 1)]);
      assert.deepEqual(lines((await plan(limiter, "owner: o\nresources: {}")).changes), ["delete limits resource a"]);
      assert.deepEqual((await driftOf(limiter, { owner: "o" })).drift, [], "pending is no drift");
    });

    test("an abort ends it after the change at hand", async (t) => {
      const { limiter } = await opened(t, open);
      const found = await plan(limiter, BEFORE);
      const controller = new AbortController();
      const done: string[] = [];
      await assert.rejects(
        applyManifest(limiter, found, {
          signal: controller.signal,
          onChange: (change) => {
            done.push(...lines([change]));
            if (done.length === 3) controller.abort(new Error("stop"));
          },
        }),
        /stop/,
      );
      assert.deepEqual(done, lines(found.changes.slice(0, 3)));
      assert.deepEqual(lines((await plan(limiter, BEFORE)).changes), lines(found.changes.slice(3)));
    });
  });
}

/** As the provisioner does it, which nobody shows a plan: it plans again when others have changed something. */
async function applyUnlessOutdated(limiter: Limiter, text: string): Promise<void> {
  for (;;) {
    try {
      await apply(limiter, text, PRUNE);
      return;
    } catch (error) {
      if (!coded("plan_outdated")(error)) throw error;
    }
  }
}

/** False once there are fewer writes than that. */
async function cutOff(
  t: Parameters<typeof opened>[0],
  open: Parameters<typeof opened>[1],
  { fault, writes, expected }: { readonly fault: Fault; readonly writes: number; readonly expected: unknown },
): Promise<boolean> {
  const { store, clock, limiter } = await opened(t, open);
  await apply(limiter, BEFORE);
  const faulty = new FaultStore(store, {});
  const bad = await limiterOn(faulty, clock);
  const found = await plan(bad, AFTER, PRUNE);
  faulty.failNext("change", fault, writes);
  const isCut = await applyManifest(bad, found).then(
    () => false,
    () => true,
  );
  assert.deepEqual(
    (await driftOf(limiter, { owner: "o" })).drift,
    [],
    `after ${writes} writes: what is pending is no drift`,
  );
  await apply(limiter, AFTER, PRUNE);
  assert.deepEqual(await everything(store, limiter), expected, `after ${writes} writes`);
  assert.deepEqual((await plan(limiter, AFTER)).changes, []);
  return isCut;
}
