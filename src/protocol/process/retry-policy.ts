const FOREVER = Number.POSITIVE_INFINITY;

/** How long a call to the store may take where no caller waits for it. */
const CALL_MS = 5_000;

/** How often one kind of work is tried, and how long it waits in between. */
export interface RetryPolicy {
  /** Writes, transactions and consistent reads that may be needed to come to a decision, where others write too; not what prepares it. */
  readonly attempts: number;
  /** More of them for each limit: every failed write teaches one side of one limit's capacity. */
  readonly attemptsPerLimit: number;
  /** How often one write is sent again that the store certainly did not apply (throttled, a conflict, not reachable). */
  readonly resends: number;
  /** The first wait is random, up to this; each further one is twice as long at most. */
  readonly backoffMs: number;
  readonly doublingsMax: number;
  /** Whether to wait also where the store was fine and only others were faster. */
  readonly waitsWhenOutrun: boolean;
  /** Whether a read that failed is tried again; otherwise it ends the work. */
  readonly rereads: boolean;
  /** How long the work may take; where a caller gives a time, that counts. `FOREVER`: the attempts are the limit. */
  readonly timeoutMs: number;
  /** How long one call to the store may take, however much time is left. */
  readonly callMs: number;
}

/**
 * All retry policy of the protocol. The transport has none (ADR 9).
 *
 * A give-back goes on for 30 seconds, long after its caller has been answered: each answer that says "certainly not
 * written" proves that trying again is safe, and throttling often takes seconds to end. Closing the store waits for it.
 */
export const RETRY = {
  /** Taking and debiting, at one shard. */
  take: policy({ attempts: 4, attemptsPerLimit: 2, resends: 3, backoffMs: 20, callMs: FOREVER }),
  giveBack: policy({ attempts: FOREVER, resends: FOREVER, backoffMs: 20, rereads: true, timeoutMs: 30_000 }),
  /** Reading all shards of a bucket until they agree on how many they are. */
  readWhole: policy({ attempts: 4, resends: 0, backoffMs: 0 }),
  /** Several claims, or several shards, in one transaction. */
  takeTogether: policy({ attempts: 16, resends: 3, backoffMs: 8, callMs: FOREVER }),
  /** Purchases and resets. */
  operation: policy({ attempts: 36, resends: 11, backoffMs: 10, waitsWhenOutrun: true }),
  /** Putting a closed hour of usage on its sheet, before it is overwritten. Whatever the store does not say is an attempt. */
  sheet: policy({ attempts: 4, resends: 0, backoffMs: 20 }),
  /** Closing the hours of one shard: a roll, a shorter expiry, and both again where others write meanwhile. Next time is soon. */
  closeHours: policy({ attempts: 8, resends: 0, backoffMs: 0 }),
  /** More shards, or fewer. No caller waits for it, and the next request would ask for it again. */
  resize: policy({ attempts: 12, resends: 4, backoffMs: 20, waitsWhenOutrun: true }),
  /** Fewer shards: first each may need a write for its open hour, and one for its sheet. */
  join: policy({ attempts: 160, resends: 4, backoffMs: 20, waitsWhenOutrun: true }),
  /** Writing changed configuration, or a mark, to every shard. */
  notify: policy({ attempts: 10, resends: 9, backoffMs: 10 }),
};

/** So often the answer to one write may be lost before its outcome is reported as unknown. */
export const LOST_ANSWERS_MAX = 2;

/** From then on a give-back that others were faster than waits before it is sent again. */
export const OUTRUN_AT_ONCE_MAX = 4;

/** How often shards are read in a row that do not agree on how many they are. */
export const LOOKS_MAX = 4;

/** How often a give-back looks for room that others fill before it gets there. */
export const PLACES_MAX = 8;

/** How often a request follows a bucket whose shards are being split or joined. */
export const MOVES_MAX = 6;

/** After so many failed writes of a take others are taken to write all the time. */
export const FAILURES_FEW = 2;

/** How many jobs of one process wait at most for their turn at one shard. */
export const WAITING_MAX = 1_000;

/** How often a request of several levels yields: one that holds a level out of order has given it back after two or three trips. */
export const PAUSES_MAX = 4;

/** How long a sheet that could not be written is left alone; the hour that is open goes on meanwhile. */
export const SHEET_AGAIN_MS = 1_000;

/** How many sheets a process writes beside one take, and how many it remembers for one minute. */
export const SHEETS_AT_ONCE = 8;
export const SHEETS_A_MINUTE_MAX = 10_000;

/** How long a process leaves a bucket alone after it changed its shards, or tried to. */
export const BETWEEN_RESIZES_MS = 1_000;

/** How often the buckets below a change of configuration are looked for: the second pass finds those just made. */
export const PASSES = 2;

/** How many scopes, or buckets, hear of a change of configuration at a time. */
export const TOLD_AT_ONCE = 8;

/** Milliseconds to wait before trying again, after so many waits; `random` in [0, 1). */
export function backoffMs({ backoffMs: firstMs, doublingsMax }: RetryPolicy, waits: number, random: number): number {
  return Math.ceil(random * firstMs * 2 ** Math.min(waits, doublingsMax));
}

function policy(own: Pick<RetryPolicy, "attempts" | "resends" | "backoffMs"> & Partial<RetryPolicy>): RetryPolicy {
  const usual = { attemptsPerLimit: 0, doublingsMax: 6, waitsWhenOutrun: false, rereads: false };
  return { ...usual, timeoutMs: FOREVER, callMs: CALL_MS, ...own };
}
