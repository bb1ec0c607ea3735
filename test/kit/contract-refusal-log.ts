import assert from "node:assert/strict";
import type { NumberedRefusal, RefusalLogRow } from "../../src/domain/charge/refusal-log.ts";
import type { LogRowQuery, WrittenLogRow } from "../../src/ports/usage-store.ts";
import { HOUR_MS, type Suite, samePaged, T0, type TestedNamespace } from "./contract-kit.ts";

/** Single refusals: rows that processes write whole, listed hour by hour, the newest first. */
export function refusalLogContract(suite: Suite): void {
  suite.test("a logged refusal comes back with all that was said of it", async (place) => {
    const refusals: NumberedRefusal[] = [
      refusalAt(0, 5),
      refusalAt(1, 10, { retryAfterMs: null, waitedMs: 40, requestId: 'r-1 "ü\u0000' }),
      refusalAt(2, 10, { limit: "day", counts: "tpm", level: "org", total: true, available: -3, requestId: "r-2" }),
    ];
    await write(place, row("p1", "a", refusals));
    assert.deepEqual(await listed(place, {}), [stripped(row("p1", "a", refusals))]);
  });

  suite.test("a row that is written again is replaced, and a late write does not set it back", async (place) => {
    await write(place, row("p1", "a", [refusalAt(0, 1)]));
    const newer = row("p1", "a", [refusalAt(0, 1), refusalAt(1, 2)], { version: 3, mustExist: true });
    assert.deepEqual(await write(place, newer), ["stored"]);
    assert.deepEqual(await write(place, row("p1", "a", [refusalAt(0, 1)], { version: 2 })), ["stored"]);
    assert.deepEqual(await listed(place, {}), [stripped(newer)]);
  });

  suite.test(
    "rows are listed hour by hour, the newest first, of one entity or all, in pages of any size",
    async (place) => {
      const hours = [T0, T0 + HOUR_MS, T0 + 30 * HOUR_MS];
      for (const entityId of ["a", "a-b", "a.b", "A", "0"]) {
        for (const hourMs of hours) {
          for (const id of ["p1", "p2"])
            await write(place, row(id, entityId, [refusalAt(0, 1, { hourMs })], { hourMs }));
        }
      }
      const all = await listed(place, {});
      assert.equal(all.length, 30);
      assert.deepEqual([...new Set(all.map(({ hourMs }) => hourMs))], hours.toReversed());
      const one = await listed(place, { entityId: "a" });
      assert.deepEqual(
        one,
        all.filter(({ entityId }) => entityId === "a"),
      );
      const inside = { fromMs: T0 + HOUR_MS, toMs: T0 + 30 * HOUR_MS };
      assert.deepEqual([...new Set((await listed(place, inside)).map(({ hourMs }) => hourMs))], [T0 + HOUR_MS]);
      for (const about of [{}, { entityId: "a" }]) {
        const expected = about.entityId === undefined ? all : one;
        await samePaged((page) => place.scope.refusalLog.list({ ...ALWAYS, ...about }, page), expected);
      }
    },
  );

  suite.test("single refusals go with their entity, and what was written before does not come back", async (place) => {
    await place.create({ id: "a" });
    await write(place, row("p1", "a", [refusalAt(0, 1)]));
    await write(place, row("p1", "b", [refusalAt(0, 1)]));
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    const again = row("p1", "a", [refusalAt(0, 1), refusalAt(1, 2)], { version: 2, mustExist: true });
    assert.deepEqual(await write(place, again), ["gone"]);
    assert.deepEqual(
      (await listed(place, {})).map(({ entityId }) => entityId),
      ["b"],
    );
  });

  suite.test(
    "namespaces have logs of their own; a deleted one takes no more, and a purge leaves nothing",
    async (place) => {
      const tenant = await place.register("tenant");
      await write(tenant, row("p1", "a", [refusalAt(0, 1)]));
      assert.deepEqual(await listed(place, {}), []);
      const deleted = place.event("namespace_deleted", "$NAMESPACE:tenant");
      await place.store.namespaces.delete("tenant", T0, deleted, place.namespaceId);
      const more = row("p1", "a", [refusalAt(0, 1)], { version: 2 });
      await assert.rejects(async () => write(tenant, more), { code: "namespace_not_found" });
      const purged = place.event("namespace_purged", tenant.namespaceId);
      await place.store.namespaces.purge(tenant.namespaceId, purged, place.namespaceId, () => {});
      assert.deepEqual(await listed(tenant, {}), []);
    },
  );
}

function refusalAt(
  number: number,
  afterMs: number,
  { hourMs = T0, ...about }: Partial<NumberedRefusal["refusal"]> & { readonly hourMs?: number } = {},
): NumberedRefusal {
  const what = { resource: "api", limit: "rpm", counts: "rpm", level: "a", total: false };
  const much = { requested: 2, available: 1, capacity: 60, retryAfterMs: 900 };
  return { number, refusal: { atMs: hourMs + afterMs, ...what, ...much, ...about } };
}

function row(
  id: string,
  entityId: string,
  refusals: readonly NumberedRefusal[],
  {
    hourMs = T0,
    version = 1,
    mustExist = false,
  }: Partial<Pick<WrittenLogRow, "hourMs" | "version" | "mustExist">> = {},
): WrittenLogRow {
  return { id, hourMs, entityId, version, mustExist, refusals };
}

function stripped({ mustExist: _, ...rest }: WrittenLogRow): RefusalLogRow {
  return rest;
}

const ALWAYS = { fromMs: 0, toMs: T0 + 1_000 * HOUR_MS };

async function write(place: TestedNamespace, one: WrittenLogRow) {
  return place.scope.refusalLog.write([one], T0);
}

async function listed(place: TestedNamespace, about: Partial<LogRowQuery>): Promise<readonly RefusalLogRow[]> {
  return (await place.scope.refusalLog.list({ ...ALWAYS, ...about }, { limit: 1_000 })).items;
}
