import { type BucketState, wholeOf } from "../../domain/bucket/bucket-state.ts";
import { byPeriod, type PeriodShare } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { MILLI_MAX } from "../../domain/limits/limit-numbers.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { CreditContext, Held, WriteReply } from "../../ports/bucket-store.ts";
import type { ItemKey, TracePart } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import {
  type CreditAction,
  type CreditPlan,
  type CreditProgress,
  type CreditResult,
  creditEnded,
  nextCredit,
  onCredit,
  START_CREDIT,
} from "../decide/credit.ts";
import type { Image } from "../item/codec.ts";
import { drive } from "../process/drive.ts";
import type { Machine } from "../process/machine.ts";
import { PLACES_MAX, RETRY } from "../process/retry-policy.ts";
import { WaitingCaller } from "../process/waiting-caller.ts";
import type { BackgroundTasks } from "../shards/background-tasks.ts";
import { readWhole } from "../shards/whole.ts";
import { sheetBefore, sheetedBy } from "../usage/sheets.ts";
import { creditForm, type GiveBack } from "./credit.ts";
import { isRightPlace, isUnwrittenSince, lacksQuota, type Placed, placed, unsplit } from "./place.ts";
import { isOverBy } from "./slots-back.ts";

/** What one give-back shares with all its writes. */
interface Giving {
  readonly held: Held;
  readonly readingMs: number;
  /** When it is given up. */
  readonly untilMs: number;
  readonly caller: WaitingCaller;
  readonly slots: Pick<GiveBack, "slotsUsed" | "countsTime">;
}

/** Whether the request itself is taken back with a write: its count, its overdrafts, and a window that it opened. */
type Undoes = "request" | undefined;

/** What became of a part of a give-back, and what is still to be undone after it. */
interface Given {
  readonly replies: readonly WriteReply[];
  readonly undoes: Undoes;
}

/**
 * Gives back by room: the mirror of taking. A ticket says when something was taken, not where, so a give-back is the same for
 * every process, and splits and joins in between do not matter to it.
 *
 * What was refused is tried again for as long as `RETRY.giveBack` says, in the background once the caller's time is over: the
 * caller then gets the outcome `unknown`, so that it is not given back a second time. An answer that is lost ends it; one that
 * only comes after the caller's time counts.
 */
export class Crediting {
  readonly #context: ProtocolContext;
  readonly #background: BackgroundTasks;

  constructor(context: ProtocolContext, background: BackgroundTasks) {
    this.#context = context;
    this.#background = background;
  }

  credit(
    held: Held,
    amounts: readonly Amount[],
    {
      nowMs,
      timeoutMs,
      undoes,
      slotsUsed,
    }: Pick<CreditContext, "nowMs" | "timeoutMs" | "slotsUsed"> & {
      readonly undoes: Undoes;
    },
  ): Promise<WriteReply> {
    const calledMs = this.#context.clock.now();
    const caller = new WaitingCaller(calledMs + timeoutMs);
    const untilMs = calledMs + Math.max(timeoutMs, RETRY.giveBack.timeoutMs);
    const slots = { slotsUsed: slotsUsed === true, countsTime: undoes === undefined };
    const giving: Giving = { held, readingMs: nowMs, untilMs, caller, slots };
    const work = this.#context.caches.holding([held.bucket], () => this.#give(giving, amounts, undoes));
    void caller.left.then(() => {
      const late = work.then(orFault).finally(() => this.#context.returnedLate(held.bucket));
      this.#background.track(late, held.bucket, "give_back_not_stored", "a give-back could not be stored");
    });
    return Promise.race([work, caller.left.then(goesOn)]);
  }

  async #give(giving: Giving, amounts: readonly Amount[], undoes: Undoes): Promise<WriteReply> {
    const replies: WriteReply[] = [];
    let due = undoes;
    for (const share of byPeriod(giving.held.ticket, amounts).flatMap(inExactParts)) {
      const given = await this.#giveShare(giving, share, due);
      replies.push(...given.replies);
      due = given.undoes;
    }
    return joined(replies);
  }

