import type { Attributes } from "../adapters/dynamodb/codec.ts";
import type { Records } from "../adapters/dynamodb/records.ts";
import { any, type Condition, isStill, missing, texts, updateRecord } from "../adapters/dynamodb/records-write.ts";
import { OWNER, PK, REGISTRY, SEQUENCE, SHARD_END, SK, systemPk, TTL, UNTIL } from "../adapters/dynamodb/schema.ts";
import {
  runnerIndexKeys,
  runnerKey,
  runnerPrefix,
  streamPrefix,
  streamShardKey,
} from "../adapters/dynamodb/schema-runner.ts";
import type { Clock } from "../ports/system.ts";

/** How far a shard of the stream was read, and who reads it. */
export interface Checkpoint {
  /** The last record that is done; undefined: none yet. */
  readonly sequence: string | undefined;
  /** Everything of it is done. */
  readonly isFinished: boolean;
  readonly owner: string | undefined;
  /** When the owner's lease ends. */
  readonly untilMs: number;
}

/** A lease that is not renewed is over after this. */
export const LEASE_MS = 30_000;
/** A finished shard is remembered longer than its stream keeps records, so that its children know that it was read. */
const KEPT_S = 7 * 86_400;

interface CheckpointsOptions {
  readonly records: Records;
  /** Of the stream. */
  readonly label: string;
  /** The name of this runner. */
  readonly runner: string;
  readonly clock: Clock;
}

/** What the runners of one stream know of each other, as one of them sees it. */
export interface CheckpointStore {
  /** Of all shards that anybody has read of, by their ids. */
  list(): Promise<ReadonlyMap<string, Checkpoint>>;
  /** Says that this runner is there; answers how many are. */
  attend(): Promise<number>;
  /** This runner is about to end. */
  leave(): Promise<void>;
  /** Takes the lease of a shard that nobody holds. False: somebody else was faster. */
  take(shardId: string): Promise<boolean>;
  /** Notes how far the shard was read, and renews the lease. False: the lease was lost meanwhile. */
  save(shardId: string, sequence: string | undefined): Promise<boolean>;
  /** Notes that all of the shard was read, and gives the lease back. False: the lease was lost meanwhile. */
  finish(shardId: string, sequence: string | undefined): Promise<boolean>;
  /** Of a shard that nobody can read any more. False: another runner has noted it. */
  giveUp(shardId: string): Promise<boolean>;
  release(shardId: string): Promise<void>;
}

/**
 * What the runners of one stream know of each other, in the table. A checkpoint is written after the work is done, and only by
 * who holds the lease; a lease that was lost in between costs a repetition.
 */
export class Checkpoints implements CheckpointStore {
  readonly #options: CheckpointsOptions;
  #attendAgainMs = 0;

  constructor(options: CheckpointsOptions) {
    this.#options = options;
  }

  async list(): Promise<ReadonlyMap<string, Checkpoint>> {
    const prefix = streamPrefix(this.#options.label);
    const found = new Map<string, Checkpoint>();
    for await (const item of this.#query(prefix))
      found.set((item[SK]?.S ?? "").slice(prefix.length), checkpointOf(item));
    return found;
  }

  async attend(): Promise<number> {
    const { records, label, runner, clock } = this.#options;
    if (clock.now() < this.#attendAgainMs) return this.#attending();
    const untilMs = clock.now() + LEASE_MS;
    this.#attendAgainMs = clock.now() + LEASE_MS / 3;
    const ttl = { N: String(Math.ceil(untilMs / 1000) + KEPT_S) };
    const set = { ...texts(runnerIndexKeys()), [UNTIL]: { N: String(untilMs) }, [TTL]: ttl };
    await records.transact([updateRecord(runnerKey(label, runner), { set }, undefined)]);
    return this.#attending();
  }

  async #attending(): Promise<number> {
    const { label, clock } = this.#options;
    let count = 0;
    for await (const item of this.#query(runnerPrefix(label))) {
      if (Number(item[UNTIL]?.N ?? 0) > clock.now()) count += 1;
    }
    return Math.max(1, count);
  }

  async leave(): Promise<void> {
    const { records, label, runner } = this.#options;
    await records.transact([updateRecord(runnerKey(label, runner), { set: { [UNTIL]: { N: "0" } } }, undefined)]);
  }

  async take(shardId: string): Promise<boolean> {
    const { runner, clock } = this.#options;
    const free: Condition = (e) => `${e.name(UNTIL)} < ${e.value({ N: String(clock.now()) })}`;
    const condition = any(missing, isStill(OWNER, undefined), isStill(OWNER, { S: runner }), free);
    return this.#write(shardId, { set: { ...texts(runnerIndexKeys()), ...this.#lease() } }, condition);
  }

  async save(shardId: string, sequence: string | undefined): Promise<boolean> {
    const position: Attributes = sequence === undefined ? {} : { [SEQUENCE]: { S: sequence } };
    return this.#write(shardId, { set: { ...position, ...this.#lease() } }, this.#mine);
  }

  async finish(shardId: string, sequence: string | undefined): Promise<boolean> {
    return this.#write(shardId, { ...this.#finished(sequence), remove: [OWNER, UNTIL] }, this.#mine);
  }

  async giveUp(shardId: string): Promise<boolean> {
    return this.#write(
      shardId,
      { ...this.#finished(undefined), remove: [OWNER, UNTIL] },
      isStill(SHARD_END, undefined),
    );
  }

  async release(shardId: string): Promise<void> {
    await this.#write(shardId, { remove: [OWNER, UNTIL] }, this.#mine);
  }

  readonly #mine: Condition = (e) => isStill(OWNER, { S: this.#options.runner })(e);

  #lease(): Attributes {
    const { runner, clock } = this.#options;
    return { [OWNER]: { S: runner }, [UNTIL]: { N: String(clock.now() + LEASE_MS) } };
  }

  #finished(sequence: string | undefined): { readonly set: Attributes } {
    const position: Attributes = sequence === undefined ? {} : { [SEQUENCE]: { S: sequence } };
    const ttl = { N: String(Math.ceil(this.#options.clock.now() / 1000) + KEPT_S) };
    return { set: { ...position, [SHARD_END]: { BOOL: true }, [TTL]: ttl } };
  }

  async #write(shardId: string, change: Parameters<typeof updateRecord>[1], when: Condition): Promise<boolean> {
    const { records, label } = this.#options;
    const reply = await records.transact([updateRecord(streamShardKey(label, shardId), change, when)]);
    return reply.kind === "applied";
  }

  #query(prefix: string): AsyncIterable<Attributes> {
    return this.#options.records.query({
      partition: [PK, systemPk(REGISTRY)],
      range: { name: SK, prefix },
      consistent: true,
    });
  }
}

function checkpointOf(item: Attributes): Checkpoint {
  return {
    sequence: item[SEQUENCE]?.S,
    isFinished: item[SHARD_END]?.BOOL === true,
    owner: item[OWNER]?.S,
    untilMs: Number(item[UNTIL]?.N ?? 0),
  };
}
