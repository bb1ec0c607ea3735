import { share } from "../bucket/share.ts";
import type { Amount } from "../domain/amounts.ts";
import { type BucketState, wholeOf } from "../domain/bucket-state.ts";
import { RateLimiterUnavailable } from "../domain/errors.ts";
import type { CallContext, Held, WriteReply } from "../ports/bucket-store.ts";
import type { ItemKey, TracePart } from "../ports/item-store.ts";
import type { BackgroundTasks } from "./background-tasks.ts";
import type { Image } from "./codec.ts";
import type { ProtocolContext } from "./context.ts";
import { creditForm, type GiveBack } from "./credit.ts";
import {
  type CreditAction,
  type CreditPlan,
  type CreditProgress,
  type CreditResult,
  creditEnded,
  nextCredit,
  onCredit,
  START_CREDIT,
} from "./decide/credit.ts";
import { drive, type Machine } from "./drive.ts";
import { RETRY } from "./retry-policy.ts";
import { sheetBefore, sheetedBy } from "./sheets.ts";
import { type ShardTicket, type TicketPart, ticketOn } from "./ticket.ts";
import { WaitingCaller } from "./waiting-caller.ts";
import { readWhole } from "./whole.ts";

/** What one give-back shares with all its writes. */
interface Giving {
  readonly held: Held;
  readonly readingMs: number;
  /** When it is given up. */
  readonly untilMs: number;
  readonly caller: WaitingCaller;
  /** Whether the request itself is still to be taken back: with the first shard that something is given to. */
  readonly undo: { isDue: boolean };
}

/**
 * Gives back to where something was taken. What was refused is tried again for as long as `RETRY.giveBack` says, in the
 * background once the caller's time is over: the caller then gets the outcome `unknown`, so that it is not given back a
 * second time. An answer that is lost ends it; one that only comes after the caller's time counts.
 */
export class Crediting {
  readonly #context: ProtocolContext;
  readonly #background: BackgroundTasks;
  /** Of what was gathered from several shards: what each part still has to get back, in millitokens. */
  readonly #owed = new WeakMap<TicketPart, Map<string, number>>();

  constructor(context: ProtocolContext, background: BackgroundTasks) {
    this.#context = context;
    this.#background = background;
  }

  credit(
    held: Held,
    amounts: readonly Amount[],
    { nowMs, timeoutMs, undoes }: Pick<CallContext, "nowMs" | "timeoutMs"> & { readonly undoes: "request" | undefined },
  ): Promise<WriteReply> {
    const calledMs = this.#context.clock.now();
    const caller = new WaitingCaller(calledMs + timeoutMs);
    const untilMs = calledMs + Math.max(timeoutMs, RETRY.giveBack.timeoutMs);
    const giving = { held, readingMs: nowMs, untilMs, caller, undo: { isDue: undoes === "request" } };
    const work = this.#toAllParts(giving, amounts);
    void caller.left.then(() => this.#background.track(work));
    return Promise.race([work, caller.left.then(goesOn)]);
  }

  async #toAllParts(giving: Giving, amounts: readonly Amount[]): Promise<WriteReply> {
    const replies: WriteReply[] = [];
    for (const { part, due } of this.#dueTo(ticketOn(giving.held.ticket), amounts)) {
      if (due.length === 0) continue;
      const reply = await this.#toPart(giving, part, due).catch(notRead);
      if (reply.kind === "unavailable" && reply.applied === "no") this.#oweAgain(part, due);
      replies.push(reply);
    }
    return joined(replies);
  }

