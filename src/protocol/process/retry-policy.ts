const FOREVER = Number.POSITIVE_INFINITY;

/** The timeout of a call to the store for which no caller waits. */
const CALL_MS = 5_000;

/** The bounds of one kind of work: how often it is tried, and how long it waits in between. */
export interface RetryPolicy {
  /** Writes, transactions and consistent reads for one decision, while others write too; preparing writes do not count. */
  readonly attempts: number;
  /** Additional attempts for each limit: every failed write teaches one side of one limit's capacity. */
  readonly attemptsPerLimit: number;
  /** The number of times that a write is sent again which the store certainly did not apply (throttled, a conflict, not reachable). */
  readonly resends: number;
  /** The first wait is random, up to this; each further one is twice as long at most. */
  readonly backoffMs: number;
  readonly doublingsMax: number;
  /** True: wait also if others were only faster. */
  readonly waitsWhenOutrun: boolean;
  /** True: a failed read is tried again; otherwise it ends the work. */
  readonly rereads: boolean;
  /** The time for the work, unless a caller gives one. `FOREVER`: only the attempts count. */
  readonly timeoutMs: number;
  /** The timeout of one call, however much time is left. */
  readonly callMs: number;
}

/**
 * All retry policy of the protocol. The transport has none (ADR 9).
 *
 * A give-back goes on for 30 seconds, long after its caller has been answered: each answer "certainly not written" proves that
 * another try is safe, and throttling often takes seconds to end. Closing the store waits for it.
 */
export const RETRY = {
  take: policy({ attempts: 4, attemptsPerLimit: 2, resends: 3, backoffMs: 20, callMs: FOREVER }),
  giveBack: policy({ attempts: FOREVER, resends: FOREVER, backoffMs: 20, rereads: true, timeoutMs: 30_000 }),
  /** Reads of all shards of a bucket until they agree on their number. */
  readWhole: policy({ attempts: 4, resends: 0, backoffMs: 0 }),
  /** Several claims, or several shards, in one transaction. */
  takeTogether: policy({ attempts: 16, resends: 3, backoffMs: 8, callMs: FOREVER }),
  operation: policy({ attempts: 36, resends: 11, backoffMs: 10, waitsWhenOutrun: true }),
  /** A closed hour is put on its sheet before it is overwritten. An unclear answer is an attempt. */
  sheet: policy({ attempts: 4, resends: 0, backoffMs: 20 }),
  /** The hours of one shard are closed: a roll, a shorter expiry, and both again if others write meanwhile. The next sweep is soon. */
  closeHours: policy({ attempts: 8, resends: 0, backoffMs: 0 }),
  /** More shards, or fewer. No caller waits for it, and the next request would ask for it again. */
  resize: policy({ attempts: 12, resends: 4, backoffMs: 20, waitsWhenOutrun: true }),
  /** Fewer shards: each may first need a write for its open hour, and one for its sheet. */
  join: policy({ attempts: 160, resends: 4, backoffMs: 20, waitsWhenOutrun: true }),
  /** Changed configuration, or a mark, is written to every shard. */
  notify: policy({ attempts: 10, resends: 9, backoffMs: 10 }),
};

/** After this many lost answers the outcome of a write is reported as unknown. */
export const LOST_ANSWERS_MAX = 2;

/** A give-back that is outrun more often waits before it is sent again. */
export const OUTRUN_AT_ONCE_MAX = 4;

/** Shards are read at most this often in a row until they agree on their number. */
export const LOOKS_MAX = 4;

/** A give-back looks at most this often for room that others fill first. */
export const PLACES_MAX = 8;

/** A request follows a bucket whose shards are being split or joined at most this often. */
export const MOVES_MAX = 6;

/** After this many failed writes others are assumed to write all the time. */
export const FAILURES_FEW = 2;

/** The most jobs of one process that wait for one shard. */
export const WAITING_MAX = 1_000;

/** A request of several levels yields at most this often: a request that holds a level out of order gives it back after two or three trips. */
export const PAUSES_MAX = 4;

/** A sheet that could not be written is left alone for this long; the open hour goes on meanwhile. */
export const SHEET_AGAIN_MS = 1_000;

/** The sheets that a process writes with one take, and the most that it remembers for one minute. */
export const SHEETS_AT_ONCE = 8;
export const SHEETS_A_MINUTE_MAX = 10_000;

/** A process leaves a bucket alone for this long after it changed its shards, or tried to. */
export const BETWEEN_RESIZES_MS = 1_000;

/** The buckets below a change of configuration are listed this often: the second pass finds those just made. */
export const PASSES = 2;

/** At most this many scopes, or buckets, are told of a change of configuration at a time. */
export const TOLD_AT_ONCE = 8;

/** The delay before the next try, in ms, after this many waits; `random` in [0, 1). */
export function backoffMs({ backoffMs: firstMs, doublingsMax }: RetryPolicy, waits: number, random: number): number {
  return Math.ceil(random * firstMs * 2 ** Math.min(waits, doublingsMax));
}

function policy(own: Pick<RetryPolicy, "attempts" | "resends" | "backoffMs"> & Partial<RetryPolicy>): RetryPolicy {
  const usual = { attemptsPerLimit: 0, doublingsMax: 6, waitsWhenOutrun: false, rereads: false };
  return { ...usual, timeoutMs: FOREVER, callMs: CALL_MS, ...own };
}
