import { MemoryRecords } from "../../src/adapters/memory/records.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import type {
  CommitReply,
  CountStore,
  ExpiryBounds,
  FoundRecords,
  ListedRecords,
  RecordColumns,
  RecordCommit,
  RecordKey,
  RecordKind,
  RecordList,
  RecordPut,
  RecordStore,
  StoredRecord,
  SumQuery,
  Sums,
  TouchedNames,
} from "../../src/ports/record-store.ts";
import { type CountedHour, refusalHours, summed } from "./record-sums.ts";

/** What takes keep beside the records, in the same store. */
export interface KeptByTakes {
  /** What buckets and the hours that left them have counted. */
  hoursIn(scope: string): readonly CountedHour[];
  dropEntity(scope: string, entityId: string): void;
  /** Answers how many rows went. */
  dropSome(scope: string, limitMax: number): number;
  /** Hours of usage that began then or before. Answers how many rows went. */
  dropHours(untilMs: number): number;
}

/** The changes of a namespace of which it is known what they touched: so few that simulations come to the end of them. */
const CHANGES_KEPT = 8;

/** Kinds whose records are forgotten some day. */
const FORGOTTEN = ["lease", "leaseKey", "refusal"] as const;

/**
 * Records in memory, as a server keeps them: bodies are JSON, each namespace has a generation of its own, and every call takes a turn, so
 * that calls under way come between each other.
 */
export class RecordTable implements RecordStore, CountStore {
  readonly #generations = new Map<string, number>();
  readonly #changes = new Map<string, TouchedNames>();
  /** By the commit that is being made. */
  #touched: readonly string[] | undefined;
  readonly #scopes = new Set<string>();
  #usage: (CountedHour & { readonly scope: string })[] = [];
  #takes: KeptByTakes | undefined;
  readonly #records = new MemoryRecords(
    {
      requireOpen: () => {},
      generationOf: (scope) => this.generationOf(scope),
      bump: (scopes) => {
        for (const scope of scopes) {
          const generation = this.generationOf(scope) + 1;
          this.#generations.set(scope, generation);
          const own = this.#touched === undefined ? [] : [[generation, this.#touched] as const];
          this.#changes.set(scope, [...this.changesSince(scope, generation - CHANGES_KEPT), ...own]);
        }
      },
      dropEntity: (scope, entityId) => {
        for (const { key } of this.#of(scope, "refusal")) {
          if (key[1] === entityId) this.#drop(scope, { kind: "refusal", key });
        }
        this.#usage = this.#usage.filter((hour) => hour.scope !== scope || hour.key[0] !== entityId);
        this.#takes?.dropEntity(scope, entityId);
      },
      dropSome: (scope, limitMax) => {
        const usage = this.#usage.filter((hour) => hour.scope === scope).slice(0, limitMax);
        this.#usage = this.#usage.filter((hour) => !usage.includes(hour));
        return usage.length + (this.#takes?.dropSome(scope, limitMax - usage.length) ?? 0);
      },
    },
    Number.POSITIVE_INFINITY,
  );

  /** From now on these are part of what is counted, and deleted. */
  join(takes: KeptByTakes): void {
    this.#takes = takes;
  }

  /** As a take in the same store reads and writes it, within its own step. */
  readAtOnce(scope: string, key: RecordKey): StoredRecord | undefined {
    return copyOf(this.#records.find(scope, key));
  }

  putAtOnce(scope: string, put: RecordPut): void {
    this.#scopes.add(scope);
    this.#records.put(scope, withJson(put));
  }

  log(scope: string, event: AuditEvent): void {
    this.#scopes.add(scope);
    this.#records.log(scope, asJson(event));
  }

  generationOf(scope: string): number {
    return this.#generations.get(scope) ?? 0;
  }

  /** What takes have counted, for reading; a real store's takes write it. */
  count(scope: string, hour: CountedHour): void {
    this.#usage.push({ ...hour, scope });
  }

  /** What later changes touched. */
  changesSince(scope: string, since: number): TouchedNames {
    return (this.#changes.get(scope) ?? []).filter(([generation]) => generation > since);
  }

  async get(scope: string, keys: readonly RecordKey[], since?: number): Promise<FoundRecords> {
    await Promise.resolve();
    const { generation, records } = this.#records.get(scope, keys);
    const changes = since === undefined ? undefined : this.changesSince(scope, since);
    return { generation, changes, records: records.map(copyOf) };
  }

  async list(
    scope: string,
    list: RecordList,
    after: readonly string[] | undefined,
    limitMax: number,
  ): Promise<ListedRecords> {
    await Promise.resolve();
    const { generation, records } = this.#records.list(scope, list, after, limitMax);
    return { generation, records: records.map((record) => ({ ...record, body: asJson(record.body) })) };
  }

  async commit(commit: RecordCommit): Promise<CommitReply> {
    await Promise.resolve();
    const { scope, puts, event } = commit;
    for (const written of [scope, ...(event === undefined ? [] : [event.auditIn])]) this.#scopes.add(written);
    const logged = event && { ...event, event: asJson(event.event) };
    this.#touched = commit.touched;
    return this.#records.commit({ ...commit, puts: puts.map(withJson), event: logged });
  }

  async sums(scope: string, query: SumQuery): Promise<Sums> {
    await Promise.resolve();
    const usage = [...this.#usage.filter((hour) => hour.scope === scope), ...(this.#takes?.hoursIn(scope) ?? [])];
    return summed(query.kind === "usage" ? usage : refusalHours(this.#of(scope, "refusal")), query);
  }

  async expire({ nowMs, usageUntilMs, auditUntilMs, limitMax }: ExpiryBounds): Promise<number> {
    await Promise.resolve();
    const isOld = ({ kind, key, by }: StoredRecord & Pick<RecordPut, "by">) => {
      if (kind === "refusal") return usageUntilMs !== undefined && Number(key[0]) <= usageUntilMs;
      const { forgottenAtMs } = by as RecordColumns["lease"];
      return forgottenAtMs !== undefined && forgottenAtMs <= nowMs;
    };
    let gone = 0;
    let events = 0;
    for (const scope of this.#scopes) {
      const old = FORGOTTEN.flatMap((kind) => this.#of(scope, kind).filter(isOld)).slice(0, limitMax - gone);
      for (const { kind, key } of old) this.#drop(scope, { kind, key });
      gone += old.length;
      events += this.#records.in(scope).audit.drop(auditUntilMs, limitMax - events);
    }
    if (usageUntilMs === undefined) return gone + events;
    const usage = this.#usage.filter(({ hourMs }) => hourMs <= usageUntilMs).slice(0, limitMax);
    this.#usage = this.#usage.filter((hour) => !usage.includes(hour));
    return gone + events + usage.length + (this.#takes?.dropHours(usageUntilMs) ?? 0);
  }

  #of(scope: string, kind: RecordKind) {
    return [...this.#records.in(scope).of(kind).values()];
  }

  #drop(scope: string, { kind, key }: RecordKey): void {
    this.#records.in(scope).delete(kind, key.join("\n"));
  }
}

function asJson<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value)) as Value;
}

function withJson(put: RecordPut): RecordPut {
  return { ...put, body: asJson(put.body) };
}

function copyOf(record: StoredRecord | undefined): StoredRecord | undefined {
  return record && { kind: record.kind, key: record.key, body: asJson(record.body), version: record.version };
}
