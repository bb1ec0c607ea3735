import type { Records } from "./records.ts";
import { all, any, type Condition, texts, updateRecord } from "./records-write.ts";
import { CLOSED_UNTIL, systemIndexKeys, usageStateKey } from "./schema.ts";

/** Before which instant all usage of a namespace is on sheets, as a sweep has noted it; undefined where none has. */
export async function readClosedUntil(records: Records, namespaceId: string): Promise<number | undefined> {
  const found = (await records.get(usageStateKey(namespaceId)))?.[CLOSED_UNTIL]?.N;
  return found === undefined ? undefined : Number(found);
}

/** Notes that a sweep has closed every hour before an instant. It only grows: of two sweeps the later end counts. */
export async function putClosedUntil(records: Records, namespaceId: string, closedUntilMs: number): Promise<void> {
  const N = String(Math.floor(closedUntilMs));
  const isEarlier: Condition = any(
    (e) => `attribute_not_exists(${e.name(CLOSED_UNTIL)})`,
    (e) => `${e.name(CLOSED_UNTIL)} < ${e.value({ N })}`,
  );
  const set = { ...texts(systemIndexKeys(namespaceId)), [CLOSED_UNTIL]: { N } };
  await records.transact([updateRecord(usageStateKey(namespaceId), { set }, all(isEarlier))]);
}