  /** To the shard that it was taken from; or to all of them, where the bucket has more shards than then. */
  async #toPart(giving: Giving, part: TicketPart, amounts: readonly Amount[]): Promise<WriteReply> {
    const reply = await this.#toShard(giving, part, amounts, !giving.held.bypass);
    return reply === "split" ? this.#spread(giving, part, amounts) : reply;
  }

  /** To one shard, or to where its tokens are by now; `split` where it is due to more shards, if `spreads`. */
  async #toShard(
    giving: Giving,
    part: TicketPart,
    amounts: readonly Amount[],
    spreads: boolean,
  ): Promise<WriteReply | "split"> {
    const cache = this.#context.caches.of(giving.held.bucket);
    let shard = cache.isUnknown ? part.shard : part.shard % cache.shardCount;
    for (let moves = 0; moves < MOVES_MAX; moves++) {
      const result = await this.#write(giving, { ...part, shard }, amounts, spreads);
      switch (result.kind) {
        case "applied":
          return { kind: "applied", state: this.#state(result.image) };
        case "unavailable":
          return result;
        case "split":
          return "split";
        case "gone":
          return { kind: "gone" };
        default:
      }
      // The shard is gone: its tokens are its sibling's now. By then the shards may have been joined once more.
      if ((await this.#readAll(giving)).length === 0) break;
      shard = part.shard % cache.shardCount;
    }
    return { kind: "gone" };
  }

  #write(
    { held, readingMs, untilMs, caller, undo }: Giving,
    { shard, mark, shardCount, overdrawn }: TicketPart,
    amounts: readonly Amount[],
    spreads: boolean,
  ): Promise<CreditResult> {
    const { env, caches } = this.#context;
    const key: ItemKey = { bucket: held.bucket, shard };
    const undoes = undo.isDue ? { undoes: overdrawn } : {};
    const parts: TracePart[] = [{ of: held, kind: "credit", amounts, ...undoes }];
    const { bypass } = held;
    const undone = undo.isDue ? { requests: 1, overdrafts: overdrawn.map(ofOne) } : NOTHING_UNDONE;
    const cache = caches.of(held.bucket);
    const back = (): GiveBack => {
      const sheeted = sheetedBy(cache.sheet(shard));
      return { readingMs, amounts, mark, shardCount, parts, bypass, ...undone, sheeted };
    };
    const plan: CreditPlan = {
      key,
      readingMs,
      shardCount,
      spreads,
      needsImage: env.dialect.creditNeedsImage,
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
    const done = drive(machine, START_CREDIT, { policy, attemptsMax: policy.attempts, caller }, this.#context);
    return done.then((result) => {
      // Unknown: perhaps taken back, so never again.
      const isUnknown = result.kind === "unavailable" && result.applied === "unknown";
      if (result.kind === "applied" || isUnknown) undo.isDue = false;
      return result;
    });
  }

  /**
   * What was taken before the bucket was split belongs to all shards: one alone may have no room for it, and what another
   * owes would not be paid by it. Where they are split again meanwhile, what is left is shared out anew, all of it at once:
   * were each share divided again, a give-back would take as many writes as the numbers of shards multiplied.
   */
  async #spread(giving: Giving, part: TicketPart, amounts: readonly Amount[]): Promise<WriteReply> {
    const replies: WriteReply[] = [];
    let left = amounts;
    while (left.length > 0) {
      const count = await this.#shardsToShareAmong(giving).catch(notRead);
      if (typeof count !== "number") {
        replies.push(count);
        break;
      }
      const again: Amount[] = [];
      for (let shard = 0; shard < count; shard++) {
        const due = shareOf(left, shard, count);
        if (due.length === 0) continue;
        const own = count === 1 ? part : { ...part, shard, shardCount: count };
        // Each by itself: what one shard has got already must not be given again because another could not be reached.
        const reply = await this.#toShard(giving, own, due, count > 1).catch(notRead);
        if (reply === "split") again.push(...due);
        else replies.push(reply);
      }
      left = added(again);
    }
    return joined(replies);
  }

  /** 1 where the shards are just being split or joined: then one takes it all. */
  async #shardsToShareAmong(giving: Giving): Promise<number> {
    const images = await this.#readAll(giving);
    const { shardCount } = this.#context.caches.of(giving.held.bucket);
    return images.length === shardCount ? shardCount : 1;
  }

  async #readAll({ held, readingMs, untilMs, caller }: Giving): Promise<readonly Image[]> {
    const [whole] = await readWhole(this.#context, [held.bucket], {
      readingMs,
      untilMs,
      policy: RETRY.giveBack,
      caller,
    });
    return whole?.images ?? [];
  }

  #state(image: Image): BucketState {
    const images = this.#context.caches.of(image.key.bucket).images();
    const states = (images.length === 0 ? [image] : images).map(({ state }) => state);
    return wholeOf(states, this.#context.env.calendar);
  }

  /** What of the amounts goes back to which part; of what was gathered, each part gets at most what it gave. */
  #dueTo({ parts }: ShardTicket, amounts: readonly Amount[]): readonly PartDue[] {
    const [first] = parts;
    if (parts.length === 1 && first !== undefined && first.gave === undefined) return [{ part: first, due: amounts }];
    const left = new Map(amounts.map(({ limit, milli }) => [limit, milli]));
    return parts.map((part) => {
      const due: Amount[] = [];
      const owed = this.#owedTo(part);
      for (const [limit, milliOwed] of owed) {
        const milli = Math.min(milliOwed, left.get(limit) ?? 0);
        if (milli <= 0) continue;
        owed.set(limit, milliOwed - milli);
        left.set(limit, (left.get(limit) ?? 0) - milli);
        due.push({ limit, milli });
      }
      return { part, due };
    });
  }

  #owedTo(part: TicketPart): Map<string, number> {
    let owed = this.#owed.get(part);
    if (owed === undefined) {
      owed = new Map(part.gave?.map(({ limit, milli }) => [limit, milli]));
      this.#owed.set(part, owed);
    }
    return owed;
  }

  /** It was not given back, and may be asked for again. */
  #oweAgain(part: TicketPart, due: readonly Amount[]): void {
    if (part.gave === undefined) return;
    const owed = this.#owedTo(part);
    for (const { limit, milli } of due) owed.set(limit, (owed.get(limit) ?? 0) + milli);
  }
}

