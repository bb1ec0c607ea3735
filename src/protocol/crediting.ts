import { share } from "../bucket/share.ts";
import type { Amount } from "../domain/amounts.ts";
import { type BucketState, wholeOf } from "../domain/bucket-state.ts";
import { RateLimiterUnavailable } from "../domain/errors.ts";
import type { CallContext, Held, WriteReply } from "../ports/bucket-store.ts";
import type { Item, ItemKey, TracePart } from "../ports/item-store.ts";
import { namesOf, WCU } from "./attributes.ts";
import type { Image } from "./codec.ts";
import { creditForm, type GiveBack } from "./credit.ts";
import { readWhole } from "./gather.ts";
import { look, type RoundsContext } from "./rounds.ts";
import { type ShardTicket, type TicketPart, ticketOn } from "./ticket.ts";
import { WriteBuilder } from "./write-builder.ts";

const ROUNDS_MAX = 8;
const SENDS_MAX = 3;
const BACKOFF_MS = 10;

/** Gives back to where something was taken. What nobody knows the outcome of is not given again. */
export class Crediting {
  readonly #context: RoundsContext;

  constructor(context: RoundsContext) {
    this.#context = context;
  }

  async credit(held: Held, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    const ticket = ticketOn(held.ticket);
    const replies: WriteReply[] = [];
    for (const { part, due } of dueTo(ticket, amounts)) {
      if (due.length === 0) continue;
      const reply = await this.#toShard(held, part, due, context).catch(notRead);
      if (reply.kind === "unavailable" && reply.applied === "no") owedAgain(part, due);
      replies.push(reply);
    }
    return joined(replies);
  }

  async #toShard(held: Held, part: TicketPart, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    const { memories } = this.#context;
    const memory = memories.of(held.bucket);
    let shard = part.shard;
    if (memory.shards.length > 0 && shard >= memory.shardCount) shard %= memory.shardCount;
    const reply = await this.#rounds(held, shard, part, amounts, context);
    if (reply !== "elsewhere") return reply;
    // The shard is gone: what was its is its sibling's now.
    const [whole] = await readWhole(this.#context, [held.bucket], {
      readingMs: context.nowMs,
      timeoutMs: context.timeoutMs,
    });
    if (whole === undefined || whole.images.length === 0) return { kind: "gone" };
    const again = await this.#rounds(held, shard % memory.shardCount, part, amounts, context);
    return again === "elsewhere" ? { kind: "gone" } : again;
  }

  async #rounds(
    held: Held,
    shard: number,
    part: TicketPart,
    amounts: readonly Amount[],
    context: CallContext,
  ): Promise<WriteReply | "elsewhere"> {
    const { env, memories } = this.#context;
    const key: ItemKey = { bucket: held.bucket, shard };
    const parts: TracePart[] = [{ of: held, kind: "credit", amounts }];
    const { mark, shardCount } = part;
    const back: GiveBack = { readingMs: context.nowMs, amounts, mark, shardCount, parts };
    const memory = memories.of(held.bucket);
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const seen = memory.seen(shard);
      // What is only hearsay may be older than the take itself.
      let image = seen?.hearsay ? undefined : seen?.image;
      if (image === undefined && env.dialect.creditNeedsImage) {
        image = await this.#look(key, held, context);
        if (image === undefined) return shard === 0 ? { kind: "gone" } : "elsewhere";
      }
      if (!held.bypass && image !== undefined && image.shardCount > shardCount) {
        const spread = await this.#spread(held, part, amounts, context);
        if (spread !== undefined) return spread;
      }
      const write = held.bypass ? usageOnly(key, back) : creditForm(key, image, back, env);
      const { answer, asked } = await this.#send(write, context);
      switch (answer.kind) {
        case "applied": {
          const { image: after } = this.#learn(key, answer.item, context, 1, asked);
          return { kind: "applied", state: this.#state(after as Image) };
        }
        case "failed":
          this.#learn(key, answer.item, context, 0, asked);
          if (answer.item !== undefined) break;
          return shard === 0 ? { kind: "gone" } : "elsewhere";
        case "refused":
          return { kind: "unavailable", applied: "no", cause: answer.cause };
        case "unknown":
          return { kind: "unavailable", applied: "unknown", cause: answer.cause };
      }
    }
    return { kind: "unavailable", applied: "no", cause: new Error("others were always faster") };
  }

  /**
   * What was taken before the bucket was split belongs to all shards: one alone may have no room for it, and what another
   * owes would not be paid by it.
   */
  async #spread(
    held: Held,
    part: TicketPart,
    amounts: readonly Amount[],
    context: CallContext,
  ): Promise<WriteReply | undefined> {
    const { memories } = this.#context;
    const at = { readingMs: context.nowMs, timeoutMs: context.timeoutMs };
    const [whole] = await readWhole(this.#context, [held.bucket], at);
    const count = memories.of(held.bucket).shardCount;
    if (whole === undefined || whole.images.length !== count || count === 1) return undefined;
    const shares = whole.images.map(({ key }) =>
      amounts.flatMap(({ limit, milli }) => {
        const own = share(milli, key.shard, count);
        return own === 0 ? [] : [{ limit, milli: own }];
      }),
    );
    const replies: WriteReply[] = [];
    for (const [i, { key }] of whole.images.entries()) {
      const due = shares[i] ?? [];
      if (due.length === 0) continue;
      const spreadPart = { ...part, shard: key.shard, shardCount: count };
      // Each by itself: what one shard has got already must not be given again because another could not be reached.
      replies.push(await this.#toShard(held, spreadPart, due, context).catch(notRead));
    }
    return joined(replies);
  }

  async #send(write: Parameters<RoundsContext["items"]["write"]>[0], { timeoutMs }: CallContext) {
    const { items, clock, random, memories } = this.#context;
    for (let sends = 1; ; sends++) {
      const asked = memories.learnt;
      const answer = await items.write(write, { timeoutMs });
      if (answer.kind !== "refused" || sends >= SENDS_MAX) return { answer, asked };
      await clock.sleep(Math.ceil(random() * BACKOFF_MS * 2 ** sends), undefined);
    }
  }

  #learn(key: ItemKey, item: Item | undefined, { nowMs }: CallContext, own: number, asked: number) {
    return this.#context.memories.learn(key, item, { atMs: nowMs, hearsay: false, set: undefined, own, asked });
  }

  async #look(key: ItemKey, held: Held, { nowMs, timeoutMs }: CallContext): Promise<Image | undefined> {
    const job = { of: held, kind: "debit", amounts: [], readingMs: nowMs, timeoutMs } as const;
    return (await look(this.#context, key, true, job)).image;
  }

  #state(image: Image): BucketState {
    const images = this.#context.memories.of(image.key.bucket).images();
    const states = (images.length === 0 ? [image] : images).map(({ state }) => state);
    return wholeOf(states, this.#context.env.calendar);
  }
}

