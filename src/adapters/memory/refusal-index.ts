import type { RefusalKey } from "../../domain/charge/refusal-count.ts";

/** What one row of one process counted in one hour under one key. */
export interface RefusalEntry {
  readonly hourMs: number;
  readonly rowId: string;
  count: number;
}

/** All that was counted under one key. */
export interface RefusalCell {
  readonly key: RefusalKey;
  entries: RefusalEntry[];
}

/** The refusals of a namespace in memory. */
export interface RefusalIndex {
  readonly cells: Map<string, RefusalCell>;
  entryCount: number;
  /** When old ones were last looked for. */
  sweptAtMs: number;
}

export function emptyRefusals(): RefusalIndex {
  return { cells: new Map(), entryCount: 0, sweptAtMs: Number.NEGATIVE_INFINITY };
}
