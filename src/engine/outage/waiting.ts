import { availableMilli, findLimit } from "../../domain/bucket/bucket-state.ts";
import { isHard } from "../../domain/limits/limit.ts";
import { isGivenBack } from "../../domain/limits/limit-kind.ts";
import { checkLeave, neededMilli } from "../../domain/limits/limit-numbers.ts";
import type { BucketStore, Returned, WatchRoom } from "../../ports/bucket-store.ts";
import type { Clock, Random } from "../../ports/system.ts";
import type { Outcome } from "../acquire/acquiring.ts";
import type { DenyMemory } from "../acquire/deny-memory.ts";
import type { Returns } from "../acquire/guarded-deps.ts";
import { type AcquireRequest, checkRequest, checkWait } from "../acquire/request.ts";
import type { EventPublisher } from "../limiter/event-publisher.ts";
import { type Lifecycle, limiterClosed } from "../limiter/lifecycle.ts";
import { basisOf, type ObservedBucket, type Refusal, UNSURE_MS } from "../refusal/refusal.ts";

/** The waiting request of an attempt: a refused attempt does not end it. */
export interface Waiting {
  /** Undefined if the request has not waited. */
  waitedMs(): number | undefined;
}

/** The parts of an acquirer that waiting needs. */
interface Attempts {
  readonly publisher: Pick<EventPublisher, "waitBegan" | "waitEnded">;
  readonly room: WaitingRoom;
  attempt(request: AcquireRequest, waiting: Waiting): Promise<Outcome>;
  peek(request: AcquireRequest, waiting: Waiting): Promise<Outcome>;
  refused(request: AcquireRequest, refusal: Refusal, waitedMs: number | undefined): void;
}

/** Attempts until the tokens are there or `wait.maxMs` is over, in turn with other requests of this process on the bucket. */
export async function acquireWaiting(acquirer: Attempts, clock: Clock, request: AcquireRequest): Promise<Outcome> {
  checkRequest(request);
  const wait = new Wait(clock, checkWait(request.wait));
  const outcome = await attempts(acquirer, clock, request, wait);
  if (outcome.ok) return outcome;
  request.signal?.throwIfAborted();
  acquirer.refused(request, outcome, wait.waitedMs());
  return outcome;
}

/** How long a request waits. */
class Wait implements Waiting {
  readonly #clock: Clock;
  readonly #startedMs: number;
  readonly deadlineMs: number;
  #hasBegun = false;

  constructor(clock: Clock, maxMs: number) {
    this.#clock = clock;
    this.#startedMs = clock.now();
    this.deadlineMs = this.#startedMs + maxMs;
  }

  begin(): void {
    this.#hasBegun = true;
  }

  waitedMs(): number | undefined {
    return this.#hasBegun ? Math.max(0, this.#clock.now() - this.#startedMs) : undefined;
  }
}

async function attempts(acquirer: Attempts, clock: Clock, request: AcquireRequest, wait: Wait): Promise<Outcome> {
  const turn = acquirer.room.enter(`${request.entityId}\n${request.resource}`, checkLeave(request.leavePercent));
  const ask = () => {
    turn.asks();
    return acquirer.attempt(request, wait);
  };
  try {
    // If no request with precedence waits, asking overtakes none.
    let outcome = turn.isFirst() ? await ask() : undefined;
    if (outcome?.ok) return outcome;
    turn.join();
    wait.begin();
    acquirer.publisher.waitBegan(request);
    for (; ; outcome = undefined) {
      const leftMs = wait.deadlineMs - clock.now();
      if (!turn.isHead()) {
        // The turn of this request never came; asking now would overtake others.
        if (leftMs <= 0) return await acquirer.peek(request, wait);
        await turn.standInLine(leftMs, request.signal);
        continue;
      }
      outcome ??= await ask();
      if (outcome.ok || leftMs <= 0) return outcome;
      const stillMs = wait.deadlineMs - clock.now();
      if (stillMs <= 0) return outcome;
      await turn.sleepAfter(outcome, stillMs, request.signal);
    }
  } finally {
    turn.leave();
    const waitedMs = wait.waitedMs();
    if (waitedMs !== undefined) acquirer.publisher.waitEnded(request, waitedMs);
  }
}

/** One request that may have to wait. */
interface Waiter {
  /** A request that must leave less goes first. */
  readonly leavePercent: number;
  /** Ends the sleep; does nothing while it does not sleep. */
  wake: () => void;
  /** True if tokens came back for good since it began to ask: its answer is out of date. */
  isOutdated: boolean;
  /** Set while it asks, and while it sleeps after a refusal. */
  asked: Asked | undefined;
  /** Consecutive wakes by give-backs of refused requests. */
  momentaryWakes: number;
  slotRefusals: number;
}

/** An attempt, and the give-backs of refused requests since: these requests may have been in its way. */
interface Asked {
  readonly momentary: Momentary[];
  /** Wakes it when other processes give back, if the store can tell. */
  readonly watch: WatchRoom | undefined;
  refused: { readonly by: readonly ObservedBucket[]; readonly atMs: number } | undefined;
}

