import assert from "node:assert/strict";
import { OTHER } from "../../src/domain/charge/refusal-count.ts";
import type { CallerRow, CallerStore, CallerSum, UsageQuery } from "../../src/ports/usage-store.ts";
import { DAY_MS, HOUR_MS, type Suite, samePaged, T0, type TestedNamespace } from "./contract-kit.ts";

const MARCH = Date.UTC(2026, 2, 1);
const APRIL = Date.UTC(2026, 3, 1);

/** Usage of callers that no bucket counts: rows that processes write, summed by window. A store that keeps none has no such part. */
export function callerContract(suite: Suite): void {
  const test = (name: string, story: (place: TestedNamespace, store: CallerStore) => Promise<void>) =>
    suite.test(name, async (place) => {
      if (place.scope.callers !== undefined) await story(place, place.scope.callers);
    });

  test("what several processes counted adds up, by name", async (place, store) => {
    const other = (await place.another()).scope.callers as CallerStore;
    await store.write([row("p1", "a", { tpm: 30, "#requests": 1 })], T0);
    await other.write([row("p2", "a", { tpm: 4, "usd!": 2 })], T0);
    await other.write([row("p2", "a", { tpm: 1 }, { resource: "gpu" })], T0);
    assert.deepEqual(await sums(store, {}), [
      { ...at(T0), entityId: "a", resource: "api", counts: { tpm: 34, "#requests": 1, "usd!": 2 } },
      { ...at(T0), entityId: "a", resource: "gpu", counts: { tpm: 1 } },
    ]);
  });

  test("a row is replaced by its next version, also by a smaller one, and by no older one", async (_, store) => {
    await store.write([row("p1", "a", { tpm: 30 })], T0);
    await store.write([row("p1", "a", { tpm: 30 })], T0);
    await store.write([row("p1", "a", { tpm: -5 }, { version: 2, mustExist: true })], T0);
    assert.deepEqual(await store.write([row("p1", "a", { tpm: 30 })], T0), ["stored"]);
    assert.deepEqual(await summed(store, {}), { "a api tpm": -5 });
  });

  test("hours, days and months are told apart, and only what is asked for is shown", async (_, store) => {
    const hours = [MARCH - HOUR_MS, MARCH, APRIL - 2 * HOUR_MS, APRIL - HOUR_MS, APRIL];
    for (const [i, hourMs] of hours.entries()) {
      await store.write([row("p1", "a", { tpm: 2 ** i }, { hourMs }), row("p2", "b", { tpm: 1 }, { hourMs })], T0);
    }
    const starts = async (about: Partial<UsageQuery>) =>
      (await sums(store, { entityId: "a", ...about })).map(({ windowStartMs, counts }) => [windowStartMs, counts.tpm]);
    assert.deepEqual(
      await starts({}),
      hours.map((hourMs, i) => [hourMs, 2 ** i]),
    );
    assert.deepEqual(await starts({ window: "daily" }), [
      [MARCH - DAY_MS, 1],
      [MARCH, 2],
      [APRIL - DAY_MS, 12],
      [APRIL, 16],
    ]);
    assert.deepEqual(await starts({ window: "monthly", fromMs: MARCH, toMs: APRIL }), [[MARCH, 14]]);
    assert.deepEqual(await summed(store, { resource: "gpu" }), {});
    assert.deepEqual(await summed(store, { resource: "api", toMs: MARCH }), { "a api tpm": 1, "b api tpm": 1 });
  });

  test("a list is the same whatever the size of its pages, in windows of any length", async (_, store) => {
    // Ids that differ by characters which sort around the marks that stores put between names.
    const ids = ["a", "a-b", "a.b", "a:b", "a@b", "a_b", "ab", "A", "0", OTHER];
    for (const [i, entityId] of ids.entries()) {
      for (const hourMs of [T0, T0 + HOUR_MS, T0 + 30 * HOUR_MS]) {
        const rows = ["api", "gpu"].map((resource) => row(`p${i}`, entityId, { tpm: 1 }, { hourMs, resource }));
        await store.write(rows, T0);
      }
    }
    for (const window of ["hourly", "daily", "monthly"] as const) {
      const all = await sums(store, { window });
      const names = all.map((one) => `${one.windowStartMs} ${one.entityId}\n${one.resource}`);
      assert.deepEqual(names, names.toSorted());
      assert.equal(
        all.reduce((total, { counts }) => total + (counts.tpm ?? 0), 0),
        6 * ids.length,
      );
      await samePaged((page) => store.query(query({ window }), page), all);
    }
  });

  test("rows go with their entity, and what was written before does not come back", async (place, store) => {
    await place.create({ id: "a" });
    await store.write([row("p1", "a", { tpm: 3 }), row("p1", "b", { tpm: 1 })], T0);
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    const again = row("p1", "a", { tpm: 4 }, { version: 2, mustExist: true });
    assert.deepEqual(await store.write([again], T0), ["gone"]);
    assert.deepEqual(await summed(store, {}), { "b api tpm": 1 });
  });

  test("namespaces are apart; a deleted one takes no more, and a purge leaves nothing", async (place, store) => {
    const tenant = await place.register("tenant");
    const own = tenant.scope.callers as CallerStore;
    await own.write([row("p1", "a", { tpm: 3 })], T0);
    assert.deepEqual(await summed(store, {}), {});
    const deleted = place.event("namespace_deleted", "$NAMESPACE:tenant");
    await place.store.namespaces.delete("tenant", T0, deleted, place.namespaceId);
    await assert.rejects(async () => own.write([row("p1", "a", { tpm: 4 }, { version: 2 })], T0), {
      code: "namespace_not_found",
    });
    const purged = place.event("namespace_purged", tenant.namespaceId);
    await place.store.namespaces.purge(tenant.namespaceId, purged, place.namespaceId, () => {});
    assert.deepEqual(await summed(own, {}), {});
  });
}

function row(
  id: string,
  entityId: string,
  counts: CallerRow["counts"],
  about: Partial<Pick<CallerRow, "hourMs" | "resource" | "version" | "mustExist">> = {},
): CallerRow {
  return { id, hourMs: T0, entityId, resource: "api", version: 1, mustExist: false, counts, ...about };
}

function at(windowStartMs: number) {
  return { windowStartMs };
}

function query(about: Partial<UsageQuery>): UsageQuery {
  return { window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER, ...about };
}

async function sums(store: CallerStore, about: Partial<UsageQuery>): Promise<readonly CallerSum[]> {
  return (await store.query(query(about), { limit: 1_000 })).items;
}

/** All windows together, as `entity resource name`. */
async function summed(store: CallerStore, about: Partial<UsageQuery>): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const { entityId, resource, counts } of await sums(store, about)) {
    for (const [name, count] of Object.entries(counts)) {
      const key = `${entityId} ${resource} ${name}`;
      found[key] = (found[key] ?? 0) + count;
    }
  }
  return found;
}
