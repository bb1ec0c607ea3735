import type { Turns } from "../ports/system.ts";
import type { LoggedRequest, LoggedRequests } from "./logged-requests.ts";
import type { Decision, Refused, ReplayedLimits } from "./replayed-limits.ts";

/** The decisions of new limits about the requests of a log, beside those of old limits. */
export interface Replayed {
  /** Lines that are not empty. */
  readonly lines: number;
  /** Requests among them. */
  readonly used: number;
  /** Lines that are no requests, or cannot be read. */
  readonly skipped: number;
  readonly fromMs: number;
  readonly toMs: number;
  readonly old?: Counts;
  readonly new: Counts;
  /** Requests that the new limits refuse, and the old ones granted. Without old limits everything counts as granted. */
  readonly newlyRefused: number;
  readonly newlyGranted: number;
  readonly rows: readonly ReplayRow[];
}

interface Counts {
  readonly granted: number;
  readonly refused: number;
}

interface Replaying {
  /** At least one. */
  readonly requests: LoggedRequests;
  readonly lines: number;
  readonly old: ReplayedLimits | undefined;
  readonly new: ReplayedLimits;
  /** At most so many rows. */
  readonly top: number;
  readonly turns: Turns;
  /** Called now and then with the number of requests that are decided. May throw, to end it. */
  readonly onProgress: (decided: number) => void;
}

/** The event loop gets a turn after so many requests: signals are heard then. */
const BETWEEN_TURNS = 4_096;

/** Makes every request again, at its instant, on each set of limits. */
export async function replay({ requests, lines, top, turns, onProgress, ...on }: Replaying): Promise<Replayed> {
  const rows = new RefusalRows(on.old !== undefined);
  const [old, made] = [new Counter(), new Counter()];
  let newlyRefused = 0;
  let newlyGranted = 0;
  let decided = 0;
  for (const request of requests.inOrder()) {
    if (decided % BETWEEN_TURNS === 0 && decided > 0) {
      await turns.next();
      onProgress(decided);
    }
    decided++;
    // Most decisions are there at once, and a wait for nothing costs as much as some of them.
    const [first, second] = [on.old?.decide(request), on.new.decide(request)];
    const before = first instanceof Promise ? await first : first;
    const after = second instanceof Promise ? await second : second;
    if (before !== undefined) old.count(before);
    made.count(after);
    const wasRefused = before?.kind === "refused";
    if (wasRefused) rows.add("old", request, before);
    if (after.kind === "refused") rows.add("new", request, after);
    if (after.kind === "refused" && !wasRefused) newlyRefused++;
    if (after.kind !== "refused" && wasRefused) newlyGranted++;
  }
  const counts = on.old === undefined ? { new: made.counts } : { old: old.counts, new: made.counts };
  return {
    ...{ lines, used: requests.length, skipped: lines - requests.length },
    ...{ fromMs: requests.fromMs, toMs: requests.toMs },
    ...counts,
    ...{ newlyRefused, newlyGranted, rows: rows.most(top) },
  };
}

class Counter {
  #granted = 0;
  #refused = 0;

  count({ kind }: Decision): void {
    if (kind === "refused") this.#refused++;
    else this.#granted++;
  }

  get counts(): Counts {
    return { granted: this.#granted, refused: this.#refused };
  }
}

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
