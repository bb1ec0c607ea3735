import type {
  CommitReply,
  ExpiryBounds,
  FoundRecords,
  ListedRecords,
  RecordCommit,
  RecordKey,
  RecordKind,
  RecordList,
  RecordStore,
  StoredRecord,
  SumQuery,
  Sums,
  TouchedNames,
} from "../../ports/record-store.ts";
import { texts } from "./batch-text.ts";
import type { Connection } from "./connection.ts";
import { faultOf, thrownFor } from "./faults.ts";
import { GatheredReads } from "./gathered-reads.ts";
import { listStatement, sumStatement } from "./record-lists.ts";
import { KINDS_OF_TAKERS } from "./record-tables.ts";

/** A statement that the server rolled back for the sake of another one is sent this often. */
const TRIES_MAX = 5;

/** A lock of others is given up this much earlier than the answer, so that the caller learns that nothing was done. */
const SPARE_MS = 50;

/** The keys of one kind: where each stands among all, and its parts, an array for each. */
interface AskedKind {
  readonly places: number[];
  readonly parts: readonly string[][];
}

const GENERATION = "coalesce((SELECT value FROM @.generation WHERE namespace = $1), 0)";

/** Records in tables. Every call is one statement, and what it answers is one text of JSON: drivers differ in how they read numbers. */
export class PostgresRecords implements RecordStore {
  readonly #connection: Connection;
  readonly #waitMs: number;
  readonly #reads = new GatheredReads((scope, keys, since) => this.#read(scope, keys, since));

  /** `timeoutMs`: the connection waits this long for an answer. */
  constructor(connection: Connection, timeoutMs: number) {
    this.#connection = connection;
    this.#waitMs = Math.max(1, timeoutMs - SPARE_MS);
  }

  async get(scope: string, keys: readonly RecordKey[], since = Number.MAX_SAFE_INTEGER): Promise<FoundRecords> {
    this.#connection.requireOpen();
    return this.#reads.get(scope, keys, since);
  }

  async #read(scope: string, keys: readonly RecordKey[], since: number): Promise<FoundRecords> {
    const byKind = new Map<RecordKind, AskedKind>();
    for (const [i, { kind, key }] of keys.entries()) {
      const asked = byKind.get(kind) ?? { places: [], parts: key.map(() => []) };
      if (asked.places.length === 0) byKind.set(kind, asked);
      asked.places.push(i);
      for (const [part, column] of asked.parts.entries()) column.push(key[part] as string);
    }
    const asked = [...byKind].flatMap(([kind, { parts }]) => [kind, ...parts.map(texts)]);
    const values = [scope, since, texts(asked)];
    const [row] = await this.#connection.readAgain(
      "SELECT @.read_2($1, $2::bigint, $3::text::text[]) AS answer",
      values,
    );
    const answer = JSON.parse(row?.answer as string) as {
      readonly generation: number;
      readonly changes: TouchedNames;
      readonly found: readonly (readonly [kind: RecordKind, place: number, version: number, body: unknown])[];
    };
    const records: (StoredRecord | undefined)[] = keys.map(() => undefined);
    for (const [of, at, version, body] of answer.found) {
      const place = byKind.get(of)?.places[at - 1] as number;
      const { kind, key } = keys[place] as RecordKey;
      records[place] = { kind, key, version, body };
    }
    return { generation: answer.generation, changes: answer.changes, records };
  }

  list(
    scope: string,
    list: RecordList,
    after: readonly string[] | undefined,
    limitMax: number,
  ): Promise<ListedRecords> {
    const { text, values } = listStatement(list, after, limitMax);
    return this.#answer(
      `SELECT json_build_object('generation', ${GENERATION}, 'records', coalesce((SELECT json_agg(r) FROM (${text}) r), '[]'::json))::text AS answer`,
      [scope, ...values],
    );
  }

  sums(scope: string, query: SumQuery): Promise<Sums> {
    const { text, values } = sumStatement(query);
    return this.#answer<{ readonly sums: Sums["sums"]; readonly nextHourMs: number | null }>(text, [
      scope,
      ...values,
    ]).then(({ sums, nextHourMs }) => ({ sums, nextHourMs: nextHourMs ?? undefined }));
  }

  async commit(commit: RecordCommit): Promise<CommitReply> {
    this.#connection.requireOpen();
    const text = `SELECT @.${isOfTakers(commit) ? "lease_1" : "commit_1"}($1::text::json) AS answer`;
    const values = [commitText(commit, this.#waitMs)];
    for (let tries = 1; ; tries++) {
      try {
        const [row] = await this.#connection.runOther(text, values);
        return replyOf(row?.answer);
      } catch (error) {
        const fault = faultOf(error);
        // A row that somebody else made at the same time is found by the guard when the commit is sent again.
        const isAgain = isDuplicate(error) || (fault === "rolledBack" && !isLockTimeout(error));
        if (isAgain && tries < TRIES_MAX) continue;
        const cause = thrownFor(error, this.#connection.name);
        if (fault === "unknown") return { kind: "unavailable", applied: "unknown", cause };
        if (fault === "rolledBack" || fault === "notApplied" || fault === "standby") {
          return { kind: "unavailable", applied: "no", cause };
        }
        throw cause;
      }
    }
  }

  async expire(bounds: ExpiryBounds): Promise<number> {
    const [row] = await this.#connection.queryAgain(
      "SELECT @.sweep_1($1::text::json) AS answer",
      [JSON.stringify(bounds)],
      "always",
    );
    return Number(row?.answer);
  }

  async #answer<Answer>(text: string, values: readonly unknown[]): Promise<Answer> {
    const [row] = await this.#connection.queryAgain(text, values, "always");
    return JSON.parse(row?.answer as string) as Answer;
  }
}

