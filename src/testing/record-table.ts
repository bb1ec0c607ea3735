import type { AuditEvent } from "../domain/audit.ts";
import type {
  CommitReply,
  ExpiryBounds,
  FoundRecords,
  ListedRecord,
  ListedRecords,
  RecordCommit,
  RecordDeletion,
  RecordKey,
  RecordKind,
  RecordList,
  RecordPut,
  RecordStore,
  StoredRecord,
  SumQuery,
  Sums,
} from "../ports/record-store.ts";
import { type AuditRow, listedIn, type TableRow, type TableRows } from "./record-lists.ts";
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

/**
 * Records in memory, as a real store keeps them: bodies are JSON, a commit is all or nothing, and every call takes a turn, so that calls
 * under way come between each other.
 */
export class RecordTable implements RecordStore, TableRows {
  readonly #rows = new Map<string, TableRow>();
  readonly #generations = new Map<string, number>();
  #audit: AuditRow[] = [];
  #usage: (CountedHour & { readonly scope: string })[] = [];
  #stamp = 0;
  #takes: KeptByTakes | undefined;

  /** From now on these are part of what is counted, and deleted. */
  join(takes: KeptByTakes): void {
    this.#takes = takes;
  }

  /** As a take in the same store reads and writes it, within its own step. */
  readAtOnce(scope: string, key: RecordKey): StoredRecord | undefined {
    return copyOf(this.#row(scope, key));
  }

  putAtOnce(scope: string, { kind, key, by, body }: RecordPut): void {
    const row = { scope: scopeOf(scope, kind), kind, key, by, body: asJson(body), version: ++this.#stamp };
    this.#rows.set(idOf(scope, { kind, key }), row);
  }

  log(scope: string, event: AuditEvent): void {
    this.#audit.push({ id: ++this.#stamp, scope, event: asJson(event) as AuditEvent });
  }

  generationOf(scope: string): number {
    return this.#generations.get(scope) ?? 0;
  }

  /** What takes have counted, for reading; a real store's takes write it. */
  count(scope: string, hour: CountedHour): void {
    this.#usage.push({ ...hour, scope });
  }

  async get(scope: string, keys: readonly RecordKey[]): Promise<FoundRecords> {
    await Promise.resolve();
    return { generation: this.generationOf(scope), records: keys.map((key) => copyOf(this.#row(scope, key))) };
  }

  async list(
    scope: string,
    list: RecordList,
    after: readonly string[] | undefined,
    limitMax: number,
  ): Promise<ListedRecords> {
    await Promise.resolve();
    const records = listedIn(this, scope, list, after).slice(0, limitMax).map(detached);
    return { generation: this.generationOf(scope), records };
  }

  async commit({ scope, guard, puts, deletes, event, bumps, sent }: RecordCommit): Promise<CommitReply> {
    await Promise.resolve();
    const wasMade =
      sent === "again" &&
      event !== undefined &&
      this.#audit.some((row) => row.scope === event.auditIn && row.event.eventId === event.event.eventId);
    if (wasMade) return { kind: "done", generations: this.#generationsOf(bumps), deleted: 0 };
    const holds =
      guard.kind === "generation"
        ? guard.generation === this.generationOf(scope)
        : guard.versions.every((key) => (this.#row(scope, key)?.version ?? 0) === key.version);
    if (!holds) return { kind: "moved" };
    let deleted = 0;
    for (const each of deletes) deleted += this.#delete(scope, each);
    for (const put of puts) this.putAtOnce(scope, put);
    for (const bumped of bumps) this.#generations.set(bumped, this.generationOf(bumped) + 1);
    if (event !== undefined) this.log(event.auditIn, event.event);
    return { kind: "done", generations: this.#generationsOf(bumps), deleted };
  }

  async sums(scope: string, query: SumQuery): Promise<Sums> {
    await Promise.resolve();
    const usage = [...this.#usage.filter((hour) => hour.scope === scope), ...(this.#takes?.hoursIn(scope) ?? [])];
    return summed(query.kind === "usage" ? usage : refusalHours(this.of(scope, "refusal")), query);
  }

  async expire({ nowMs, usageUntilMs, auditUntilMs, limitMax }: ExpiryBounds): Promise<number> {
    await Promise.resolve();
    const isOld = ({ kind, key, by }: TableRow) => {
      if (kind === "refusal") return usageUntilMs !== undefined && Number(key[0]) <= usageUntilMs;
      return "forgottenAtMs" in by && by.forgottenAtMs !== undefined && by.forgottenAtMs <= nowMs;
    };
    const old = [...this.#rows.values()].filter(isOld).slice(0, limitMax);
    for (const row of old) this.#rows.delete(idOf(row.scope, row));
    const audit = this.#audit.filter(({ event }) => event.atMs < auditUntilMs).slice(0, limitMax);
    this.#audit = this.#audit.filter((row) => !audit.includes(row));
    const usage =
      usageUntilMs === undefined ? [] : this.#usage.filter(({ hourMs }) => hourMs <= usageUntilMs).slice(0, limitMax);
    this.#usage = this.#usage.filter((hour) => !usage.includes(hour));
    const hours = usageUntilMs === undefined ? 0 : (this.#takes?.dropHours(usageUntilMs) ?? 0);
    return old.length + audit.length + usage.length + hours;
  }

  of(scope: string, kind: RecordKind): readonly TableRow[] {
    return [...this.#rows.values()].filter((row) => row.kind === kind && row.scope === scopeOf(scope, kind));
  }

  audit(scope: string): readonly AuditRow[] {
    return this.#audit.filter((row) => row.scope === scope);
  }

  #delete(scope: string, what: RecordDeletion): number {
    if (what.kind === "everythingOf") {
      const { entityId } = what;
      this.#drop((row) => row.scope === scope && isOfEntity(row, entityId), Number.POSITIVE_INFINITY);
      this.#usage = this.#usage.filter((hour) => hour.scope !== scope || hour.key[0] !== entityId);
      this.#takes?.dropEntity(scope, entityId);
      return 0;
    }
    if (what.kind === "someIn") {
      const { namespaceId, limitMax } = what;
      const usage = this.#usage.filter((hour) => hour.scope === namespaceId).slice(0, limitMax);
      this.#usage = this.#usage.filter((hour) => !usage.includes(hour));
      const audit = this.audit(namespaceId).slice(0, limitMax - usage.length);
      this.#audit = this.#audit.filter((row) => !audit.includes(row));
      const buckets = this.#takes?.dropSome(namespaceId, limitMax - usage.length - audit.length) ?? 0;
      const gone = usage.length + audit.length + buckets;
      return gone + this.#drop((row) => row.scope === namespaceId, limitMax - gone);
    }
    this.#rows.delete(idOf(scope, what));
    return 0;
  }

  #drop(isMeant: (row: TableRow) => boolean, limitMax: number): number {
    const found = [...this.#rows.values()].filter(isMeant).slice(0, limitMax);
    for (const row of found) this.#rows.delete(idOf(row.scope, row));
    return found.length;
  }

  #row(scope: string, key: RecordKey): TableRow | undefined {
    return this.#rows.get(idOf(scope, key));
  }

  #generationsOf(scopes: readonly string[]): ReadonlyMap<string, number> {
    return new Map(scopes.map((scope) => [scope, this.generationOf(scope)]));
  }
}

/** Namespaces are in the registry, whoever asks. */
function scopeOf(scope: string, kind: RecordKind): string {
  return kind === "namespace" ? "" : scope;
}

function idOf(scope: string, { kind, key }: RecordKey): string {
  return JSON.stringify([scopeOf(scope, kind), kind, ...key]);
}

function isOfEntity({ kind, key }: TableRow, entityId: string): boolean {
  if (kind === "entity") return key[0] === entityId;
  if (kind === "refusal") return key[1] === entityId;
  if (kind === "config") return key[0] === "entity" && key[1] === entityId;
  return kind === "history" && key[0] !== "plan" && key[1] === entityId;
}

function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function copyOf(row: TableRow | undefined): StoredRecord | undefined {
  return row && { kind: row.kind, key: row.key, body: asJson(row.body), version: row.version };
}

function detached({ key, body, place }: ListedRecord): ListedRecord {
  return { key, body: asJson(body), place };
}
