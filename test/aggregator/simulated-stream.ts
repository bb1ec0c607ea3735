import type { Checkpoint, CheckpointStore } from "../../src/aggregator/checkpoints.ts";
import { LEASE_MS } from "../../src/aggregator/checkpoints.ts";
import type {
  StreamOpened,
  StreamPosition,
  StreamRead,
  StreamRecord,
  StreamShard,
  StreamSource,
} from "../../src/aggregator/stream-source.ts";
import type { Clock } from "../../src/ports/system.ts";

interface ShardLog {
  readonly id: string;
  readonly parentId: string | undefined;
  isClosed: boolean;
  records: { readonly at: number; readonly record: StreamRecord }[];
  /** How many were ever appended. */
  length: number;
}

/** A stream whose shards split and whose records are trimmed when the test says so. */
export class SimulatedStream implements StreamSource {
  readonly label = "2026-03-15T00:00:00.000";
  readonly #shards = new Map<string, ShardLog>();
  isOver = false;
  /** Thrown instead of an answer, or told as busy. */
  fault: () => "busy" | "expired" | undefined = () => undefined;
  #ids = 0;
  reads = 0;

  constructor(shards: number) {
    for (let i = 0; i < shards; i++) this.#add(undefined);
  }

  get open_(): readonly string[] {
    return [...this.#shards.values()].filter(({ isClosed }) => !isClosed).map(({ id }) => id);
  }

  append(shardId: string, record: (sequence: string) => StreamRecord): string {
    const shard = this.#shards.get(shardId)!;
    const sequence = String(10_000_000 + shard.length).padStart(21, "0");
    shard.records.push({ at: shard.length++, record: record(sequence) });
    return sequence;
  }

  /** Closes a shard; its children. */
  split(shardId: string, into: number): readonly string[] {
    this.#shards.get(shardId)!.isClosed = true;
    return Array.from({ length: into }, () => this.#add(shardId));
  }

  /** Its records are gone; a closed one is gone as a whole. */
  trim(shardId: string): void {
    const shard = this.#shards.get(shardId)!;
    shard.records = [];
    if (shard.isClosed) this.#shards.delete(shardId);
  }

  async shards(): Promise<{ shards: readonly StreamShard[]; isOver: boolean }> {
    const shards = [...this.#shards.values()].map(({ id, parentId, isClosed }) => ({ id, parentId, isClosed }));
    return { shards, isOver: this.isOver };
  }

  async open(shardId: string, position: StreamPosition): Promise<StreamOpened> {
    const shard = this.#shards.get(shardId);
    if (shard === undefined) return { kind: "trimmed" };
    const oldest = shard.records[0]?.at ?? shard.length;
    if (position.kind === "oldest") return { kind: "opened", iterator: `${shardId}:${oldest}` };
    if (position.kind === "latest") return { kind: "opened", iterator: `${shardId}:${shard.length}` };
    const at = Number(position.sequence) - 10_000_000 + 1;
    return at < oldest ? { kind: "trimmed" } : { kind: "opened", iterator: `${shardId}:${at}` };
  }

  async read(iterator: string): Promise<StreamRead> {
    this.reads += 1;
    const fault = this.fault();
    if (fault === "expired") return { kind: "expired" };
    if (fault === "busy") return { kind: "busy", cause: new Error("throttled") };
    const [id = "", at = "0"] = iterator.split(":");
    const shard = this.#shards.get(id);
    if (shard === undefined || Number(at) < (shard.records[0]?.at ?? shard.length)) return { kind: "trimmed" };
    const records = shard.records.filter((each) => each.at >= Number(at)).slice(0, 3);
    const next = Number(at) + records.length;
    const isEnd = shard.isClosed && next === shard.length;
    return { kind: "records", records: records.map(({ record }) => record), next: isEnd ? undefined : `${id}:${next}` };
  }

  close(): void {}

  #add(parentId: string | undefined): string {
    const id = `shard-${++this.#ids}`;
    this.#shards.set(id, { id, parentId, isClosed: false, records: [], length: 0 });
    return id;
  }
}

/** Checkpoints in memory, shared by all runners of a test. */
export class SimulatedCheckpoints {
  readonly items = new Map<string, Checkpoint>();
  readonly runners = new Map<string, number>();
  /** Told of every write; of a runner's own record without a shard. */
  onWrite: (shardId: string | undefined) => void = () => {};

  for(runner: string, clock: Clock): CheckpointStore {
    const lease = () => ({ owner: runner, untilMs: clock.now() + LEASE_MS });
    const none: Checkpoint = { sequence: undefined, isFinished: false, owner: undefined, untilMs: 0 };
    const write = (id: string, when: (now: Checkpoint) => boolean, change: Partial<Checkpoint>): boolean => {
      const now = this.items.get(id) ?? none;
      if (!when(now)) return false;
      this.items.set(id, { ...now, ...change });
      this.onWrite(id);
      return true;
    };
    const mine = ({ owner }: Checkpoint) => owner === runner;
    const at = (sequence: string | undefined) => (sequence === undefined ? {} : { sequence });
    const free = { owner: undefined, untilMs: 0 };
    return {
      list: async () => new Map(this.items),
      attend: async () => {
        this.runners.set(runner, clock.now() + LEASE_MS);
        this.onWrite(undefined);
        return [...this.runners.values()].filter((untilMs) => untilMs > clock.now()).length;
      },
      leave: async () => void this.runners.delete(runner),
      take: async (id) =>
        write(id, ({ owner, untilMs }) => owner === undefined || owner === runner || untilMs < clock.now(), lease()),
      save: async (id, sequence) => write(id, mine, { ...lease(), ...at(sequence) }),
      finish: async (id, sequence) => write(id, mine, { ...at(sequence), isFinished: true, ...free }),
      giveUp: async (id) => write(id, ({ isFinished }) => !isFinished, { isFinished: true, ...free }),
      release: async (id) => void write(id, mine, free),
    };
  }
}
