import assert from "node:assert/strict";
import { test } from "node:test";
import { KINDS } from "../../src/copy/kinds.ts";
import { copyStore } from "../../src/entry/copy.ts";
import { Limit } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import type { CopiedKind } from "../../src/ports/copy-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { fc } from "../properties.ts";
import { everythingOf, memoryPlace, START_MS, sqlitePlace, tellStory } from "./kit.ts";

async function told() {
  const clock = new SimulatedClock(START_MS);
  const from = await (await memoryPlace(undefined as never)).open(clock);
  await tellStory(from, clock);
  return { clock, from };
}

/** A store whose copies are written through `write`; what that does not write is lost. */
function writingBy(store: Store, write: (kind: CopiedKind, rows: readonly unknown[]) => readonly unknown[]): Store {
  const scope = (id: string) => {
    const scoped = store.scope(id);
    const copy = scoped.copy;
    if (copy === undefined) throw new Error("no copies");
    return {
      ...scoped,
      copy: {
        ...copy,
        write: ((kind: CopiedKind, rows: never, nowMs: number) =>
          copy.write(kind, write(kind, rows) as never, nowMs)) as never,
      },
    };
  };
  return { ...store, scope };
}

test("a copy that is interrupted anywhere goes on, and is the copy that it would have been", async () => {
  const { from, clock } = await told();
  const whole = await everythingOf(from);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 3 }), async (cuts) => {
      let left = Number.POSITIVE_INFINITY;
      const store = writingBy(openMemory(), (_, rows) => {
        left -= 1;
        if (left < 0) throw new Error("cut");
        return rows;
      });
      const to = await RateLimiter.open({ store, clock });
      let resume = false;
      for (const cut of cuts) {
        left = cut;
        const wasCut = await copyStore({ from, to, resume }).then(
          () => false,
          (error: unknown) => (error as Error).message === "cut",
        );
        if (!wasCut) return;
        await assert.rejects(copyStore({ from, to }), { code: "copy_unfinished" });
        await assert.rejects(to.getNamespace("default"), { code: "namespace_not_found" });
        resume = true;
      }
      left = Number.POSITIVE_INFINITY;
      const report = await copyStore({ from, to, resume: cuts.length % 2 === 0 ? "restart" : resume });
      assert.deepEqual(report.namespaces[0]?.differences, []);
      assert.deepEqual(await everythingOf(await RateLimiter.open({ store, clock })), whole);
    }),
  );
});

test("a signal ends a copy between two pages, and nobody finds what is there by then", async (t) => {
  const { from, clock } = await told();
  const to = await (await sqlitePlace(t)).open(clock);
  const abort = new AbortController();
  const onProgress = ({ kind }: { readonly kind: string }) => {
    if (kind === "history") abort.abort(new Error("enough"));
  };
  await assert.rejects(copyStore({ from, to, signal: abort.signal, onProgress }), { message: "enough" });
  await assert.rejects(to.getNamespace("default"), { code: "namespace_not_found" });
  const orphans = await to.listOrphanNamespaces({ limit: 10 });
  assert.deepEqual(
    orphans.map(({ name, status }) => ({ name, status })),
    [{ name: "default", status: "copying" }],
  );
  const report = await copyStore({ from, to, resume: true });
  assert.equal(report.namespaces[0]?.active, true);
  assert.deepEqual(await to.getEntity("acme"), await from.getEntity("acme"));
});

test("what the source grants while it is copied is told, and is no difference", async (t) => {
  const { from, clock } = await told();
  const to = await (await sqlitePlace(t)).open(clock);
  let taken = 0;
  const onProgress = ({ kind, rows }: { readonly kind: string; readonly rows: number }) => {
    if (kind !== "bucket" || rows === 0 || taken > 0) return;
    taken = 1;
    const outcome = from.tryAcquireSync({ entityId: "plain", resource: "chat", consume: { rpm: 1, tpd: 1 } });
    assert.equal(outcome.ok, true);
    void from.setLimits("late", [Limit.perMinute("rpm", 4)]);
  };
  const report = await copyStore({ from, to, onProgress });
  const [{ active, moved, differences } = {}] = report.namespaces;
  // The bucket, the level and its audit event; the history of the level, which is new, too.
  assert.deepEqual({ active, differences, moved: (moved ?? 0) >= 2 }, { active: true, differences: [], moved: true });
});

for (const lost of [...new Set(KINDS.map(({ kind }) => kind))]) {
  test(`a copy that loses ${lost} rows is found by the comparison, and stays hidden`, async () => {
    const { from, clock } = await told();
    const store = writingBy(openMemory(), (kind, rows) => (kind === lost && !isLedger(rows) ? [] : rows));
    const to = await RateLimiter.open({ store, clock });
    const report = await copyStore({ from, to });
    const [{ active, differences = [] } = {}] = report.namespaces;
    assert.equal(active, false);
    assert.ok(differences.length > 0);
    await assert.rejects(to.getNamespace("default"), { code: "namespace_not_found" });
    await assert.rejects(copyStore({ from, to }), { code: "copy_unfinished" });
  });
}

function isLedger(rows: readonly unknown[]): boolean {
  return rows.some((row) => (row as { readonly owner?: string }).owner === "$COPY");
}
