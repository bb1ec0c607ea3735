import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { namespaceOf as namespaceIn } from "../adapters/dynamodb/namespaces-record.ts";
import {
  CLIENT_MIN_VERSION,
  namespaceNameKey,
  namespaceOf,
  REGISTRY,
  SCHEMA_VERSION,
  SCHEMA_VERSION_ATTRIBUTE,
  systemPk,
  TAKEN_OVER,
  UPDATED_BY,
  versionKey,
} from "../adapters/dynamodb/schema.ts";
import {
  checkVersion,
  compareVersions,
  KEEP_OUT,
  newVersionItem,
  OURS,
  readVersion,
  schemaOf,
} from "../adapters/dynamodb/version.ts";
import { DEFAULT_NAMESPACE } from "../domain/config/namespace.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import { ConflictError } from "../domain/names/errors.ts";
import type { Random } from "../ports/system.ts";
import { Ledger, type Migration } from "./ledger.ts";
import { flattened, partitionOf } from "./old-items.ts";
import { check, clean, copy, countCopied, countItems, type PhaseContext, uncopy } from "./phases.ts";
import { NO_COUNTS, type StepCounts } from "./planned.ts";
import { type MigratedTable, makeIndexes, type WayBack } from "./table.ts";
import { FROM_THE_BEGINNING } from "./walk.ts";

/** One step of a migration, and how many items it concerns. */
export interface MigrationStep {
  readonly version: string;
  readonly title: string;
  readonly items: number;
}

export interface MigrationReport {
  /** The schema before. */
  readonly from: string;
  /** The schema after. */
  readonly to: string;
  /** Empty if there is nothing to do. */
  readonly steps: readonly MigrationStep[];
  /** The number of items that an abort removed. */
  readonly removed?: number;
  /** The way to restore the table after old items are deleted, if there is something to do. */
  readonly wayBack?: WayBack;
}