/** What of the amounts goes back to which part; of what was gathered, each part gets at most what it gave. */
function dueTo(
  { parts }: ShardTicket,
  amounts: readonly Amount[],
): readonly { readonly part: TicketPart; readonly due: readonly Amount[] }[] {
  const [first] = parts;
  if (parts.length === 1 && first !== undefined && first.owed === undefined) return [{ part: first, due: amounts }];
  const left = new Map(amounts.map(({ limit, milli }) => [limit, milli]));
  return parts.map((part) => {
    const due: Amount[] = [];
    for (const [limit, owed] of part.owed ?? []) {
      const milli = Math.min(owed, left.get(limit) ?? 0);
      if (milli <= 0) continue;
      part.owed?.set(limit, owed - milli);
      left.set(limit, (left.get(limit) ?? 0) - milli);
      due.push({ limit, milli });
    }
    return { part, due };
  });
}

// A look that fails comes before any write.
export function notRead(error: unknown): WriteReply {
  if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", applied: "no", cause: error };
  throw error;
}

function owedAgain({ owed }: TicketPart, due: readonly Amount[]): void {
  for (const { limit, milli } of due) owed?.set(limit, (owed.get(limit) ?? 0) + milli);
}

/** One reply for several. What was done in part must not be done again as a whole. */
function joined(replies: readonly WriteReply[]): WriteReply {
  const missed = replies.find(({ kind }) => kind === "unavailable");
  const done = replies.find(({ kind }) => kind === "applied");
  if (missed?.kind === "unavailable" && done !== undefined) return { ...missed, applied: "unknown" };
  return missed ?? done ?? { kind: "gone" };
}

/** Of a bypass nothing was debited: only its usage is taken back. */
function usageOnly(key: ItemKey, { amounts, readingMs, parts }: GiveBack) {
  const builder = new WriteBuilder();
  for (const { limit, milli } of amounts) builder.present(namesOf(limit).tk).add(namesOf(limit).tc, -milli);
  builder.add(namesOf(WCU).tc, 1000);
  return builder.update(key, "exists", { form: "credit", readingMs, parts, spare: [] });
}
