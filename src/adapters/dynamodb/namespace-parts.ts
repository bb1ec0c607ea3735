import type { AuditEvent } from "../../domain/config/audit.ts";
import { namespaceNotActive } from "../../domain/config/namespace.ts";
import type { Clock, Random } from "../../ports/system.ts";
import type { ProtocolBuckets } from "../../protocol/buckets.ts";
import type { DynamoAudit } from "./audit.ts";
import { change, type Decision } from "./changes.ts";
import type { Attributes } from "./codec.ts";
import type { ConfigReader, RecentChange } from "./config-reader.ts";
import { activeCheck, type NamespaceWatch } from "./namespaces-record.ts";
import type { Records } from "./records.ts";
import type { Retention } from "./retention.ts";
import { namespaceIdKey, type TableKey } from "./schema.ts";
import type { VersionGate } from "./version-gate.ts";

/** The values that the stores of one namespace share. */
export interface NamespaceParts {
  readonly namespaceId: string;
  readonly records: Records;
  /** Bounded by the time of a request, for calls that a request waits for. */
  readonly urgent: Records;
  readonly clock: Clock;
  readonly ids: Random;
  /**
   * The original writes to this table too. It has no plans, totals or versions of limits, and reads access, limits and owners
   * from the buckets only.
   */
  readonly shared: boolean;
  readonly watch: NamespaceWatch;
  readonly gate: VersionGate;
  readonly audit: DynamoAudit;
  readonly kept: Retention;
  readonly recent: RecentChange;
  readonly reader: ConfigReader;
  readonly buckets: ProtocolBuckets;
  /** See `PropagationParts.settle` of the protocol. */
  readonly settle: () => Promise<void>;
}

/** Makes a change in one transaction with the check that the namespace is active, and with the audit event. */
export function changeIn<Reply>(
  { namespaceId, records, watch, audit }: NamespaceParts,
  what: string,
  event: AuditEvent | undefined,
  decide: () => Promise<Decision<Reply> & { readonly event?: AuditEvent }>,
): Promise<Reply> {
  return change(records, what, async () => {
    const { writes, event: decided = event, ...decision } = await decide();
    if (writes === undefined) return decision;
    const logged = decided === undefined ? [] : [await audit.entry(decided)];
    return {
      ...decision,
      writes: [...writes, activeCheck(namespaceId), ...logged],
      onConflict: (failed) => {
        if (!failed.has(writes.length)) return;
        watch.forget(namespaceId);
        throw namespaceNotActive(namespaceId);
      },
    };
  });
}

/** The items, strongly consistent. Throws if the namespace is not active. */
export async function readActive(
  { namespaceId, records, watch }: NamespaceParts,
  keys: readonly TableKey[],
): Promise<readonly (Attributes | undefined)[]> {
  const found = await records.getAll([...keys, namespaceIdKey(namespaceId)]);
  watch.requireActive(namespaceId, found.at(-1));
  return found.slice(0, -1);
}
