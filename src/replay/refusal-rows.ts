import type { LoggedRequest } from "./logged-requests.ts";
import type { Refused } from "./replayed-limits.ts";

/** The refusals of one entity on one resource by one limit. */
export interface ReplayRow {
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for. */
  readonly resource: string;
  /** The limit with the longest wait; `null`: the resource is switched off. */
  readonly limit: string | null;
  /** Whose limit it is: the entity, or a parent of it. */
  readonly level: string;
  /** True: the limit is one of the totals over all resources. */
  readonly total: boolean;
  readonly old?: { readonly refused: number };
  readonly new: {
    readonly refused: number;
    /** The first refusal; absent: there is none. */
    readonly firstAtMs?: number;
    /** The longest wait; `Infinity`: the request never fits. Absent: there is no refusal. */
    readonly waitMaxMs?: number;
  };
}

interface Row extends Omit<ReplayRow, "old" | "new"> {
  old: number;
  new: number;
  firstAtMs: number | undefined;
  waitMaxMs: number | undefined;
}

/** Refusals by the entity that asked, the resource, and the limit that refused. */
export class RefusalRows {
  readonly #hasOld: boolean;
  readonly #rows = new Map<string, Row>();

  constructor(hasOld: boolean) {
    this.#hasOld = hasOld;
  }

  add(side: "old" | "new", { atMs, request: { entityId, resource } }: LoggedRequest, refused: Refused): void {
    const { limit, level, total, waitMs } = refused;
    const key = `${entityId}\n${resource}\n${limit ?? ""}\n${level}\n${total}`;
    let row = this.#rows.get(key);
    if (row === undefined) {
      row = { entityId, resource, limit, level, total, old: 0, new: 0, firstAtMs: undefined, waitMaxMs: undefined };
      this.#rows.set(key, row);
    }
    row[side]++;
    if (side === "old") return;
    row.firstAtMs ??= atMs;
    row.waitMaxMs = Math.max(row.waitMaxMs ?? 0, waitMs);
  }

  /** The rows with the most refusals by the new limits; then by the old ones, then by name. */
  most(top: number): readonly ReplayRow[] {
    const byName = ({ entityId, resource, limit, level }: Row) => [entityId, resource, limit, level].join("\n");
    const sorted = [...this.#rows.values()].sort(
      (a, b) => b.new - a.new || b.old - a.old || (byName(a) < byName(b) ? -1 : 1),
    );
    return sorted.slice(0, top).map(({ old, new: refused, firstAtMs, waitMaxMs, ...about }) => ({
      ...about,
      ...(this.#hasOld ? { old: { refused: old } } : {}),
      new: firstAtMs === undefined ? { refused } : { refused, firstAtMs, waitMaxMs: waitMaxMs ?? 0 },
    }));
  }
}
