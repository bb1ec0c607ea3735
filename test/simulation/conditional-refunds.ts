import { type Amount, milliOf } from "../../src/domain/charge/amounts.ts";
import type { SourcedLimits } from "../../src/domain/limits/limit-set.ts";
import type { WriteReply } from "../../src/ports/bucket-store.ts";
import type { WriteTrace } from "../../src/ports/item-store.ts";
import type { ModelLimit } from "../kit/model.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import { sameLimits } from "../kit/model-origin.ts";
import { roomIn } from "./conditional-conservation.ts";

/** One refund on conditional writes, from when it is asked for until it is answered: what it brings to which shard, and what was missing. */
export class RefundWatch {
  readonly #of: SourcedLimits;
  readonly #asked: readonly Amount[];
  readonly #readingMs: number;
  readonly #shardsOf: () => readonly ModelBucket[];
  readonly #given = new Map<string, number>();
  /** The least that was missing of the whole bucket; undefined where nobody can say. */
  readonly #least = new Map<string, bigint | undefined>();
  #shardsMost = 1;
  /** How often somebody wrote to the bucket meanwhile, and how often it was this one. */
  #writes = 0;
  readonly #own = new Set<object>();

  constructor(of: SourcedLimits, asked: readonly Amount[], readingMs: number, shardsOf: () => readonly ModelBucket[]) {
    this.#of = of;
    this.#asked = asked;
    this.#readingMs = readingMs;
    this.#shardsOf = shardsOf;
    this.#look();
  }

  /** The bucket stands differently from now on. */
  moved(): void {
    this.#writes++;
    this.#look();
  }

  /** It brings an amount to a shard, which does not have it yet; what is wrong with that. */
  gives({ limit: name, milli }: Amount, limit: ModelLimit, trace: WriteTrace): string[] {
    this.#own.add(trace);
    const total = (this.#given.get(name) ?? 0) + milli;
    this.#given.set(name, total);
    const missing = limit.brimMilli - limit.levelMilli(trace.readingMs);
    const asked = milliOf(this.#asked, name);
    return [
      ...(BigInt(milli) > missing + 1n + this.#dripped(limit, trace)
        ? [`${milli} of ${name} were given back, and only ${missing} were missing`]
        : []),
      ...(total > asked ? [`${total} of ${name} were given back, and ${asked} asked for`] : []),
      ...(limit.limit.holdMs === undefined ? [] : [`${milli} of ${name}, which are slots, were given back`]),
    ];
  }

  /** A write that moves the epoch moves it by a millisecond at least: what drips in that one was missing when the amount was decided. */
  #dripped({ terms }: ModelLimit, { form, readingMs }: WriteTrace): bigint {
    if (form !== "rebase" || readingMs <= this.#readingMs) return 0n;
    return (terms.refill + BigInt(terms.periodMs) - 1n) / BigInt(terms.periodMs);
  }

  /** What is wrong with the answer. */
  problems(reply: WriteReply): string[] {
    if (reply.kind === "unavailable" && reply.applied === "no" && this.#own.size > 0)
      return ["a refund was made that is told not to be"];
    if (reply.kind !== "applied") return [];
    const { given = [] } = reply;
    return this.#asked.flatMap(({ limit, milli: asked }) => {
      const is = this.#given.get(limit) ?? 0;
      const told = milliOf(given, limit);
      if (told !== is) return [`${told} of ${limit} are told to be given back, and ${is} were`];
      const least = this.#least.get(limit);
      // Shards are read one after the other: what goes from one to another meanwhile may seem to be on both.
      if (least === undefined || (this.#shardsMost > 1 && this.#writes > this.#own.size)) return [];
      const due = least < BigInt(asked) ? least : BigInt(asked);
      if (BigInt(is) + BigInt(this.#shardsMost) + 1n >= due) return [];
      return [`only ${is} of ${asked} of ${limit} were given back, and ${least} were missing all the time`];
    });
  }

  #look(): void {
    const shards = this.#shardsOf();
    this.#shardsMost = Math.max(this.#shardsMost, shards.length);
    const isInForce = shards.every((model) => this.#goesBy(model));
    for (const { limit } of this.#asked) {
      const room = isInForce ? roomIn(shards, limit, this.#readingMs) : undefined;
      const now = room === undefined ? undefined : room + BigInt(this.#given.get(limit) ?? 0);
      const before = this.#least.has(limit) ? this.#least.get(limit) : now;
      this.#least.set(limit, now === undefined || before === undefined ? undefined : now < before ? now : before);
    }
  }

  /** Nothing is brought to it first: no other limits, and no boundary. */
  #goesBy(model: ModelBucket): boolean {
    const { set, origin } = this.#of;
    const isMet = (origin.changeNumber ?? 0) <= model.metNumber;
    return sameLimits(set, model.set) && isMet && this.#readingMs < model.nextBoundaryMs;
  }
}
