import assert from "node:assert/strict";
import { test } from "node:test";
import { isoSeconds, usageIndexKeys, usageKey } from "../../src/adapters/dynamodb/schema.ts";
import type { UsageWindow } from "../../src/domain/charge/usage.ts";
import type { UsageQuery } from "../../src/ports/usage-store.ts";
import { allPages, samePaged } from "../kit/contract-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { type Ground, N, newGround, S } from "./store-kit.ts";

const MIDNIGHT = Date.UTC(2026, 2, 1);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const EVER = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;

await describeDynamo("usage as the original's aggregator writes it", (dynamodb) => {
  test("the hour, the day and the month that begin together are told apart (W39)", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    for (const [window, tokens] of [
      ["hourly", 1],
      ["daily", 24],
      ["monthly", 744],
    ] as const) {
      await count(ground, { entityId: "a", resource: "api", window, windowStartMs: MIDNIGHT }, tokens);
    }
    for (const [window, tokens, lengthMs] of [
      ["hourly", 1, HOUR_MS],
      ["daily", 24, DAY_MS],
      ["monthly", 744, 31 * DAY_MS],
    ] as const) {
      for (const scope of [{ entityId: "a" }, { resource: "api" }, { entityId: "a", resource: "api" }, {}]) {
        assert.deepEqual(await queried(ground, { ...scope, ...EVER, window }), [
          {
            entityId: "a",
            resource: "api",
            window,
            windowStartMs: MIDNIGHT,
            windowEndMs: MIDNIGHT + lengthMs,
            counters: { rpm: tokens },
            requests: 3,
            overdrafts: { rpm: 2 },
            bypassed: {},
            wouldRefuse: {},
            heldMs: {},
          },
        ]);
      }
    }
  });

  test("what the original wrote is read by what it says of itself: its key does not tell a day from an hour", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    const usage = { entityId: "a", resource: "api", window: "hourly", windowStartMs: MIDNIGHT } as const;
    await count(ground, usage, 5, "daily");
    assert.deepEqual(await queried(ground, { entityId: "a", ...EVER, window: "hourly" }), []);
    assert.equal((await queried(ground, { resource: "api", ...EVER, window: "daily" })).length, 1);
  });

  test("usage comes by window, entity and resource, within its time, page by page", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    for (const [hour, entityId, resource] of [
      [2, "a", "z"],
      [1, "b", "api"],
      [1, "a", "z"],
      [1, "a", "api"],
      [0, "b", "b/c"],
      [3, "a", "api"],
    ] as const) {
      const windowStartMs = MIDNIGHT + hour * HOUR_MS;
      await count(ground, { entityId, resource, window: "hourly", windowStartMs }, 1);
    }
    const between = { window: "hourly", fromMs: MIDNIGHT + HOUR_MS, toMs: MIDNIGHT + 3 * HOUR_MS } as const;
    const places = async (query: UsageQuery, page: { limit: number; cursor?: string }) => {
      const { items, ...rest } = await ground.place.scope.usage.query(query, page);
      return {
        ...rest,
        items: items.map((each) => [(each.windowStartMs - MIDNIGHT) / HOUR_MS, each.entityId, each.resource]),
      };
    };
    await samePaged(
      (page) => places(between, page),
      [
        [1, "a", "api"],
        [1, "a", "z"],
        [1, "b", "api"],
        [2, "a", "z"],
      ],
    );
    await samePaged(
      (page) => places({ ...between, entityId: "a" }, page),
      [
        [1, "a", "api"],
        [1, "a", "z"],
        [2, "a", "z"],
      ],
    );
    await samePaged(
      (page) => places({ ...between, resource: "z" }, page),
      [
        [1, "a", "z"],
        [2, "a", "z"],
      ],
    );
    await samePaged((page) => places({ ...between, entityId: "a", resource: "api" }, page), [[1, "a", "api"]]);
    await samePaged((page) => places({ ...between, entityId: "nobody" }, page), []);
  });
});

/** A snapshot as the aggregator writes it; `said`: the window that it names, where that differs from its key's. */
async function count(
  { put, namespaceId }: Ground,
  usage: {
    readonly entityId: string;
    readonly resource: string;
    readonly window: UsageWindow;
    readonly windowStartMs: number;
  },
  tokens: number,
  said: UsageWindow = usage.window,
): Promise<void> {
  const index = Object.entries(usageIndexKeys(namespaceId, usage)).map(([name, value]) => [name, S(value)] as const);
  await put(usageKey(namespaceId, usage), {
    ...Object.fromEntries(index),
    ...{ entity_id: S(usage.entityId), resource: S(usage.resource), window: S(said) },
    window_start: S(isoSeconds(usage.windowStartMs)),
    ...{ rpm: N(tokens), "rpm#od": N(2), total_events: N(3), ttl: N(1) },
  });
}

async function queried({ place }: Ground, query: UsageQuery) {
  return allPages((page) => place.scope.usage.query(query, page), 10);
}