export interface MigrateOptions {
  readonly table: MigratedTable;
  readonly calendar: Calendar;
  readonly ids: Random;
  /** The version of this package, for the version record. */
  readonly version: string;
  /** True: a table in our layout that the original wrote is migrated, too. */
  readonly takeOver: boolean;
  /** Stops after the items in hand; the next run continues there. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: { readonly phase: string; readonly items: number }) => void;
}

/** Reports what a migration would do. Writes nothing. */
export async function planMigration(options: MigrateOptions): Promise<MigrationReport> {
  const { table, takeOver } = options;
  const begun = await Ledger.read(table.records);
  if (begun !== undefined) {
    const counts = begun.phase === "copy" ? await countItems(contextOf(options, begun, "plan")) : begun.counts;
    return reportOf(begun, counts);
  }
  const source = await sourceOf(table, takeOver);
  if (source.task === "none") return { from: source.from, to: TARGET, steps: [] };
  const migration = newMigration(source, options);
  return reportOf(migration, await countItems(contextOf(options, migration, "plan")));
}

/** Migrates a table to our layout; an interrupted migration continues where it stopped. */
export async function migrateTable(options: MigrateOptions): Promise<MigrationReport> {
  const { table, takeOver, ids } = options;
  const { records } = table;
  const run = ids.id();
  let ledger: Ledger;
  if ((await Ledger.read(records)) === undefined) {
    const source = await sourceOf(table, takeOver);
    if (source.task === "none") return { from: source.from, to: TARGET, steps: [] };
    await makeIndexes(table);
    const migration = newMigration(source, options);
    const { namespaceId: id, startedMs: createdAtMs } = migration;
    const namespace = { id, name: DEFAULT_NAMESPACE, status: "active", createdAtMs } as const;
    ledger = await Ledger.begin(records, run, migration, { before: source.record, namespace });
  } else {
    await makeIndexes(table);
    ledger = await Ledger.resume(records, run);
  }
  if (ledger.migration.phase === "copy") {
    await copy(contextOf(options, ledger.migration, "copy"), ledger);
    await ledger.save({ phase: "check" });
  }
  if (ledger.migration.phase === "check") {
    await check(contextOf(options, ledger.migration, "check"), ledger);
    await ledger.save({ phase: "clean", cursors: FROM_THE_BEGINNING });
  }
  await clean(contextOf(options, ledger.migration, "clean"), ledger);
  const { takeOver: isTakenOver } = ledger.migration;
  const item = newVersionItem({ version: options.version, nowMs: table.clock.now() });
  const keepOut = { [CLIENT_MIN_VERSION]: { S: KEEP_OUT }, [TAKEN_OVER]: { S: KEEP_OUT } };
  await ledger.finish(isTakenOver ? { ...item, ...keepOut } : item);
  return reportOf(ledger.migration, ledger.migration.counts);
}

/** Undoes a migration that has not begun to delete, or counts what that would remove. */
export async function abortMigration(options: MigrateOptions, mode: "abort" | "plan"): Promise<MigrationReport> {
  const { table, ids } = options;
  const begun = await Ledger.read(table.records);
  if (begun === undefined) {
    const { from } = await sourceOf(table, false);
    return { from, to: from, steps: [], removed: 0 };
  }
  if (begun.phase === "clean") {
    throw new ConflictError(
      "abort_too_late",
      `The migration of "${table.name}" has begun to delete old items and cannot be undone; finish it with ` +
        `\`zae-limiter migrate --name ${table.name}\`, or restore a backup.`,
    );
  }
  if (mode === "plan") {
    const removed = await countCopied(contextOf(options, begun, "plan"), begun);
    return { from: begun.from, to: begun.from, steps: [], removed };
  }
  const ledger = await Ledger.resume(table.records, ids.id());
  const removed = await uncopy(contextOf(options, begun, "abort"), ledger);
  await ledger.undo();
  return { from: begun.from, to: begun.from, steps: [], removed };
}

function newMigration(source: Source, { table, ids }: MigrateOptions): Migration {
  const { from, task, record, defaultId, isRegistered } = source;
  return {
    phase: "copy",
    from,
    startedMs: table.clock.now(),
    namespaceId: defaultId ?? ids.id(),
    takeOver: task === "takeOver",
    madeNamespace: !isRegistered,
    madeRecord: record === undefined,
    clientMin: record?.[CLIENT_MIN_VERSION]?.S,
    cursors: FROM_THE_BEGINNING,
    counts: NO_COUNTS,
  };
}

function contextOf(options: MigrateOptions, migration: Migration, phase: string): PhaseContext {
  const { table, calendar, signal, onProgress } = options;
  const { startedMs, namespaceId, takeOver, from } = migration;
  const hasBuckets = takeOver || compareVersions(layoutOf(from), "0.9.0") >= 0;
  const onItems = (items: number) => onProgress({ phase, items });
  return { table, calendar, signal, startedMs, hasBuckets, defaultNamespaceId: namespaceId, onItems };
}

function reportOf({ from, takeOver }: Migration, counts: StepCounts): MigrationReport {
  const all: readonly MigrationStep[] = [
    { version: "0.8.0", title: "One item for all limits of a bucket, and of a level", items: counts.limits },
    { version: "0.9.0", title: "Keys with a namespace", items: counts.namespaces },
    {
      version: "0.10.0",
      title: takeOver ? "Taken over from the original" : "Buckets in partitions of their own, usage on sheets",
      items: counts.buckets + counts.changes,
    },
  ];
  const isDue = ({ version, items }: MigrationStep) =>
    items > 0 || compareVersions(version, layoutOf(from)) > 0 || (takeOver && version === TARGET);
  return { from, to: TARGET, steps: all.filter(isDue) };
}

/** The state of a table before a migration. */
interface Source {
  /** Its schema, by its version record or by its items. */
  readonly from: string;
  /** The work to do. `takeOver`: the table is in our layout, and the original wrote it. */
  readonly task: "none" | "migrate" | "takeOver";
  /** The version record at its own key. */
  readonly record: Attributes | undefined;
  /** The id of the namespace `default`, if it is registered, or used without being registered. */
  readonly defaultId: string | undefined;
  readonly isRegistered: boolean;
}

/** Finds out what a table is, by reads alone. Throws if it is missing, unknown, or newer than this package. */
async function sourceOf(table: MigratedTable, takeOver: boolean): Promise<Source> {
  const { records, name } = table;
  const record = await records.get(versionKey());
  const registered = await records.get(namespaceNameKey(DEFAULT_NAMESPACE));
  const named = registered === undefined ? undefined : namespaceIn(registered).id;
  const known = await readVersion(records);
  if (known !== undefined) {
    const schema = schemaOf(known);
    if (schema === "newer") checkVersion(known, { name, shared: true });
    const isOurs = record?.[UPDATED_BY]?.S?.startsWith(OURS) === true;
    const task = schema === "older" ? "migrate" : takeOver && !isOurs ? "takeOver" : "none";
    const defaultId = named ?? (await unregisteredId(table));
    return { from: known.schemaVersion, task, record, defaultId, isRegistered: named !== undefined };
  }
  const found = await schemaByContent(table, named);
  // The table has no version and no known item, so it gets the usual error.
  if (found === undefined) checkVersion(undefined, { name, shared: false });
  const defaultId = named ?? (await unregisteredId(table));
  return { from: found ?? "", task: "migrate", record, defaultId, isRegistered: named !== undefined };
}

/** Maps the earliest versions, 1.0.0 and 1.1.0, so that versions of layouts can be compared. */
function layoutOf(from: string): string {
  return /^v?1\./.test(from) ? "0.4.0" : from;
}

/** Early tables use the name `default` as the id of that namespace, and register none. */
async function unregisteredId(table: MigratedTable): Promise<string | undefined> {
  const pks = await somePks(table);
  return pks.some((pk) => pk.startsWith(`${DEFAULT_NAMESPACE}/`)) ? DEFAULT_NAMESPACE : undefined;
}

async function schemaByContent(table: MigratedTable, defaultId: string | undefined): Promise<string | undefined> {
  for (const id of [defaultId, DEFAULT_NAMESPACE]) {
    if (id === undefined) continue;
    const record = await table.records.get({ pk: systemPk(id), sk: versionKey().sk });
    const version = record === undefined ? undefined : flattened(record)[SCHEMA_VERSION_ATTRIBUTE]?.S;
    if (version !== undefined) return version;
  }
  const pks = await somePks(table);
  const bare = pks.filter((pk) => partitionOf(pk)?.namespaceId === undefined && partitionOf(pk) !== undefined);
  for (const pk of bare) {
    const items = await table.partition(pk);
    if (items.some((item) => /^#(LIMIT#|BUCKET#.+#)/.test(item.SK?.S ?? ""))) return "0.4.0";
  }
  if (bare.length > 0) return "0.8.0";
  return pks.some((pk) => partitionOf(pk) !== undefined && namespaceOf(pk) !== REGISTRY) ? "0.9.0" : undefined;
}

async function somePks(table: MigratedTable): Promise<readonly string[]> {
  const { pks } = await table.scan({ segment: 0, segments: 1 }, null);
  return pks.slice(0, SAMPLE);
}

const SAMPLE = 200;

const TARGET = SCHEMA_VERSION;
