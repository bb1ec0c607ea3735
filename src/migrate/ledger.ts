import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { namespaceItem } from "../adapters/dynamodb/namespaces-record.ts";
import type { Records } from "../adapters/dynamodb/records.ts";
import {
  all,
  deleteRecord,
  isStill,
  missing,
  putRecord,
  type RecordWrite,
  texts,
  updateRecord,
} from "../adapters/dynamodb/records-write.ts";
import {
  CLIENT_MIN_VERSION,
  MIGRATING,
  MIGRATION_RUN,
  namespaceIdKey,
  namespaceNameKey,
  REGISTRY,
  SCHEMA_VERSION_ATTRIBUTE,
  systemIndexKeys,
  TAKEN_OVER,
  versionKey,
} from "../adapters/dynamodb/schema.ts";
import { KEEP_OUT } from "../adapters/dynamodb/version.ts";
import { DEFAULT_NAMESPACE, type Namespace } from "../domain/config/namespace.ts";
import { ConflictError } from "../domain/names/errors.ts";
import { NO_COUNTS, type StepCounts } from "./planned.ts";
import type { ScanKey } from "./table.ts";

type Phase = "copy" | "check" | "clean";

/** How far a migration has come, as the version record has it. */
export interface Migration {
  readonly phase: Phase;
  /** The schema before it. */
  readonly from: string;
  readonly startedMs: number;
  /** The id of the namespace for what has none. */
  readonly namespaceId: string;
  readonly takeOver: boolean;
  /** Whether it made the namespace, and the version record: then they go if it is taken back. */
  readonly madeNamespace: boolean;
  readonly madeRecord: boolean;
  /** What the table demanded of clients before. */
  readonly clientMin: string | undefined;
  /** For each segment where it goes on; "end": it is through. */
  readonly cursors: readonly (ScanKey | "end")[];
  readonly counts: StepCounts;
}

/** The record of a migration. Only the process that began or resumed last may write it: another finds out when it tries. */
export class Ledger {
  readonly #records: Records;
  readonly #run: string;
  #migration: Migration;

  private constructor(records: Records, run: string, migration: Migration) {
    this.#records = records;
    this.#run = run;
    this.#migration = migration;
  }

  get migration(): Migration {
    return this.#migration;
  }

  /** Undefined where none was begun. */
  static async read(records: Records): Promise<Migration | undefined> {
    return migrationIn(await records.get(versionKey()));
  }

  /** Begins a migration, in one transaction with the namespace that it needs. */
  static async begin(
    records: Records,
    run: string,
    migration: Migration,
    { before, namespace }: { readonly before: Attributes | undefined; readonly namespace: Namespace },
  ): Promise<Ledger> {
    const set = {
      ...texts({ [CLIENT_MIN_VERSION]: KEEP_OUT, [TAKEN_OVER]: KEEP_OUT, [MIGRATION_RUN]: run }),
      [MIGRATING]: encoded(migration),
    };
    const own = { ...set, ...texts({ [SCHEMA_VERSION_ATTRIBUTE]: migration.from, ...systemIndexKeys(REGISTRY) }) };
    const record =
      before === undefined
        ? putRecord(versionKey(), own, missing)
        : updateRecord(versionKey(), { set }, isUntouched(before));
    const made = migration.madeNamespace ? namespaceWrites(namespace) : [];
    const reply = await records.transact([record, ...made]);
    if (reply.kind === "failed") throw takenOver();
    return new Ledger(records, run, migration);
  }

  /** Goes on with a migration that another process began; that one ends with its next save. */
  static async resume(records: Records, run: string): Promise<Ledger> {
    const item = await records.get(versionKey());
    const migration = migrationIn(item);
    if (migration === undefined) throw takenOver();
    const set = texts({ [MIGRATION_RUN]: run });
    const before = isStill(MIGRATION_RUN, item?.[MIGRATION_RUN]);
    const reply = await records.transact([updateRecord(versionKey(), { set }, before)]);
    if (reply.kind === "failed") throw takenOver();
    return new Ledger(records, run, migration);
  }

