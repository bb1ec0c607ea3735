import type { ConfigScope } from "../domain/config/config.ts";
import type { RecordKey } from "../ports/record-store.ts";
import { historyKey, stintsKey } from "../stored/config-keys.ts";

/** The scope of the records that are of no namespace: the namespaces themselves. */
export const REGISTRY = "";

export const namespaceKey = (id: string): RecordKey => ({ kind: "namespace", key: [id] });
export const entityKey = (id: string): RecordKey => ({ kind: "entity", key: [id] });
export const planKey = (id: string): RecordKey => ({ kind: "plan", key: [id] });
export const ownerKey = (owner: string): RecordKey => ({ kind: "owner", key: [owner] });
export const ownedKey = (piece: string): RecordKey => ({ kind: "owned", key: [piece] });
export const leaseKey = (id: string): RecordKey => ({ kind: "lease", key: [id] });
export const markKey = (key: string): RecordKey => ({ kind: "leaseKey", key: [key] });

export const configKey = (scope: ConfigScope): RecordKey => ({ kind: "config", key: historyKey(scope) });
export const historyOf = (scope: ConfigScope): RecordKey => ({ kind: "history", key: historyKey(scope) });
export const stintsOf = (entityId: string): RecordKey => ({ kind: "history", key: stintsKey(entityId) });
