import { CLIENT_MIN_VERSION, TAKEN_OVER } from "../adapters/dynamodb/schema.ts";
import { compareVersions, KEEP_OUT, newVersionItem } from "../adapters/dynamodb/version.ts";
import { DEFAULT_NAMESPACE } from "../domain/config/namespace.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import { ConflictError } from "../domain/names/errors.ts";
import type { Random } from "../ports/system.ts";
import type { WayBack } from "./backup.ts";
import { makeIndexes } from "./indexes.ts";
import { Ledger, type Migration } from "./ledger.ts";
import { check, clean, copy, countCopied, countItems, type PhaseContext, uncopy } from "./phases.ts";
import { NO_COUNTS, type StepCounts } from "./planned.ts";
import { layoutOf, type Source, sourceOf, TARGET } from "./source.ts";
import type { MigratedTable } from "./table.ts";
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
  /** None: there is nothing to do. */
  readonly steps: readonly MigrationStep[];
  /** Of an abort: how many items were taken back. */
  readonly removed?: number;
  /** Where there is something to do: how the table comes back once old items are deleted. */
  readonly wayBack?: WayBack;
}

export interface MigrateOptions {
  readonly table: MigratedTable;
  readonly calendar: Calendar;
  readonly ids: Random;
  /** Of this package, for the version record. */
  readonly version: string;
  /** Also a table in our layout that the original wrote. */
  readonly takeOver: boolean;
  /** Ends it after what is in hand; migrated again, it goes on there. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: { readonly phase: string; readonly items: number }) => void;
}

/** What a migration would do. Writes nothing. */
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

/** Brings a table to our layout; one that was cut off goes on where it was. */
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

/** Takes back a migration that has not begun to delete; or counts what that would remove. */
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
    ...{ phase: "copy", from, startedMs: table.clock.now(), namespaceId: defaultId ?? ids.id() },
    ...{ takeOver: task === "takeOver", madeNamespace: !isRegistered, madeRecord: record === undefined },
    ...{ clientMin: record?.[CLIENT_MIN_VERSION]?.S, cursors: FROM_THE_BEGINNING, counts: NO_COUNTS },
  };
}

function contextOf(options: MigrateOptions, migration: Migration, phase: string): PhaseContext {
  const { table, calendar, signal, onProgress } = options;
  const { startedMs, namespaceId, takeOver, from } = migration;
  const hasBuckets = takeOver || compareVersions(layoutOf(from), "0.9.0") >= 0;
  return {
    ...{ table, calendar, signal, startedMs, hasBuckets, defaultNamespaceId: namespaceId },
    onItems: (items) => onProgress({ phase, items }),
  };
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
