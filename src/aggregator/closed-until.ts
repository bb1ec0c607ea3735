import type { Records } from "../adapters/dynamodb/records.ts";
import { any, type Condition, isStill, texts, updateRecord } from "../adapters/dynamodb/records-write.ts";
import { systemIndexKeys, systemPk, type TableKey } from "../adapters/dynamodb/schema.ts";
import type { ClosedUntil } from "./sweep-parts.ts";

/** Kept beside the other records of each namespace. */
export function closedUntilIn(records: Records): ClosedUntil {
  return {
    read: async (namespaceId) => {
      const untilMs = (await records.get(usageKey(namespaceId)))?.[CLOSED_UNTIL]?.N;
      return untilMs === undefined ? undefined : Number(untilMs);
    },
    write: async (namespaceId, closedUntilMs) => {
      const value = { N: String(closedUntilMs) };
      const isEarlier: Condition = (e) => `${e.name(CLOSED_UNTIL)} < ${e.value(value)}`;
      const set = { ...texts(systemIndexKeys(namespaceId)), [CLOSED_UNTIL]: value };
      const grows = any(isStill(CLOSED_UNTIL, undefined), isEarlier);
      await records.transact([updateRecord(usageKey(namespaceId), { set }, grows)]);
    },
  };
}

const CLOSED_UNTIL = "closed_until";

function usageKey(namespaceId: string): TableKey {
  return { pk: systemPk(namespaceId), sk: "#USAGE" };
}
