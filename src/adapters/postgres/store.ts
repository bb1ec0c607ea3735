import { DisciplinedClock } from "../../clock/disciplined-clock.ts";
import type { Retention } from "../../domain/config/retention.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import type { LeaseForm } from "../../ports/lease-form.ts";
import type { Store } from "../../ports/store.ts";
import type { Clock, Digest, Random, Turns } from "../../ports/system.ts";
import { RecordConfig } from "../../records/config.ts";
import type { LeasesByTakes } from "../../records/leases.ts";
import { ensureDefault, RecordNamespaces } from "../../records/namespaces.ts";
import { recordParts } from "../../records/parts.ts";
import { recordScope } from "../../records/scope.ts";
import { RecordSweep } from "../../records/sweep.ts";
import { draftedWrite } from "../../straight/drafted.ts";
import { BucketSweep } from "../../straight/sweep.ts";
import { StraightTakes } from "../../straight/takes.ts";
import { draftedLease } from "./batch-text.ts";
import { PostgresBatches } from "./batches.ts";
import type { Connection } from "./connection.ts";
import { migrate, requireMade } from "./migrations.ts";
import { PostgresRecords } from "./records.ts";
import { StoreSweep } from "./store-sweep.ts";

interface PostgresOptions {
  readonly connection: Connection;
  /** False: a schema that is missing or older is an error. */
  readonly create: boolean;
  /**
   * What a crash of the server may take. `full`: nothing that was answered. `normal`: the takes of the last moments; changes, leases and
   * operations are `full` all the same.
   */
  readonly durability: "normal" | "full";
  /** Join calls under way together into one transaction. */
  readonly coalesce: boolean;
  /** How many batches may be under way at once. */
  readonly laneCount: number;
  readonly retention: Retention;
  readonly adminTimeoutMs: number;
  /** The clock that is used as it is; or the machine's, which is kept to the time of the server. */
  readonly clock: { readonly kind: "given"; readonly clock: Clock } | { readonly kind: "kept"; readonly local: Clock };
  readonly steadyMs: () => number;
  readonly after: (ms: number, work: () => void) => () => void;
  readonly turns: Turns;
  readonly digest: Digest;
  readonly random: Random;
  readonly calendar: Calendar;
  /** How leases are read that takes have written. */
  readonly leaseForm: LeaseForm;
}

/** A reading further ahead of the server's clock than this is that of a machine that slept, or was put. */
const AHEAD_MAX_MS = 2_000;

/** A store in a schema of a PostgreSQL server, for any number of processes on any machines. Closes the connection where it fails. */
export async function openStore(options: PostgresOptions): Promise<Store> {
  const { connection } = options;
  try {
    await (options.create ? migrate(connection) : requireMade(connection));
    return await storeOn(options);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function storeOn(options: PostgresOptions): Promise<Store> {
  const { connection, calendar, retention, steadyMs, adminTimeoutMs } = options;
  const given = options.clock;
  const kept = given.kind === "kept" ? new DisciplinedClock(given.local, steadyMs) : undefined;
  if (kept !== undefined) await readTime(connection, kept);
  const clock = given.kind === "given" ? given.clock : (kept as DisciplinedClock);
  const batches = new PostgresBatches(connection, options.durability, kept);
  const records = new PostgresRecords(connection, adminTimeoutMs);
  const parts = recordParts(records);
  if (options.create) await ensureDefault(parts);
  const countsUsage = retention.usageKeepMs !== undefined;
  const sweep = new StoreSweep({
    buckets: new BucketSweep(batches, calendar, countsUsage),
    records: new RecordSweep(records, retention),
    clock,
  });
  let closing: Promise<void> | undefined;
  const requireOpen = () => {
    if (closing === undefined) return;
    throw new LimiterError("closed", `The store ${connection.name} is closed; open it again with RateLimiter.open.`);
  };
  const takes = new StraightTakes({
    ...{ store: batches, turns: options.turns, waiting: { steadyMs, after: options.after }, calendar },
    ...{ digest: options.digest, random: options.random, laneCount: options.laneCount, requireOpen },
    countsUsage,
    coalesce: options.coalesce,
    clock: kept && { aheadMaxMs: AHEAD_MAX_MS, now: () => kept.now() },
    onAnswer: (seen) => {
      parts.generations.note(seen.namespaceId, seen.generation);
      sweep.afterBatch(seen);
    },
  });
  const leases: LeasesByTakes = {
    isWrittenByTake: true,
    writeOf: (body) => {
      const drafted = draftedLease(body);
      return drafted && draftedWrite(drafted, options.leaseForm, calendar);
    },
  };
  const namespaces = new RecordNamespaces(parts);
  const close = async (): Promise<void> => {
    await takes.drained();
    await sweep.close();
    await connection.close();
  };
  return {
    name: connection.name,
    ...(kept === undefined ? {} : { clock: kept }),
    atomicBucketsMax: Number.POSITIVE_INFINITY,
    tellsThresholds: true,
    namespaces,
    scope: (namespaceId) => {
      sweep.note(namespaceId);
      const config = new RecordConfig(parts, namespaceId);
      const generation = () => parts.generations.of(namespaceId);
      return {
        ...recordScope(parts, namespaceId, { retention, counts: records, takes: leases }),
        buckets: takes.bucketsOf(namespaceId, generation, async (id, on) => config.resolve(id, on)),
      };
    },
    sweep: async () => {
      requireOpen();
      const ids = await everyNamespace(namespaces);
      return sweep.toEnd(ids, clock.now());
    },
    ping: async () => {
      await connection.query("SELECT 1 AS one FROM @.meta", []);
    },
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

/** Also those that are deleted, and may be recovered. */
async function everyNamespace(namespaces: RecordNamespaces): Promise<readonly string[]> {
  const ids: string[] = [];
  for (const list of ["list", "listOrphans"] as const) {
    let page = await namespaces[list]({ limit: 100 });
    for (;;) {
      ids.push(...page.items.map(({ id }) => id));
      if (page.cursor === undefined) break;
      page = await namespaces[list]({ limit: 100, cursor: page.cursor });
    }
  }
  return ids;
}

async function readTime(connection: Connection, clock: DisciplinedClock): Promise<void> {
  const sent = clock.stamp();
  const text = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::text AS ms";
  const [row] = await connection.queryAgain(text, [], "always");
  clock.observe({ dateMs: Number(row?.ms), sent });
}
