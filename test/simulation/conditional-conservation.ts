import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import { isSamePeriod } from "../kit/model-period.ts";

/**
 * One give-back, from when it is asked for until it is answered. What it brings may be cut off by a full shard only where the
 * whole bucket had no room for it, at some moment meanwhile: another shard would have kept it. What quotas hold is weighed as a
 * whole, too (`PromiseLedger.conserved`).
 */
export class GiveBackWatch {
  readonly #amounts: readonly Amount[];
  readonly #shardsOf: () => readonly ModelBucket[];
  readonly #readingMs: number;
  /** The least that there was room for, in the whole bucket; undefined where nobody can say. */
  readonly #rooms = new Map<string, bigint | undefined>();
  readonly #cut = new Map<string, bigint>();
  #shardsMost = 1;

  constructor(amounts: readonly Amount[], readingMs: number, shardsOf: () => readonly ModelBucket[]) {
    this.#amounts = amounts;
    this.#readingMs = readingMs;
    this.#shardsOf = shardsOf;
    this.look();
  }

  /** The bucket stands differently from now on. */
  look(): void {
    const shards = this.#shardsOf();
    this.#shardsMost = Math.max(this.#shardsMost, shards.length);
    for (const { limit } of this.#amounts) {
      const now = roomIn(shards, limit, this.#readingMs);
      const before = this.#rooms.has(limit) ? this.#rooms.get(limit) : now;
      this.#rooms.set(limit, now === undefined || before === undefined ? undefined : now < before ? now : before);
    }
  }

  /** So much of what a write of it brought to a shard is above its brim. */
  over(limit: string, milli: bigint): void {
    if (milli > 0n) this.#cut.set(limit, (this.#cut.get(limit) ?? 0n) + milli);
  }

  /** What is wrong with it, now that it was applied; empty when nothing is. */
  problems(): string[] {
    return this.#amounts.flatMap(({ limit, milli }) => {
      const [room, cut] = [this.#rooms.get(limit), this.#cut.get(limit) ?? 0n];
      if (room === undefined) return [];
      const excess = BigInt(milli) - room;
      const due = (excess > 0n ? excess : 0n) + BigInt(this.#shardsMost);
      if (cut <= due) return [];
      return [
        `${cut} of ${milli} of ${limit} were given back above a shard's brim, with room for ${room} in the bucket`,
      ];
    });
  }
}

/**
 * Room for a limit, over all shards; undefined where one of them has none of it, goes by another rule, or is not in the same
 * period as the others.
 */
export function roomIn(shards: readonly ModelBucket[], name: string, readingMs: number): bigint | undefined {
  const limits = shards.map((model) => model.limit(name));
  const [first] = limits;
  const terms = JSON.stringify(first?.limit);
  if (first === undefined) return undefined;
  const atMs = Math.max(readingMs, ...shards.map(({ epochMs }) => epochMs));
  let room = 0n;
  for (const limit of limits) {
    if (limit === undefined || JSON.stringify(limit.limit) !== terms) return undefined;
    if (isSamePeriod(limit.period, first.period) !== "yes") return undefined;
    const own = limit.roomMilli(atMs);
    if (own > 0n) room += own;
  }
  return room;
}