  /** Each write by itself: what one shard has got already must not be given again because another could not be reached. */
  async #giveShare(giving: Giving, share: PeriodShare, undoes: Undoes): Promise<Given> {
    const replies: WriteReply[] = [];
    let due = undoes;
    let left = share.amounts;
    for (let looks = 0; ; looks++) {
      const places = await this.#placesFor(giving, { ...share, amounts: left }, looks).catch(notRead);
      if ("kind" in places) return { replies: [...replies, places], undoes: due };
      const outgrown: Placed[] = [];
      for (const place of places) {
        const result = await this.#write(giving, share, place, due);
        if (result.kind === "outgrown") {
          outgrown.push(place);
          continue;
        }
        replies.push(result.kind === "applied" ? { kind: "applied", state: this.#state(result.image) } : result);
        // With the first write that lands. Unknown: perhaps undone, so never again.
        if (result.kind === "applied" || isUnknown(result)) due = undefined;
      }
      if (outgrown.length === 0) return { replies, undoes: due };
      left = added(outgrown.flatMap(({ amounts }) => amounts));
    }
  }

  /** By what is cached, where one shard is known to have room for all of it; otherwise all shards are read first. */
  async #placesFor(giving: Giving, share: PeriodShare, looks: number): Promise<readonly Placed[] | WriteReply> {
    const { held, readingMs } = giving;
    const { caches, env } = this.#context;
    const { amounts, ticket } = share;
    const cache = caches.of(held.bucket);
    if (looks === 0 && (held.bypass || cache.shardCount === 1)) return [unsplit(amounts)];
    const place = (images: readonly Image[]) => placed(images, amounts, ticket, readingMs, env.calendar);
    if (looks === 0) {
      const known = place(cache.images());
      const [only] = known;
      if (known.length === 1 && only !== undefined && hasRoomForAll(only)) return known;
    }
    const images = await this.#shards(giving, share, looks);
    if (images.length === 0) return { kind: "gone" };
    if (images.length === 1 && images[0]?.shardCount === 1) return [unsplit(amounts)];
    // Others have filled every place again and again: rather above a capacity than not at all.
    return looks < PLACES_MAX ? place(images) : place(images).map((one) => ({ ...one, bounded: [] }));
  }

  /**
   * All shards, read once; where what was taken from a quota seems to have no room, until two reads show the same. A store reads
   * one shard after the other: tokens that are taken from a shard after it was read, and given back to one before it is read, leave
   * room on neither by what was seen. A limit that drips refills what that may cost.
   */
  async #shards(giving: Giving, { amounts, ticket }: PeriodShare, looks: number): Promise<readonly Image[]> {
    const { held, readingMs, untilMs, caller } = giving;
    const { calendar } = this.#context.env;
    const policy = RETRY.giveBack;
    let images: readonly Image[] = [];
    for (let reads = looks; ; reads++) {
      const [whole] = await readWhole(this.#context, [held.bucket], { readingMs, untilMs, policy, caller });
      const before = images;
      images = whole?.images ?? [];
      if (!lacksQuota(images, amounts, ticket, readingMs, calendar)) return images;
      if (reads >= PLACES_MAX || isUnwrittenSince(before, images)) return images;
    }
  }