/** A lock was not had in time: there is no time left to try again. */
function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "55P03";
}

function isDuplicate(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "23505";
}

/** True for what a process that only takes may write. */
function isOfTakers({ guard, puts, deletes, event, bumps }: RecordCommit): boolean {
  if (guard.kind !== "versions" || event !== undefined || bumps.length > 0) return false;
  return [...puts, ...deletes].every(({ kind }) => KINDS_OF_TAKERS.some((one) => one === kind));
}

function commitText(
  { scope, guard, puts, deletes, event, bumps, touched, sent }: RecordCommit,
  waitMs: number,
): string {
  const versions = guard.kind === "versions" ? guard.versions.toSorted(byKey) : [];
  const expected = new Map(versions.map(({ kind, key, version }) => [JSON.stringify([kind, ...key]), version]));
  const logged = event && {
    auditIn: event.auditIn,
    eventId: event.event.eventId,
    entityId: event.event.entityId,
    atMs: event.event.atMs,
    body: JSON.stringify(event.event),
  };
  return JSON.stringify({
    ...{ scope, deletes, bumps, touched: touched ?? null, sent, waitMs: String(waitMs) },
    guard: guard.kind === "versions" ? { kind: "versions", versions } : guard,
    puts: puts.map((put) => ({
      ...put,
      body: JSON.stringify(put.body),
      expect: expected.get(JSON.stringify([put.kind, ...put.key])) ?? null,
    })),
    event: logged ?? null,
  });
}

/** One order for everybody: rows are locked in it. */
function byKey(a: RecordKey, b: RecordKey): number {
  const [one, other] = [JSON.stringify([a.kind, ...a.key]), JSON.stringify([b.kind, ...b.key])];
  return one < other ? -1 : one > other ? 1 : 0;
}

function replyOf(answer: unknown): CommitReply {
  const reply = JSON.parse(answer as string) as
    | { readonly kind: "moved" }
    | { readonly kind: "done"; readonly generations: Readonly<Record<string, number>>; readonly deleted: number };
  if (reply.kind === "moved") return reply;
  return { kind: "done", generations: new Map(Object.entries(reply.generations)), deleted: reply.deleted };
}
