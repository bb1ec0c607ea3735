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
import { given } from "../domain/names/given.ts";
import { NO_COUNTS, type StepCounts } from "./planned.ts";
import type { Cursors } from "./walk.ts";

type Phase = "copy" | "check" | "clean";

/** The progress of a migration, as the version record has it. */
export interface Migration {
  readonly phase: Phase;
  /** The schema before it. */
  readonly from: string;
  readonly startedMs: number;
  /** The id of the namespace for what has none. */
  readonly namespaceId: string;
  readonly takeOver: boolean;
  /** True if the migration made the namespace, or the version record: an abort removes them. */
  readonly madeNamespace: boolean;
  readonly madeRecord: boolean;
  /** The client version that the table demanded before. */
  readonly clientMin: string | undefined;
  /** The place at which each segment continues; "end": it is done. */
  readonly cursors: Cursors;
  readonly counts: StepCounts;
}

/** The record of a migration. Only the process that began or resumed last may write it; any other fails at its next write. */
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

  /** Returns undefined if no migration was begun. */
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

  /** Takes over a migration that another process began; that process ends at its next save. */
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

  /** Writes all or nothing, unless another process has resumed the migration. */
  async guarded(writes: readonly RecordWrite[]): Promise<void> {
    // The record is written, not only checked: two processes that resume at once must not both pass.
    const set = { [MIGRATING]: encoded(this.#migration) };
    await this.#write([updateRecord(versionKey(), { set }, this.#isOurs), ...writes]);
  }

  /** Ends the migration: writes the new version record. */
  async finish(item: Attributes): Promise<void> {
    await this.#write([putRecord(versionKey(), item, this.#isOurs)]);
  }

  /** Restores the record and the namespace as they were before. */
  async undo(): Promise<void> {
    const { madeRecord, madeNamespace, namespaceId, clientMin } = this.#migration;
    const [set, remove] =
      clientMin === undefined
        ? [{}, [...OWN_MARKS, CLIENT_MIN_VERSION]]
        : [{ set: texts({ [CLIENT_MIN_VERSION]: clientMin }) }, OWN_MARKS];
    const record = madeRecord
      ? deleteRecord(versionKey(), this.#isOurs)
      : updateRecord(versionKey(), { ...set, remove }, this.#isOurs);
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

/** Attributes that only a migration under way has. */
const OWN_MARKS = [MIGRATING, MIGRATION_RUN, TAKEN_OVER];

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
      ...texts(given({ phase, from, namespace_id: namespaceId, client_min: clientMin })),
      started_ms: { N: String(startedMs) },
      take_over: { BOOL: takeOver },
      made_namespace: { BOOL: madeNamespace },
      made_record: { BOOL: madeRecord },
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
