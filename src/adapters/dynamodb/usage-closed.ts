import type { Records } from "./records.ts";
import { all, any, type Condition, texts, updateRecord } from "./records-write.ts";
import { CLOSED_UNTIL, systemIndexKeys, USED_RESOURCES, USED_RESOURCES_ARE, usageStateKey } from "./schema.ts";

/** What sweeps have noted about the usage of a namespace. */
export interface UsageState {
  /** Before this instant all usage is on sheets; undefined where no sweep has been through. */
  readonly closedUntilMs: number | undefined;
  /** Resources that have been used, as far as they are noted. */
  readonly resources: readonly string[];
  /** "whole": every sheet of a closed hour is of one of them. "too many": no more are noted. */
  readonly resourcesAre: "gathered" | "whole" | "too many";
}

export async function readUsageState(records: Records, namespaceId: string): Promise<UsageState> {
  const found = await records.get(usageStateKey(namespaceId));
  const untilMs = found?.[CLOSED_UNTIL]?.N;
  const are = found?.[USED_RESOURCES_ARE]?.S;
  return {
    closedUntilMs: untilMs === undefined ? undefined : Number(untilMs),
    resources: found?.[USED_RESOURCES]?.SS ?? [],
    resourcesAre: are === "whole" || are === "too many" ? are : "gathered",
  };
}

/** Before which instant all usage of a namespace is on sheets, as a sweep has noted it; undefined where none has. */
export async function readClosedUntil(records: Records, namespaceId: string): Promise<number | undefined> {
  return (await readUsageState(records, namespaceId)).closedUntilMs;
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
