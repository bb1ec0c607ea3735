import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Batch, BatchReply, BatchStore } from "../../ports/batch-store.ts";
import { SummedTake, SummedTries } from "../../straight/summed-take.ts";
import { answerOf, type DoneAnswer, type Needs, NO_NEEDS, summedAnswerOf, takeCall } from "./batch-bytes.ts";
import { BucketRows, type RowsParts } from "./bucket-rows.ts";
import { type RedisConnection, scriptOf } from "./connection.ts";
import { appliedBy, thrownFor } from "./faults.ts";
import { hintCommand, type NamespaceKeys, partsOf } from "./keys.ts";
import { luaText } from "./lua-texts.ts";
import { summedCall } from "./summed-bytes.ts";
import { unconfirmed, Values, waitFor } from "./values.ts";

const TAKE = scriptOf("take", ["straight-line", "take-read", "take-judge", "take-write"].map(luaText).join(""));
const SUMMED_TAKE = scriptOf("take-summed", ["straight-line", "take-summed"].map(luaText).join(""));

/** A batch that wants other keys each time is given up after so many tries: rows would have to move from hour to hour meanwhile. */
const TRIES_MAX = 8;

/** Hours of usage are looked for in so many entries of an index at once. */
const ENTRIES_AT_ONCE = 100;

/** At most so many lanes are remembered that have written. */
const LANES_MAX = 10_000;

interface BatchesParts extends RowsParts {
  /** The store's own time. The script asks the server for none: it goes by this. */
  readonly now: () => number;
  /** Told of the number of writes of a namespace, as each batch finds it. */
  readonly onWrites: (namespaceId: string, writes: number) => void;
}

/** Takes and rows of buckets on a server. */
export class RedisBatches extends BucketRows implements BatchStore {
  readonly #parts: BatchesParts;
  readonly #values: Values;
  /** Lanes that have a key on the server, which only the general take makes. */
  #lanes = new Map<string, SummedTries>();

  constructor(parts: BatchesParts) {
    super(parts);
    this.#parts = parts;
    this.#values = new Values(parts.connection);
  }

  async apply(batch: Batch, timeoutMs: number): Promise<BatchReply> {
    const tries = this.#lanes.get(laneIn(batch));
    try {
      const summed = tries && this.#mayBeSummed(batch) ? SummedTake.of(batch) : undefined;
      if (tries === undefined || summed === undefined || !tries.isWorthIt(batch)) {
        return await this.#oneByOne(batch, timeoutMs);
      }
      const together = await this.#together(batch, summed, timeoutMs);
      const other = together === undefined ? await this.#oneByOne(batch, timeoutMs) : undefined;
      tries.note(batch, other);
      return (together ?? other) as BatchReply;
    } catch (error) {
      const applied = appliedBy(error);
      const cause = thrownFor(error, this.#parts.connection.name);
      if (applied === undefined) throw cause;
      return { kind: "unavailable", applied, cause };
    }
  }

  /** Only the general take stores what is brought, and tells who has a reading that is ahead. */
  #mayBeSummed({ buckets, requests, aheadMaxMs }: Batch): boolean {
    if (buckets.some(({ brought }) => brought !== undefined)) return false;
    if (aheadMaxMs === undefined) return true;
    const latestMs = this.#parts.now() + aheadMaxMs;
    return requests.every(({ nowMs }) => nowMs <= latestMs);
  }

