import type { AuditEvent } from "../../domain/config/audit.ts";
import type {
  CommitReply,
  CountStore,
  ExpiryBounds,
  FoundRecords,
  ListedRecords,
  RecordCommit,
  RecordKey,
  RecordList,
  RecordStore,
  StoredRecord,
  SumQuery,
  Sums,
  TouchedNames,
} from "../../ports/record-store.ts";
import { REGISTRY } from "../../records/bodies.ts";
import { AuditNumbers, runCommit } from "./commit-script.ts";
import { type Connection, type Reply, textOf } from "./connection.ts";
import { DropQueue } from "./drops.ts";
import { expireRecords } from "./expiry.ts";
import { appliedBy, thrownFor } from "./faults.ts";
import { type NamespaceKeys, namespaceKeys } from "./keys.ts";
import { listRecords } from "./lists.ts";
import { auditRest, keptIn } from "./record-texts.ts";
import { Registry } from "./registry.ts";
import { entityRemoval, purgeSome } from "./removals.ts";
import { type OpenHours, sumsOf } from "./sums.ts";
import { clearedAfter, deletesIn, eventPuts, guardsIn, putsIn, type RecordParts, type RecordWrite } from "./writes.ts";

type OnWrites = (namespaceId: string, writes: number) => void;

/** A change that finds something else than it looked at is prepared this often. */
const TRIES_MAX = 20;

/** Records as texts under keys, found by sorted sets. A change is one script in the slot of its namespace. */
export class RedisRecords implements RecordStore, CountStore {
  readonly #parts: RecordParts;
  readonly #registry: Registry;
  readonly #openHours: OpenHours;
  readonly #onWrites: OnWrites;

