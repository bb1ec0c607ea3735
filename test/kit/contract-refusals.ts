import assert from "node:assert/strict";
import { OTHER, OTHER_KEY, type RefusalCount } from "../../src/domain/charge/refusal-count.ts";
import type { RefusalQuery, RefusalRow } from "../../src/ports/usage-store.ts";
import { DAY_MS, HOUR_MS, type Suite, samePaged, T0, type TestedNamespace } from "./contract-kit.ts";

const MARCH = Date.UTC(2026, 2, 1);
const APRIL = Date.UTC(2026, 3, 1);

type Count = readonly [limit: string, level: string, count: number, total?: true];

/** How many requests were refused: rows that processes write, summed by hour, day and month of UTC. */
export function refusalContract(suite: Suite): void {
  suite.test("what several processes counted adds up under one key", async (place) => {
    const other = await place.another();
    await write(place, row("p1", "a", [["rpm", "a", 3]]));
    await write(other, row("p2", "a", [["rpm", "a", 4]]));
    await write(other, row("p2", "a", [["tpm", "org", 1]], { resource: "gpu" }));
    assert.deepEqual(await counts(place, {}), [
      { ...at(T0), entityId: "a", resource: "api", limit: "rpm", level: "a", total: false, count: 7 },
      { ...at(T0), entityId: "a", resource: "gpu", limit: "tpm", level: "org", total: false, count: 1 },
    ]);
  });

  suite.test(
    "a row that is written again replaces what it said, so that a repeat counts nothing twice",
    async (place) => {
      const first = row("p1", "a", [["rpm", "a", 3]]);
      await write(place, first);
      await write(place, first);
      await write(
        place,
        row(
          "p1",
          "a",
          [
            ["rpm", "a", 5],
            ["tpm", "a", 1],
          ],
          { version: 2, mustExist: true },
        ),
      );
      assert.deepEqual(await summed(place, {}), { "a api rpm": 5, "a api tpm": 1 });
    },
  );

  suite.test("a write that arrives late does not set a row back", async (place) => {
    await write(place, row("p1", "a", [["rpm", "a", 9]], { version: 2 }));
    assert.deepEqual(await write(place, row("p1", "a", [["rpm", "a", 3]], { version: 1 })), ["stored"]);
    assert.deepEqual(await summed(place, {}), { "a api rpm": 9 });
  });

  suite.test("hours, days and months are told apart at their UTC edges", async (place) => {
    const hours = [MARCH - HOUR_MS, MARCH, APRIL - 2 * HOUR_MS, APRIL - HOUR_MS, APRIL];
    for (const [i, hourMs] of hours.entries()) {
      await write(place, row("p1", "a", [["rpm", "a", 2 ** i]], { hourMs }));
    }
    const starts = async (window: RefusalQuery["window"]) =>
      (await counts(place, { window })).map(({ windowStartMs, count }) => [windowStartMs, count]);
    assert.deepEqual(
      await starts("hourly"),
      hours.map((hourMs, i) => [hourMs, 2 ** i]),
    );
    assert.deepEqual(await starts("daily"), [
      [MARCH - DAY_MS, 1],
      [MARCH, 2],
      [APRIL - DAY_MS, 12],
      [APRIL, 16],
    ]);
    assert.deepEqual(await starts("monthly"), [
      [Date.UTC(2026, 1, 1), 1],
      [MARCH, 14],
      [APRIL, 16],
    ]);
    const march = { window: "monthly", fromMs: MARCH, toMs: APRIL } as const;
    assert.deepEqual(
      (await counts(place, march)).map(({ count }) => count),
      [14],
    );
  });

  suite.test("only what is asked for is shown, windows from the first instant to before the last", async (place) => {
    const hours = [T0, T0 + HOUR_MS, T0 + 2 * HOUR_MS];
    for (const hourMs of hours) {
      await write(
        place,
        row(
          "p1",
          "a",
          [
            ["rpm", "a", 1],
            ["tpm", "org", 2],
          ],
          { hourMs },
        ),
      );
      await write(place, row("p1", "b", [["rpm", "b", 4]], { hourMs, resource: "gpu" }));
    }
    const inside = { fromMs: T0 + HOUR_MS, toMs: T0 + 2 * HOUR_MS };
    assert.deepEqual(await summed(place, inside), { "a api rpm": 1, "a api tpm": 2, "b gpu rpm": 4 });
    assert.deepEqual(await summed(place, { entityId: "a" }), { "a api rpm": 3, "a api tpm": 6 });
    assert.deepEqual(await summed(place, { resource: "gpu" }), { "b gpu rpm": 12 });
    assert.deepEqual(await summed(place, { limit: "rpm" }), { "a api rpm": 3, "b gpu rpm": 12 });
    assert.deepEqual(await summed(place, { entityId: "a", resource: "api", limit: "tpm" }), { "a api tpm": 6 });
    assert.deepEqual(await summed(place, { entityId: "c" }), {});
  });

  suite.test("a total, and a level, are told from a limit of the same name", async (place) => {
    await write(
      place,
      row("p1", "a", [
        ["usd", "org", 1],
        ["usd", "org", 2, true],
        ["usd", "a", 4],
      ]),
    );
    assert.deepEqual(
      (await counts(place, {})).map(({ level, total, count }) => [level, total, count]),
      [
        ["a", false, 4],
        ["org", false, 1],
        ["org", true, 2],
      ],
    );
  });

  suite.test("a list is the same whatever the size of its pages, in windows of any length", async (place) => {
    // Ids that differ by characters which sort around the marks that stores put between names.
    const ids = ["a", "a-b", "a.b", "a:b", "a@b", "a_b", "ab", "A", "0"];
    for (const [i, entityId] of ids.entries()) {
      for (const hourMs of [T0, T0 + HOUR_MS, T0 + 30 * HOUR_MS]) {
        await write(
          place,
          row(
            `p${i}`,
            entityId,
            [
              ["rpm", entityId, 1],
              ["tpm", "org", 1],
            ],
            { hourMs },
          ),
        );
      }
    }
    await write(place, { ...row("p1", OTHER, [[OTHER, OTHER, 5]]), resource: OTHER });
    for (const window of ["hourly", "daily", "monthly"] as const) {
      const all = await counts(place, { window });
      const names = all.map((one) => `${one.windowStartMs} ${one.entityId}\n${one.resource}\n${one.limit}`);
      assert.deepEqual(names, names.toSorted());
      const sum = all.reduce((total, { count }) => total + count, 0);
      assert.equal(sum, 2 * 3 * ids.length + 5);
      await samePaged((page) => place.scope.refusals.query(query({ window }), page), all);
    }
    const { total: _, ...other } = OTHER_KEY;
    assert.deepEqual(await summed(place, { entityId: OTHER }), { [`${OTHER} ${OTHER} ${OTHER}`]: 5 });
    assert.deepEqual(Object.values(other), [OTHER, OTHER, OTHER, OTHER]);
  });

  suite.test("refusals go with their entity, and what was written before does not come back", async (place) => {
    await place.create({ id: "a" });
    await write(place, row("p1", "a", [["rpm", "a", 3]]));
    await write(place, row("p1", "b", [["rpm", "b", 1]]));
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    const again = row("p1", "a", [["rpm", "a", 4]], { version: 2, mustExist: true });
    assert.deepEqual(await write(place, again), ["gone"]);
    assert.deepEqual(await summed(place, {}), { "b api rpm": 1 });
  });

  suite.test("namespaces are apart; a deleted one takes no more, and a purge leaves nothing", async (place) => {
    const tenant = await place.register("tenant");
    await write(tenant, row("p1", "a", [["rpm", "a", 3]]));
    assert.deepEqual(await summed(place, {}), {});
    await place.store.namespaces.delete(
      "tenant",
      T0,
      place.event("namespace_deleted", "$NAMESPACE:tenant"),
      place.namespaceId,
    );
    await assert.rejects(async () => write(tenant, row("p1", "a", [["rpm", "a", 4]], { version: 2 })), {
      code: "namespace_not_found",
    });
    const purged = place.event("namespace_purged", tenant.namespaceId);
    await place.store.namespaces.purge(tenant.namespaceId, purged, place.namespaceId, () => {});
    assert.deepEqual(await summed(tenant, {}), {});
  });
}

function row(
  id: string,
  entityId: string,
  counted: readonly Count[],
  {
    hourMs = T0,
    resource = "api",
    version = 1,
    mustExist = false,
  }: Partial<Pick<RefusalRow, "hourMs" | "resource" | "version" | "mustExist">> = {},
): RefusalRow {
  const list = counted.map(([limit, level, count, total = false]) => ({ limit, level, total, count }));
  return { id, hourMs, entityId, resource, version, mustExist, counts: list };
}

async function write(place: TestedNamespace, one: RefusalRow) {
  return place.scope.refusals.write([one], T0);
}

function at(windowStartMs: number) {
  return { window: "hourly" as const, windowStartMs };
}

function query(about: Partial<RefusalQuery>): RefusalQuery {
  return { window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER, ...about };
}

async function counts(place: TestedNamespace, about: Partial<RefusalQuery>): Promise<readonly RefusalCount[]> {
  return (await place.scope.refusals.query(query(about), { limit: 1_000 })).items;
}

/** All windows together, as `entity resource limit`. */
async function summed(place: TestedNamespace, about: Partial<RefusalQuery>): Promise<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const { entityId, resource, limit, count } of await counts(place, about)) {
    const name = `${entityId} ${resource} ${limit}`;
    sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}