type Momentary = Extract<Returned, { after: "refusal" }>;

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
 * The waiting requests of this process, a line for each bucket: requests that must leave less go first, otherwise first come first
 * served. Only the head of a line asks the store, so a large request is not starved by later small ones.
 *
 * No give-back is missed: one that arrives while the head asks makes it ask again at once, because its answer may be older.
 */
export class WaitingRoom {
  readonly #deps: RoomDeps;
  readonly #lines = new Map<string, Waiter[]>();
  readonly #present = new Set<Waiter>();
  #stopListening: (() => void) | undefined;

  constructor(deps: RoomDeps) {
    this.#deps = deps;
  }

  /** The head of every line asks again: limits changed, or tokens came back for good. */
  wakeHeads(): void {
    for (const waiter of this.#present) waiter.isOutdated = true;
    for (const [head] of this.#lines.values()) head?.wake();
  }

  /** Call it before the first attempt, so that no give-back is missed, and `leave` in the end, whatever the outcome. */
  enter(key: string, leavePercent: number) {
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
      /** True if no request with precedence waits for the bucket. */
      isFirst: () => (this.#lines.get(key) ?? []).every((other) => other.leavePercent > leavePercent),
      join: () => {
        line = this.#lines.get(key) ?? [];
        if (line.length === 0) this.#lines.set(key, line);
        const after = line.findIndex((other) => other.leavePercent > leavePercent);
        line.splice(after < 0 ? line.length : after, 0, waiter);
      },
      isHead: () => line?.[0] === waiter,
      /** Call it when an attempt begins: give-backs count from now on. */
      asks: () => {
        waiter.isOutdated = false;
        waiter.asked = { momentary: [], watch: buckets.foreignRoom?.(clock), refused: undefined };
      },
      /** Resolves after `ms`, or when this request becomes the head. Rejects when the limiter closes. */
      standInLine: (ms: number, signal: AbortSignal | undefined): Promise<void> => {
        waiter.asked = undefined;
        return sleep(ms, signal);
      },
      /**
       * Resolves when it is worth asking again: after the refusal's wait, after `mostMs`, or on a give-back since `asks`. Rejects when the
       * limiter closes.
       */
      sleepAfter: async (refusal: Refusal, mostMs: number, signal: AbortSignal | undefined): Promise<void> => {
        signal?.throwIfAborted();
        const { asked } = waiter;
        const { by } = basisOf(refusal);
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
    // The give-back may come from another limiter on the store: the image in the deny memory is out of date.
    this.#deps.deny.forget(returned.bucket.id);
    if (returned.after === "use") {
      this.wakeHeads();
      return;
    }
    for (const waiter of this.#present) {
      const { asked } = waiter;
      // A request that took the tokens after this one was refused was not in its way.
      if (asked === undefined || (asked.refused !== undefined && returned.askedMs > asked.refused.atMs)) continue;
      asked.momentary.push(returned);
      if (this.#mayFit(waiter)) waiter.wake();
    }
  }

  /**
   * True if a refused request may fit with the give-backs of other refused requests. If every such give-back woke it, two requests that
   * share a parent would wake each other without end.
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

  /** The sleep after a refusal. Other processes give slots back unheard, so a request for slots asks again more often. */
  #waitOf(waiter: Waiter, refusal: Refusal): number {
    if (!isShortOfSlots(refusal)) return waitOf(refusal);
    const mostMs = Math.min(SLOTS_ASKED_MOST_MS, SLOTS_ASKED_FIRST_MS * 2 ** waiter.slotRefusals++);
    // Randomly up to a quarter less, so that many processes do not ask together.
    return Math.min(waitOf(refusal), Math.ceil(mostMs * (1 - chanceOf(this.#deps.random.id()) / 4)));
  }

  /**
   * Requests that each hold for a moment what the other needs would refuse each other again and again: later ones pause, longer each
   * time, so that the earliest goes ahead.
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
 * A refusal from an older image may have missed a give-back, so its sleep is short: while the image is remembered, asking costs no
 * call. So is a wait without end: a request that can never be granted would have thrown, so the bucket has other limits at present.
 */
function waitOf({ retryAfterMs, statuses }: Refusal): number {
  const isUnsure = retryAfterMs === Number.POSITIVE_INFINITY || statuses.some(({ asOfMs }) => asOfMs !== undefined);
  return isUnsure ? Math.min(retryAfterMs, UNSURE_MS) : retryAfterMs;
}

/** The first pause before asking for slots again, and the longest. */
const SLOTS_ASKED_FIRST_MS = 266;
const SLOTS_ASKED_MOST_MS = 1_000;

function isShortOfSlots({ statuses }: Refusal): boolean {
  return statuses.some(({ exceeded, kind }) => exceeded && isGivenBack(kind));
}

/** A number from 0 to 1, as random as the text. */
function chanceOf(text: string): number {
  let sum = 0;
  for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) % 1_000;
  return sum / 1_000;
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