  async save(change: Partial<Migration>): Promise<void> {
    const next = { ...this.#migration, ...change };
    await this.#write([updateRecord(versionKey(), { set: { [MIGRATING]: encoded(next) } }, this.#isOurs)]);
    this.#migration = next;
  }

  /** Does some writes if nobody has gone on since; all or none. */
  async guarded(writes: readonly RecordWrite[]): Promise<void> {
    // A write of its own, and not a check: two processes that resume at once must not both pass.
    const set = { [MIGRATING]: encoded(this.#migration) };
    await this.#write([updateRecord(versionKey(), { set }, this.#isOurs), ...writes]);
  }

  /** The end of it: the new record, in one write. */
  async finish(item: Attributes): Promise<void> {
    await this.#write([putRecord(versionKey(), item, this.#isOurs)]);
  }

  /** The record and the namespace as they were before. */
  async undo(): Promise<void> {
    const { madeRecord, madeNamespace, namespaceId, clientMin } = this.#migration;
    const record = madeRecord
      ? deleteRecord(versionKey(), this.#isOurs)
      : updateRecord(
          versionKey(),
          {
            ...(clientMin === undefined ? {} : { set: { [CLIENT_MIN_VERSION]: { S: clientMin } } }),
            remove: [MIGRATING, MIGRATION_RUN, TAKEN_OVER, ...(clientMin === undefined ? [CLIENT_MIN_VERSION] : [])],
          },
          this.#isOurs,
        );
    const namespace = madeNamespace
      ? [namespaceNameKey(DEFAULT_NAMESPACE), namespaceIdKey(namespaceId)].map((key) => deleteRecord(key, undefined))
      : [];
    await this.#write([record, ...namespace]);
  }

  get #isOurs() {
    return isStill(MIGRATION_RUN, { S: this.#run });
  }

  async #write(writes: readonly RecordWrite[]): Promise<void> {
    const reply = await this.#records.transact(writes);
    if (reply.kind === "failed") throw takenOver();
  }
}

function isUntouched(before: Attributes) {
  return all(
    isStill(MIGRATING, undefined),
    isStill(SCHEMA_VERSION_ATTRIBUTE, before[SCHEMA_VERSION_ATTRIBUTE]),
    isStill(CLIENT_MIN_VERSION, before[CLIENT_MIN_VERSION]),
  );
}

function namespaceWrites(namespace: Namespace): readonly RecordWrite[] {
  const item = namespaceItem(namespace);
  return [namespaceNameKey(namespace.name), namespaceIdKey(namespace.id)].map((key) => putRecord(key, item, missing));
}

function encoded(migration: Migration): Attributes[string] {
  const { phase, from, startedMs, namespaceId, takeOver, madeNamespace, madeRecord, clientMin, cursors, counts } =
    migration;
  return {
    M: {
      ...texts({
        phase,
        from,
        namespace_id: namespaceId,
        ...(clientMin === undefined ? {} : { client_min: clientMin }),
      }),
      ...{ started_ms: { N: String(startedMs) }, take_over: { BOOL: takeOver } },
      ...{ made_namespace: { BOOL: madeNamespace }, made_record: { BOOL: madeRecord } },
      ...texts({ cursor: JSON.stringify(cursors), counts: JSON.stringify(counts) }),
    },
  };
}

function migrationIn(item: Attributes | undefined): Migration | undefined {
  const map = item?.[MIGRATING]?.M;
  if (map === undefined) return undefined;
  return {
    phase: (map.phase?.S ?? "copy") as Phase,
    from: map.from?.S ?? "",
    startedMs: Number(map.started_ms?.N ?? 0),
    namespaceId: map.namespace_id?.S ?? "",
    takeOver: map.take_over?.BOOL === true,
    madeNamespace: map.made_namespace?.BOOL === true,
    madeRecord: map.made_record?.BOOL === true,
    clientMin: map.client_min?.S,
    cursors: JSON.parse(map.cursor?.S ?? "[]") as Migration["cursors"],
    counts: { ...NO_COUNTS, ...(JSON.parse(map.counts?.S ?? "{}") as Partial<StepCounts>) },
  };
}

function takenOver(): ConflictError {
  return new ConflictError(
    "migration_taken_over",
    "Another process is migrating this table; wait for it, or stop it and run migrate again.",
  );
}
