import { availableMilli, findLimit } from "../../domain/bucket/bucket-state.ts";
import { checkLeave, neededMilli } from "../../domain/limits/floor.ts";
import { isHard } from "../../domain/limits/limit.ts";
import { isGivenBack } from "../../domain/limits/limit-kind.ts";
import type { BucketStore, Returned, WatchRoom } from "../../ports/bucket-store.ts";
import type { Clock, Random } from "../../ports/system.ts";
import type { AcquireWatch } from "../acquire/acquire-watch.ts";
import type { DenyMemory } from "../acquire/deny-memory.ts";
import type { Outcome } from "../acquire/outcome.ts";
import { type AcquireRequest, checkRequest, checkWait } from "../acquire/request.ts";
import type { Returns } from "../lease/returns.ts";
import { type Lifecycle, limiterClosed } from "../limiter/lifecycle.ts";
import { type ObservedBucket, observedIn, type Refusal, UNSURE_MS } from "../refusal/refusal.ts";

/** The waiting that an attempt is a part of: what it is refused is not the end of its request. */
export interface Waiting {
  /** How long the request has waited; undefined: not at all. */
  waitedMs(): number | undefined;
}

/** What waiting needs of an acquirer. */
interface Attempts {
  readonly watch: Pick<AcquireWatch, "waitBegan" | "waitEnded">;
  readonly room: WaitingRoom;
  attempt(request: AcquireRequest, waiting: Waiting): Promise<Outcome>;
  peek(request: AcquireRequest, waiting: Waiting): Promise<Outcome>;
  refused(request: AcquireRequest, refusal: Refusal): void;
}

/** Attempts until the tokens are there or `wait.maxMs` are over, in turn with others of this process on the same bucket. */
export async function acquireWaiting(acquirer: Attempts, clock: Clock, request: AcquireRequest): Promise<Outcome> {
  const outcome = await attempts(acquirer, clock, request);
  if (outcome.ok) return outcome;
  request.signal?.throwIfAborted();
  acquirer.refused(request, outcome);
  return outcome;
}

async function attempts(acquirer: Attempts, clock: Clock, request: AcquireRequest): Promise<Outcome> {
  checkRequest(request);
  const startedMs = clock.now();
  const deadlineMs = startedMs + checkWait(request.wait);
  let hasWaited = false;
  const waiting: Waiting = { waitedMs: () => (hasWaited ? clock.now() - startedMs : undefined) };
  const turn = acquirer.room.enter(`${request.entityId}\n${request.resource}`, checkLeave(request.leavePercent));
  const ask = () => {
    turn.asks();
    return acquirer.attempt(request, waiting);
  };
  try {
    // Where no request waits that goes before it, asking overtakes none.
    let outcome = turn.isFirst() ? await ask() : undefined;
    if (outcome?.ok) return outcome;
    turn.join();
    hasWaited = true;
    acquirer.watch.waitBegan(request);
    for (; ; outcome = undefined) {
      const leftMs = deadlineMs - clock.now();
      if (!turn.isHead()) {
        // It was never this request's turn; asking now would overtake others.
        if (leftMs <= 0) return await acquirer.peek(request, waiting);
        await turn.standInLine(leftMs, request.signal);
        continue;
      }
      outcome ??= await ask();
      if (outcome.ok || leftMs <= 0) return outcome;
      const stillMs = deadlineMs - clock.now();
      if (stillMs <= 0) return outcome;
      await turn.sleepAfter(outcome, stillMs, request.signal);
    }
  } finally {
    turn.leave();
    if (hasWaited) acquirer.watch.waitEnded(request, Math.max(0, clock.now() - startedMs));
  }
}

/** One request that may have to wait. */
interface Waiter {
  /** What it must leave: who may take more goes first. */
  readonly leavePercent: number;
  /** Ends its sleep; nothing, while it does not sleep. */
  wake: () => void;
  /** Whether something came back for good since it began to ask: then what it was told is out of date. */
  isOutdated: boolean;
  /** While it asks, and while it sleeps for what it was told. */
  asked: Asked | undefined;
  /** How often in a row it was woken by what refused requests gave back. */
  momentaryWakes: number;
  /** How often it was refused for slots. */
  slotRefusals: number;
}

/** What was asked, and what has come back since that was given back by refused requests: they may have been in the way. */
interface Asked {
  readonly momentary: Momentary[];
  /** What wakes it when other processes have given back since, where the store tells. */
  readonly watch: WatchRoom | undefined;
  /** Undefined while the store has not answered. */
  refused: { readonly by: readonly ObservedBucket[]; readonly atMs: number } | undefined;
}

type Momentary = Extract<Returned, { after: "refusal" }>;

/** What the room works with. */
interface RoomDeps {
  readonly lifecycle: Lifecycle;
  readonly clock: Clock;
  readonly returns: Returns;
  readonly namespace: string;
  readonly buckets: BucketStore;
  readonly deny: DenyMemory;
  readonly random: Random;
}