const NOTHING_UNDONE = { requests: 0, overdrafts: [] };

function ofOne(limit: string): Amount {
  return { limit, milli: 1000 };
}

/** How often a shard is looked for that others split and join meanwhile; one that is missing for good is not there. */
const MOVES_MAX = 8;

interface PartDue {
  readonly part: TicketPart;
  readonly due: readonly Amount[];
}

/** What a shard gets of what all get together. */
function shareOf(amounts: readonly Amount[], shard: number, count: number): readonly Amount[] {
  const due = amounts.map(({ limit, milli }) => ({ limit, milli: share(milli, shard, count) }));
  return due.filter(({ milli }) => milli !== 0);
}

/** One amount for each limit. */
function added(amounts: readonly Amount[]): readonly Amount[] {
  const sums = new Map<string, number>();
  for (const { limit, milli } of amounts) sums.set(limit, (sums.get(limit) ?? 0) + milli);
  return Array.from(sums, ([limit, milli]) => ({ limit, milli }));
}

/** A read that fails comes before any write. */
export function notRead(error: unknown): WriteReply {
  if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", applied: "no", cause: error };
  throw error;
}

function goesOn(): WriteReply {
  const cause = new Error("the store has not taken the give-back yet; it is tried again in the background");
  return { kind: "unavailable", applied: "unknown", cause };
}

/** One reply for several. What was done in part must not be done again as a whole. */
function joined(replies: readonly WriteReply[]): WriteReply {
  const missed = replies.find(({ kind }) => kind === "unavailable");
  const done = replies.find(({ kind }) => kind === "applied");
  if (missed?.kind === "unavailable" && done !== undefined) return { ...missed, applied: "unknown" };
  return missed ?? done ?? { kind: "gone" };
}
