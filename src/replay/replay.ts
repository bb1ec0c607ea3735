import type { Turns } from "../ports/system.ts";
import type { LoggedRequests } from "./logged-requests.ts";
import { RefusalRows, type ReplayRow } from "./refusal-rows.ts";
import type { Decision, ReplayedLimits } from "./replayed-limits.ts";

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
