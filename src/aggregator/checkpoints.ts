import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { type Records, tablePartition } from "../adapters/dynamodb/records.ts";
import { any, type Condition, isStill, missing, texts, updateRecord } from "../adapters/dynamodb/records-write.ts";
import {
  OWNER,
  REGISTRY,
  SEQUENCE,
  SHARD_END,
  SK,
  systemIndexKeys,
  systemPk,
  TTL,
  UNTIL,
} from "../adapters/dynamodb/schema.ts";
import { runnerKey, runnerPrefix, streamPrefix, streamShardKey } from "../adapters/dynamodb/schema-leases.ts";
import type { Clock } from "../ports/system.ts";

/** The progress of a shard of the stream, and its reader. */
export interface Checkpoint {
  /** The last record that is done; undefined: none yet. */
  readonly sequence: string | undefined;
  /** Everything of it is done. */
  readonly isFinished: boolean;
  readonly owner: string | undefined;
  /** The end of the owner's lease. */
  readonly untilMs: number;
}

/** A lease that is not renewed ends after this time. */
export const LEASE_MS = 30_000;
/** A finished shard is remembered longer than its stream keeps records, so that its children know that it was read. */
const KEPT_S = 7 * 86_400;

type Change = Parameters<typeof updateRecord>[1];

interface CheckpointsOptions {
  readonly records: Records;
  readonly label: string;
  readonly runner: string;
  readonly clock: Clock;
}

/**
 * The shared state of the runners of one stream, in the table. A checkpoint is written after the work is done, and only
 * by the holder of the lease; a lost lease costs a repetition.
 */
export class Checkpoints {
  readonly #options: CheckpointsOptions;
  #attendAgainMs = 0;

  constructor(options: CheckpointsOptions) {
    this.#options = options;
  }

  /** The checkpoints of all shards, by id. */
  async list(): Promise<ReadonlyMap<string, Checkpoint>> {
    const prefix = streamPrefix(this.#options.label);
    const found = new Map<string, Checkpoint>();
    for await (const item of this.#query(prefix))
      found.set((item[SK]?.S ?? "").slice(prefix.length), checkpointOf(item));
    return found;
  }

  /** Registers this runner; returns the number of runners. */
  async attend(): Promise<number> {
    const { records, label, runner, clock } = this.#options;
    if (clock.now() < this.#attendAgainMs) return this.#attending();
    const untilMs = clock.now() + LEASE_MS;
    this.#attendAgainMs = clock.now() + LEASE_MS / 3;
    const ttl = { N: String(Math.ceil(untilMs / 1000) + KEPT_S) };
    const set = { ...texts(systemIndexKeys(REGISTRY)), [UNTIL]: { N: String(untilMs) }, [TTL]: ttl };
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

  /** Removes this runner. */
  async leave(): Promise<void> {
    const { records, label, runner } = this.#options;
    await records.transact([updateRecord(runnerKey(label, runner), { set: { [UNTIL]: { N: "0" } } }, undefined)]);
  }

  /** Takes the lease of a free shard. False: another runner was faster. */
  async take(shardId: string): Promise<boolean> {
    const { runner, clock } = this.#options;
    const set = { ...texts(systemIndexKeys(REGISTRY)), ...this.#lease() };
    return this.#write(shardId, { set }, isLeasable(runner, clock.now()));
  }

  /** Saves the progress of a shard, and renews the lease. False: the lease was lost meanwhile. */
  async save(shardId: string, sequence: string | undefined): Promise<boolean> {
    return this.#write(shardId, { set: { ...positionOf(sequence), ...this.#lease() } }, this.#mine);
  }

  /** Marks the shard as read to its end, and releases the lease. False: the lease was lost meanwhile. */
  async finish(shardId: string, sequence: string | undefined): Promise<boolean> {
    return this.#write(shardId, this.#finished(sequence), this.#mine);
  }

  /** Marks a shard that can no longer be read. False: another runner has done so. */
  async giveUp(shardId: string): Promise<boolean> {
    return this.#write(shardId, this.#finished(undefined), isStill(SHARD_END, undefined));
  }

  async release(shardId: string): Promise<void> {
    await this.#write(shardId, { remove: [OWNER, UNTIL] }, this.#mine);
  }

  readonly #mine: Condition = (e) => isStill(OWNER, { S: this.#options.runner })(e);

  #lease(): Attributes {
    const { runner, clock } = this.#options;
    return leaseAttributes(runner, clock.now() + LEASE_MS);
  }

  #finished(sequence: string | undefined): Change {
    const ttl = { N: String(Math.ceil(this.#options.clock.now() / 1000) + KEPT_S) };
    return { set: { ...positionOf(sequence), [SHARD_END]: { BOOL: true }, [TTL]: ttl }, remove: [OWNER, UNTIL] };
  }

  async #write(shardId: string, change: Change, when: Condition): Promise<boolean> {
    const { records, label } = this.#options;
    const reply = await records.transact([updateRecord(streamShardKey(label, shardId), change, when)]);
    return reply.kind === "applied";
  }

  #query(prefix: string): AsyncIterable<Attributes> {
    return this.#options.records.query(tablePartition(systemPk(REGISTRY), { prefix }));
  }
}

/** The methods of `Checkpoints`, wherever they are kept. */
export type CheckpointStore = Pick<Checkpoints, keyof Checkpoints>;

/** The attributes of a lease in the table. */
export function leaseAttributes(owner: string, untilMs: number): Attributes {
  return { [OWNER]: { S: owner }, [UNTIL]: { N: String(untilMs) } };
}

/** The condition that a lease is free, has ended, or belongs to this owner. */
export function isLeasable(owner: string, nowMs: number): Condition {
  const hasEnded: Condition = (e) => `${e.name(UNTIL)} < ${e.value({ N: String(nowMs) })}`;
  return any(missing, isStill(OWNER, undefined), isStill(OWNER, { S: owner }), hasEnded);
}

function positionOf(sequence: string | undefined): Attributes {
  return sequence === undefined ? {} : { [SEQUENCE]: { S: sequence } };
}

function checkpointOf(item: Attributes): Checkpoint {
  return {
    sequence: item[SEQUENCE]?.S,
    isFinished: item[SHARD_END]?.BOOL === true,
    owner: item[OWNER]?.S,
    untilMs: Number(item[UNTIL]?.N ?? 0),
  };
}