  /** Undefined: nothing was done. */
  async #together(batch: Batch, summed: SummedTake, timeoutMs: number): Promise<BatchReply | undefined> {
    const { keysOf, now } = this.#parts;
    const { keys, args } = summedCall(summed, batch, keysOf(batch.namespaceId), now());
    const { reply, behind } = await this.#run(SUMMED_TAKE, keys, args, timeoutMs, []);
    const answer = summedAnswerOf(reply, summed);
    return answer && this.#heard(batch, answer, behind);
  }

  async #oneByOne(batch: Batch, timeoutMs: number): Promise<BatchReply> {
    let needs: Needs = NO_NEEDS;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const done = await this.#sent(batch, needs, timeoutMs);
      if (!("needs" in done)) return done.reply;
      needs = await this.#withProofs(batch, done.needs);
    }
    return { kind: "rolledBack", cause: new Error("The rows of the batch moved from hour to hour.") };
  }

  async #sent(
    batch: Batch,
    needs: Needs,
    timeoutMs: number,
  ): Promise<{ readonly reply: BatchReply } | { readonly needs: Needs }> {
    const { keysOf, now, replicas } = this.#parts;
    const isNewLane = !this.#lanes.has(laneIn(batch));
    const head = { serverMs: now(), isNewLane, isConfirmed: replicas.count > 0, needs };
    const { keys, args, hints } = takeCall(batch, keysOf(batch.namespaceId), head);
    const { reply, behind, aheadError } = await this.#run(TAKE, keys, args, timeoutMs, hints.map(hintCommand));
    const answer = answerOf(reply, batch, needs);
    if (answer.kind === "superseded") return { reply: { kind: "superseded" } };
    if (answer.kind === "needs") {
      if (answer.needs.hasAllHints && aheadError !== undefined) throw aheadError;
      return { needs: answer.needs };
    }
    if (isNewLane) this.#noteLane(batch);
    return { reply: this.#heard(batch, answer, behind) };
  }

  #run(
    script: Parameters<RedisConnection["run"]>[0],
    keys: readonly string[],
    args: Parameters<RedisConnection["run"]>[2],
    timeoutMs: number,
    ahead: readonly (readonly string[])[],
  ): ReturnType<RedisConnection["run"]> {
    const { connection, replicas } = this.#parts;
    // Longer than anybody waits: what lands late is still heard of, and given back.
    return connection.run(script, keys, args, { answerMs: 2 * timeoutMs }, { ahead, behind: waitFor(replicas) });
  }

  #heard({ namespaceId }: Batch, { reply, writes }: DoneAnswer, behind: Parameters<typeof unconfirmed>[1]): BatchReply {
    // A repeat tells the number of then.
    if (!reply.repeated) this.#parts.onWrites(namespaceId, writes);
    const cause = unconfirmed(this.#parts.replicas, behind);
    return cause === undefined ? reply : { kind: "unavailable", applied: "unknown", cause };
  }

  #noteLane(batch: Batch): void {
    if (this.#lanes.size >= LANES_MAX) this.#lanes = new Map();
    this.#lanes.set(laneIn(batch), new SummedTries());
  }

  /** Looks for usage of the buckets of which the script has to know whether there is any. */
  async #withProofs(batch: Batch, needs: Needs): Promise<Needs> {
    const proofs = new Map(needs.proofs);
    for (const bucket of proofs.keys()) {
      const { key } = batch.buckets[bucket] as Batch["buckets"][0];
      proofs.set(bucket, await this.#anyUsage(this.#parts.keysOf(batch.namespaceId), key));
    }
    return { ...needs, proofs };
  }

  /** The key of an hour in which a bucket has counted something. */
  async #anyUsage(at: NamespaceKeys, { entityId, resource }: BucketKey): Promise<string | undefined> {
    const begin = at.hint("usageByBucket", entityId, resource, "").member;
    for (let after = `[${begin}`; ; ) {
      const members = await this.#values.range(at.index("usageByBucket"), after, `(${begin}:`, ENTRIES_AT_ONCE);
      const keys = members.map((member) => at.usage(entityId, resource, Number(partsOf(member)[2])));
      const values = await this.#values.of(keys);
      const found = values.findIndex((value) => value !== null);
      if (found >= 0) return keys[found];
      if (members.length < ENTRIES_AT_ONCE) return undefined;
      after = `(${members.at(-1)}`;
    }
  }
}

/** Each namespace has its own key of a lane. */
function laneIn({ namespaceId, lane }: Batch): string {
  return `${namespaceId}\n${lane}`;
}