  /** `answerMs`: a call waits this long for the server. `onWrites` is told of the number of writes of a namespace that is read. */
  constructor(connection: Connection, answerMs: number, openHours: OpenHours, onWrites: OnWrites = () => {}) {
    this.#onWrites = onWrites;
    this.#parts = {
      ...{ connection, answerMs, numbers: new AuditNumbers(), drops: new DropQueue(connection, answerMs) },
      keysOf: (id) => namespaceKeys(connection.prefix, id),
    };
    this.#registry = new Registry(this.#parts);
    this.#openHours = openHours;
  }

  /** Numbers and forms of the events of the audit log, for whoever writes one beside the records. */
  get auditTrail() {
    const { numbers } = this.#parts;
    return {
      next: async (keys: NamespaceKeys) => numbers.next(keys),
      note: (keys: NamespaceKeys, count: number) => numbers.note(keys, count),
      write: (keys: NamespaceKeys, number: number, event: AuditEvent) => ({
        ...{ key: keys.audit(number), text: auditRest(event), hints: keys.auditHints(number, event.entityId) },
      }),
    };
  }

  /** Ends what goes on behind the calls. */
  drained(): Promise<void> {
    return this.#parts.drops.drained();
  }

  async get(scope: string, keys: readonly RecordKey[], since?: number): Promise<FoundRecords> {
    const { connection, keysOf } = this.#parts;
    const names = keysOf(scope);
    const texts = keys.map((key) => names.record(key));
    const first = await this.#asked(["MGET", names.generation, names.writes, names.registrySeen, ...texts]);
    const generation = Number(textOf(first[0]) ?? 0);
    if (scope === REGISTRY) await this.#registry.finish(first[2]);
    else this.#onWrites(scope, Number(textOf(first[1]) ?? 0));
    if (since === undefined || since <= 0 || generation <= since) {
      return { generation, ...(since === undefined ? {} : { changes: [] }), records: recordsIn(keys, first.slice(3)) };
    }
    const [now, changes, ...found] = await this.#asked(["MGET", names.generation, names.changes, ...texts]);
    connection.requireOpen();
    return {
      generation: Number(textOf(now) ?? 0),
      changes: changesIn(changes).filter(([number]) => number > since),
      records: recordsIn(keys, found),
    };
  }

  async list(
    scope: string,
    list: RecordList,
    after: readonly string[] | undefined,
    limitMax: number,
  ): Promise<ListedRecords> {
    const { connection } = this.#parts;
    connection.requireOpen();
    try {
      if (list.kind === "namespace") await this.#registry.finishPending();
      return await listRecords(this.#parts, scope, list, { after, limitMax });
    } catch (error) {
      throw thrownFor(error, connection.name);
    }
  }

  async commit(commit: RecordCommit): Promise<CommitReply> {
    const { connection } = this.#parts;
    connection.requireOpen();
    try {
      return commit.scope === REGISTRY ? await this.#registry.commit(commit) : await this.#inNamespace(commit);
    } catch (error) {
      const applied = appliedBy(error);
      const cause = thrownFor(error, connection.name);
      if (applied === undefined) throw cause;
      return { kind: "unavailable", applied, cause };
    }
  }

  async sums(scope: string, query: SumQuery): Promise<Sums> {
    const { connection } = this.#parts;
    connection.requireOpen();
    try {
      return await sumsOf(this.#parts, scope, query, this.#openHours);
    } catch (error) {
      throw thrownFor(error, connection.name);
    }
  }

  async expire(bounds: ExpiryBounds): Promise<number> {
    const { connection } = this.#parts;
    connection.requireOpen();
    try {
      await this.#registry.finishPending();
      return await expireRecords(this.#parts, bounds);
    } catch (error) {
      throw thrownFor(error, connection.name);
    }
  }

  /** Writes events of the audit log, in this order. */
  async logAll(scope: string, events: readonly AuditEvent[]): Promise<void> {
    const { connection, keysOf, numbers, answerMs } = this.#parts;
    const bare = { guards: [], bumps: false, touched: [], puts: [] } as const;
    try {
      for (const event of events) {
        const logged = { entityId: event.entityId, rest: auditRest(event) };
        await runCommit(connection, keysOf(scope), bare, { event: logged, numbers, answerMs });
      }
    } catch (error) {
      throw thrownFor(error, connection.name);
    }
  }

  async #asked(command: readonly string[]): Promise<readonly Reply[]> {
    const [reply] = await this.#parts.connection.ask([command]);
    return reply as readonly Reply[];
  }

  async #inNamespace(commit: RecordCommit): Promise<CommitReply> {
    const { connection, keysOf, numbers, answerMs } = this.#parts;
    const { scope, guard, event, bumps, touched, deletes } = commit;
    const keys = keysOf(scope);
    for (const each of deletes) {
      if (each.kind === "someIn") return purgeSome(this.#parts, each.namespaceId, each.limitMax);
    }
    for (let tries = 1; ; tries++) {
      const removals = [];
      for (const each of deletes) {
        if (each.kind === "everythingOf") removals.push(await entityRemoval(this.#parts, scope, each.entityId));
      }
      const writes: RecordWrite[] = [
        ...deletesIn(keys, commit),
        ...removals.flatMap(({ puts }) => puts),
        ...putsIn(keys, commit),
        ...eventPuts(keys, commit),
      ];
      const reply = await runCommit(
        connection,
        keys,
        {
          ...(guard.kind === "generation" ? { generation: guard.generation } : {}),
          guards: guardsIn(keys, commit),
          ...{ bumps: bumps.includes(scope), touched, puts: writes },
          counts: removals.flatMap(({ counts }) => counts),
          ...(event === undefined ? {} : { known: { key: keys.event(event.event.eventId), sent: commit.sent } }),
        },
        {
          ...(event === undefined ? {} : { event: { entityId: event.event.entityId, rest: auditRest(event.event) } }),
          ...{ numbers, answerMs },
        },
      );
      if (reply.kind === "count" && tries < TRIES_MAX) continue;
      if (reply.kind !== "done") return { kind: "moved" };
      this.#parts.drops.add(scope, clearedAfter(keys, writes, reply));
      for (const removal of removals) await removal.finish(reply.version);
      return { kind: "done", generations: new Map(bumps.map((id) => [id, reply.generation])), deleted: 0 };
    }
  }
}

function recordsIn(keys: readonly RecordKey[], values: readonly Reply[]): readonly (StoredRecord | undefined)[] {
  return keys.map(({ kind, key }, i) => {
    const kept = keptIn(values[i]);
    return kept && { kind, key, body: kept.body, version: kept.version };
  });
}

function changesIn(reply: Reply | undefined): TouchedNames {
  const text = textOf(reply);
  return text === undefined ? [] : (JSON.parse(text) as TouchedNames);
}