/**
 * The requests of this process that wait for tokens, per bucket: those that must leave less go first, among them first come first
 * served. Only the head of a line asks the store, so a large request is not starved by small ones that come after it.
 *
 * No return is missed. What comes back while the head asks is noted, and it asks again at once: its answer may be from before.
 */
export class WaitingRoom {
  readonly #deps: RoomDeps;
  readonly #lines = new Map<string, Waiter[]>();
  readonly #present = new Set<Waiter>();
  #stopListening: (() => void) | undefined;

  constructor(deps: RoomDeps) {
    this.#deps = deps;
  }

  /** Limits changed, or something came back for good: the head of every line asks again. */
  wakeHeads(): void {
    for (const waiter of this.#present) waiter.isOutdated = true;
    for (const [head] of this.#lines.values()) head?.wake();
  }

  /** Before the first attempt, so that nothing is missed from then on. Call `leave` in the end, whatever the outcome. */
  enter(key: string, leavePercent: number): Turn {
    const { lifecycle, clock, buckets, deny } = this.#deps;
    const waiter: Waiter = {
      leavePercent,
      wake: () => {},
      isOutdated: false,
      asked: undefined,
      momentaryWakes: 0,
      slotRefusals: 0,
    };
    this.#present.add(waiter);
    this.#stopListening ??= this.#listen();
    let line: Waiter[] | undefined;
    const sleep = async (ms: number, signal: AbortSignal | undefined): Promise<void> => {
      const stop = lifecycle.onClosing(() => waiter.wake());
      try {
        if (lifecycle.isOpen) await slept(waiter, ms, clock, signal);
      } finally {
        stop();
      }
      if (!lifecycle.isOpen) throw limiterClosed();
    };
    return {
      isFirst: () => (this.#lines.get(key) ?? []).every((other) => other.leavePercent > leavePercent),
      join: () => {
        line = this.#lines.get(key) ?? [];
        if (line.length === 0) this.#lines.set(key, line);
        const after = line.findIndex((other) => other.leavePercent > leavePercent);
        line.splice(after < 0 ? line.length : after, 0, waiter);
      },
      isHead: () => line?.[0] === waiter,
      asks: () => {
        waiter.isOutdated = false;
        waiter.asked = { momentary: [], watch: buckets.foreignRoom?.(clock), refused: undefined };
      },
      standInLine: (ms, signal) => {
        waiter.asked = undefined;
        return sleep(ms, signal);
      },
      sleepAfter: async (refusal, mostMs, signal) => {
        signal?.throwIfAborted();
        const { asked } = waiter;
        const by = observedIn(refusal);
        if (asked) asked.refused = { by, atMs: clock.now() };
        if (!waiter.isOutdated && !this.#mayFit(waiter)) {
          const stop = asked?.watch?.(isShortOfSlots(refusal) ? by : [], () => {
            for (const { bucket } of by) deny.forget(bucket.id);
            waiter.wake();
          });
          await sleep(Math.min(this.#waitOf(waiter, refusal), mostMs), signal).finally(stop);
        }
        if (waiter.isOutdated || !this.#mayFit(waiter)) {
          waiter.momentaryWakes = 0;
          return;
        }
        const pauseMs = this.#pauseOf(waiter);
        waiter.momentaryWakes++;
        waiter.asked = undefined;
        if (pauseMs > 0) await sleep(Math.min(pauseMs, mostMs), signal);
      },
      leave: () => {
        this.#present.delete(waiter);
        if (line !== undefined) this.#leaveLine(key, line, waiter);
        if (this.#present.size > 0) return;
        this.#stopListening?.();
        this.#stopListening = undefined;
      },
    };
  }

  #leaveLine(key: string, line: Waiter[], waiter: Waiter): void {
    const index = line.indexOf(waiter);
    line.splice(index, 1);
    if (line.length === 0) this.#lines.delete(key);
    else if (index === 0) line[0]?.wake();
  }

  #listen(): () => void {
    const { returns, namespace, buckets } = this.#deps;
    const stops = [
      returns.listen((one) => {
        if (one.namespace === namespace) this.#hear(one.returned);
      }),
      buckets.watchReturns?.((returned) => returns.tell({ namespace, returned })),
    ];
    return () => {
      for (const stop of stops) stop?.();
    };
  }

  #hear(returned: Returned): void {
    // By another limiter on the same store: what this one remembers of the bucket is out of date, too.
    this.#deps.deny.forget(returned.bucket.id);
    if (returned.after === "use") {
      this.wakeHeads();
      return;
    }
    for (const waiter of this.#present) {
      const { asked } = waiter;
      // A request that began to hold it only after this one was refused was not in its way.
      if (asked === undefined || (asked.refused !== undefined && returned.askedMs > asked.refused.atMs)) continue;
      asked.momentary.push(returned);
      if (this.#mayFit(waiter)) waiter.wake();
    }
  }

  /**
   * Whether a request that was refused would fit with what refused requests have given back since. Were every such return to
   * wake it, two requests that share a parent would wake each other without end, refused each time.
   */
  #mayFit({ asked }: Waiter): boolean {
    if (asked?.refused === undefined || asked.momentary.length === 0) return false;
    const { momentary, refused } = asked;
    const nowMs = this.#deps.clock.now();
    return refused.by.every(({ bucket, state, take, leavePercent, taken, bypass }) => {
      if (taken || bypass) return true;
      return take.every(({ limit: name, milli }) => {
        const held = findLimit(state, name);
        if (held === undefined || !isHard(held.limit)) return true;
        const levelMilli = availableMilli(state, held, nowMs) + amountOf(momentary, bucket.id, name);
        return levelMilli >= neededMilli(milli, held.terms.capacityMilli, leavePercent);
      });
    });
  }

  /** How long it is slept on a refusal. Slots come back by other processes, which tell nobody: they are asked for again all the time. */
  #waitOf(waiter: Waiter, refusal: Refusal): number {
    if (!isShortOfSlots(refusal)) return waitOf(refusal);
    const mostMs = Math.min(SLOTS_ASKED_MOST_MS, SLOTS_ASKED_FIRST_MS * 2 ** waiter.slotRefusals++);
    // By chance up to a quarter less, so that many processes do not ask together.
    return Math.min(waitOf(refusal), Math.ceil(mostMs * (1 - chanceOf(this.#deps.random.id()) / 4)));
  }

  /**
   * Requests that each hold for a moment what the other needs would be refused together again and again: those that came later
   * let the earliest go ahead, for longer each time.
   */
  #pauseOf(waiter: Waiter): number {
    let rank = 0;
    for (const [head] of this.#lines.values()) {
      if (head === waiter) break;
      if (head !== undefined && head.momentaryWakes > 0) rank++;
    }
    return Math.min(PAUSE_MAX_MS, rank * 2 ** waiter.momentaryWakes);
  }
}

const PAUSE_MAX_MS = 1_000;

/**
 * What is remembered was seen before this request came, and something may have come back in between: it is not slept on for
 * longer than that. While it is remembered, asking again costs no call; afterwards the store says how it is. Nor is a wait
 * without end: what could certainly never be granted was thrown, so the bucket goes by other limits for the moment.
 */
function waitOf({ retryAfterMs, statuses }: Refusal): number {
  const isUnsure = retryAfterMs === Number.POSITIVE_INFINITY || statuses.some(({ asOfMs }) => asOfMs !== undefined);
  return isUnsure ? Math.min(retryAfterMs, UNSURE_MS) : retryAfterMs;
}

/** The first time that slots are asked for again, and the longest between two. */
const SLOTS_ASKED_FIRST_MS = 266;
const SLOTS_ASKED_MOST_MS = 1_000;

function isShortOfSlots({ statuses }: Refusal): boolean {
  return statuses.some(({ exceeded, kind }) => exceeded && isGivenBack(kind));
}

/** A number from 0 to 1 that is as random as the text. */
function chanceOf(text: string): number {
  let sum = 0;
  for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) % 1_000;
  return sum / 1_000;
}

/** The way of one request through the room. */
interface Turn {
  /** Whether no request waits for this bucket that goes before this one. */
  isFirst(): boolean;
  join(): void;
  isHead(): boolean;
  /** To be called as an attempt begins: what comes back from now on counts. */
  asks(): void;
  /** Resolves after `ms`, or earlier when this request became the head. Rejects at once when the limiter closes. */
  standInLine(ms: number, signal: AbortSignal | undefined): Promise<void>;
  /**
   * Resolves when it is worth asking again: after the refusal's wait, or `mostMs`, or as soon as something came back since
   * `asks` was called. Rejects at once when the limiter closes.
   */
  sleepAfter(refusal: Refusal, mostMs: number, signal: AbortSignal | undefined): Promise<void>;
  leave(): void;
}

async function slept(waiter: Waiter, ms: number, clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  const woken = new AbortController();
  const either = signal === undefined ? woken.signal : AbortSignal.any([signal, woken.signal]);
  waiter.wake = () => woken.abort();
  try {
    await clock.sleep(ms, either);
  } catch (error) {
    if (!woken.signal.aborted || signal?.aborted) throw error;
  } finally {
    waiter.wake = () => {};
  }
}

function amountOf(returned: readonly Momentary[], bucketId: string, limit: string): number {
  let sumMilli = 0;
  for (const { bucket, amounts } of returned) {
    if (bucket.id !== bucketId) continue;
    for (const amount of amounts) if (amount.limit === limit) sumMilli += amount.milli;
  }
  return sumMilli;
}
