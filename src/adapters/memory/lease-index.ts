import type { LeaseRecord } from "../../domain/lease/lease-record.ts";
import type { KeyRecord } from "../../ports/lease-store.ts";
import { MinuteIndex } from "./minute-index.ts";

/** The leases and keys of a namespace. */
export interface LeaseIndex {
  readonly records: Map<string, LeaseRecord>;
  readonly keys: Map<string, KeyRecord & { readonly forgottenAtMs: number }>;
  /** Open leases by the end of their hold. */
  readonly due: MinuteIndex;
  /** Closed leases, and keys, by when they are forgotten. */
  readonly closed: MinuteIndex;
  readonly oldKeys: MinuteIndex;
}

export function emptyLeases(): LeaseIndex {
  return {
    records: new Map(),
    keys: new Map(),
    due: new MinuteIndex(),
    closed: new MinuteIndex(),
    oldKeys: new MinuteIndex(),
  };
}