  #write(
    { held, readingMs, untilMs, caller, slots }: Giving,
    { ticket }: PeriodShare,
    place: Placed,
    undoes: Undoes,
  ): Promise<CreditResult> {
    const { env, caches } = this.#context;
    const { shard, amounts, bounded } = place;
    const key: ItemKey = { bucket: held.bucket, shard };
    const undone = undoes === undefined ? NOTHING_UNDONE : undoneBy(held);
    const { overdrawn, shadowed } = held.ticket;
    const trace = undoes === undefined ? {} : { undoes: overdrawn, ...(shadowed.length === 0 ? {} : { shadowed }) };
    const parts: TracePart[] = [{ of: held, kind: "credit", amounts, ...trace }];
    const { bypass } = held;
    const cache = caches.of(held.bucket);
    const back = (): GiveBack => {
      const sheeted = sheetedBy(cache.sheet(shard));
      return { readingMs, amounts, ticket, bounded, parts, bypass, ...undone, ...slots, sheeted };
    };
    const plan: CreditPlan = {
      key,
      readingMs,
      needsImage: env.dialect.creditNeedsImage || undone.opened.length > 0 || isOverBy({ amounts, ticket }, readingMs),
      isPlace: (image) => bypass || isRightPlace(image, place, ticket, readingMs, env.calendar),
      sheetFor: (image) => sheetBefore(image, readingMs, cache.sheet(shard), env),
      writeFor: (image) => creditForm(key, image, back(), env),
    };
    const machine: Machine<CreditProgress, CreditAction, CreditResult> = {
      ended: creditEnded,
      next: (progress, turn) => nextCredit(progress, { ...turn, cached: cache.seen(shard) }, plan),
      on: onCredit,
      untilMs: () => untilMs,
      throttled: () => {},
    };
    const policy = RETRY.giveBack;
    return drive(machine, START_CREDIT, { policy, attemptsMax: policy.attempts, caller }, this.#context);
  }

  #state(image: Image): BucketState {
    const images = this.#context.caches.of(image.key.bucket).images();
    const states = (images.length === 0 ? [image] : images).map(({ state }) => state);
    return wholeOf(states, this.#context.env.calendar);
  }
}

type Undone = Pick<GiveBack, "requests" | "overdrafts" | "wouldRefuse" | "opened">;

const NOTHING_UNDONE: Undone = { requests: 0, overdrafts: [], wouldRefuse: [], opened: [] };

function undoneBy({ ticket: { overdrawn, shadowed, opened } }: Held): Undone {
  const onceEach = (limits: readonly string[]) => limits.map((limit) => ({ limit, milli: 1000 }));
  return { requests: 1, overdrafts: onceEach(overdrawn), wouldRefuse: onceEach(shadowed), opened };
}

function isUnknown(result: CreditResult): boolean {
  return result.kind === "unavailable" && result.applied === "unknown";
}

/**
 * A lease that was charged again and again, while its bucket filled in between, may hold more than one write can add exactly: that
 * comes back in several.
 */
function inExactParts(share: PeriodShare): readonly PeriodShare[] {
  const { ticket, amounts } = share;
  if (amounts.every(({ milli }) => milli <= MILLI_MAX)) return [share];
  const first = amounts.map(({ limit, milli }) => ({ limit, milli: Math.min(milli, MILLI_MAX) }));
  const rest = amounts.flatMap(({ limit, milli }) => (milli > MILLI_MAX ? [{ limit, milli: milli - MILLI_MAX }] : []));
  return [{ ticket, amounts: first }, ...inExactParts({ ticket, amounts: rest })];
}

/** One amount for each limit. */
function added(amounts: readonly Amount[]): readonly Amount[] {
  const sums = new Map<string, number>();
  for (const { limit, milli } of amounts) sums.set(limit, (sums.get(limit) ?? 0) + milli);
  return Array.from(sums, ([limit, milli]) => ({ limit, milli }));
}

function hasRoomForAll({ amounts, bounded }: Placed): boolean {
  return amounts.every(({ limit, milli }) => bounded.some((one) => one.limit === limit && one.milli === milli));
}

/** A read that fails comes before any write. */
export function notRead(error: unknown): WriteReply {
  if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", applied: "no", cause: error };
  throw error;
}

/** Where no caller is left to hear that it was not stored, or perhaps not, that is a fault. */
export function orFault(reply: WriteReply): void {
  if (reply.kind === "unavailable") throw reply.cause;
}

function goesOn(): WriteReply {
  const cause = new Error("the give-back is not stored yet; it is retried in the background");
  return { kind: "unavailable", applied: "unknown", cause };
}

/** One reply for several. What was done in part must not be done again as a whole. */
function joined(replies: readonly WriteReply[]): WriteReply {
  const missed = replies.find(({ kind }) => kind === "unavailable");
  const done = replies.find(({ kind }) => kind === "applied");
  if (missed?.kind === "unavailable" && done !== undefined) return { ...missed, applied: "unknown" };
  return missed ?? done ?? { kind: "gone" };
}
