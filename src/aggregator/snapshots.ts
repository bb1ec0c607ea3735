import type { Attributes } from "../adapters/dynamodb/codec.ts";
import type { Records } from "../adapters/dynamodb/records.ts";
import { putRecord, texts, updateRecord } from "../adapters/dynamodb/records-write.ts";
import { Retention } from "../adapters/dynamodb/retention.ts";
import {
  configKey,
  ENTITY_ID,
  isoSeconds,
  RESOURCE,
  systemIndexKeys,
  systemPk,
  TOTAL_EVENTS,
  TTL,
  USAGE_KEPT_DAYS,
  usageIndexKeys,
  usageKey,
  WINDOW,
  WINDOW_START,
} from "../adapters/dynamodb/schema.ts";
import { countName, type UsageSnapshot, windowStartMs } from "../domain/charge/usage.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import { pagesOf } from "../domain/names/paging.ts";
import type { UsageStore } from "../ports/usage-store.ts";

/** Windows that are copied for readers of the Python original. */
export type SnapshotWindow = "hourly" | "daily";

/** `hourly`, `daily` or both, with a comma. */
export function checkSnapshots(list: string | readonly string[]): readonly SnapshotWindow[] {
  const names = (typeof list === "string" ? list.split(",") : list).map((name) => name.trim());
  const known = names.filter((name): name is SnapshotWindow => name === "hourly" || name === "daily");
  if (known.length === names.length && known.length > 0) return [...new Set(known)];
  throw new ValidationError(
    "snapshots_invalid",
    `The snapshots are ${shown(list)}; give hourly, daily, or both with a comma.`,
  );
}

interface SnapshotParts {
  readonly records: Records;
  readonly usage: (namespaceId: string) => UsageStore;
  readonly windows: readonly SnapshotWindow[];
}

/**
 * Copies closed hours and days into the layout of the original's readers. Closed windows never change, so repeated
 * copies are identical. The progress is recorded per namespace and window.
 */
export function snapshotCopier(parts: SnapshotParts): (namespaceId: string, closedUntilMs: number) => Promise<void> {
  return async (namespaceId, closedUntilMs) => {
    for (const window of parts.windows) await copy(parts, { namespaceId, window, closedUntilMs });
  };
}

const PAGE = 1_000;
const AT_ONCE = 25;

interface Copied {
  readonly namespaceId: string;
  readonly window: SnapshotWindow;
  readonly closedUntilMs: number;
}

async function copy({ records, usage }: SnapshotParts, copied: Copied): Promise<void> {
  const { namespaceId, window, closedUntilMs } = copied;
  const key = { pk: systemPk(namespaceId), sk: "#SNAPSHOTS" };
  const [noted, system] = await records.getAll([key, configKey(namespaceId, { level: "system" })]);
  // Copies are kept as long as the usage itself.
  const kept = new Retention(USAGE_KEPT_DAYS);
  kept.learn(system);
  const doneMs = Number(noted?.[window]?.N ?? closedUntilMs - kept.keptS * 1000);
  const toMs = windowStartMs(window, closedUntilMs);
  const fromMs = windowStartMs(window, doneMs);
  if (toMs <= fromMs) return;
  const asked = { window, fromMs, toMs };
  for await (const { items } of pagesOf((from) => usage(namespaceId).query(asked, { limit: PAGE, ...from }))) {
    for (let i = 0; i < items.length; i += AT_ONCE) {
      const writes = items.slice(i, i + AT_ONCE).map((snapshot) => {
        const item = snapshotItem(namespaceId, snapshot, kept.keptS);
        return putRecord(usageKey(namespaceId, snapshot), item, undefined);
      });
      await records.transact(writes);
    }
  }
  const set = { ...texts(systemIndexKeys(namespaceId)), [window]: { N: String(toMs) } };
  await records.transact([updateRecord(key, { set }, undefined)]);
}

/** Reserved names of the original's layout: a limit of such a name cannot be copied. */
const TAKEN: ReadonlySet<string> = new Set([
  ...[ENTITY_ID, RESOURCE, WINDOW, WINDOW_START, TOTAL_EVENTS, TTL],
  ...["PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "GSI4PK", "GSI4SK"],
]);

function snapshotItem(namespaceId: string, snapshot: UsageSnapshot, keptS: number): Attributes {
  const { entityId, resource, window, windowStartMs: startMs, windowEndMs: endMs, requests } = snapshot;
  const counted = [
    ...Object.entries(snapshot.counters),
    ...Object.entries(snapshot.overdrafts).map(([limit, count]) => [countName("overdrafts", limit), count] as const),
  ];
  const counters = counted
    .filter(([limit]) => !TAKEN.has(limit))
    .map(([limit, tokens]) => [limit, { N: String(Math.floor(tokens)) }] as const);
  return {
    ...texts({ [ENTITY_ID]: entityId, [RESOURCE]: resource, [WINDOW]: window, [WINDOW_START]: isoSeconds(startMs) }),
    ...texts(usageIndexKeys(namespaceId, snapshot)),
    ...Object.fromEntries(counters),
    [TOTAL_EVENTS]: { N: String(requests) },
    [TTL]: { N: String(Math.ceil(endMs / 1000) + keptS) },
  };
}
