import type { Retention } from "../domain/config/retention.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import { LimiterError } from "../domain/names/errors.ts";
import type { BatchStore, DraftedLease } from "../ports/batch-store.ts";
import type { CopyStore } from "../ports/copy-store.ts";
import type { LeaseForm } from "../ports/lease-store.ts";
import type { CountStore, RecordStore } from "../ports/record-store.ts";
import type { Store } from "../ports/store.ts";
import type { Clock, Digest, Random, Turns } from "../ports/system.ts";
import { configOn } from "../records/config.ts";
import { ensureDefault, everyNamespace, namespacesOn } from "../records/namespaces.ts";
import { recordScope } from "../records/scope.ts";
import { recordParts, ScopedRecords } from "../records/scoped-records.ts";
import { SeenGenerations } from "../records/seen-changes.ts";
import { callersOn } from "../records/usage.ts";
import { draftedWrite } from "./row-codec.ts";
import { StoreSweep } from "./store-sweep.ts";
import { BucketSweep } from "./sweep.ts";
import { StraightTakes } from "./takes.ts";

/** The settings of a store of batches, on whatever server it is. */
export interface BatchedStoreOptions {
  /** False: a store that is missing, or older, is an error. */
  readonly create: boolean;
  /** Join calls under way together into one batch. */
  readonly coalesce: boolean;
  /** At most this many batches are under way at once. */
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
  /** Reads the leases that takes have written. */
  readonly leaseForm: LeaseForm;
}

/** The parts of a store that are made for its server. */
interface ServerParts {
  readonly name: string;
  readonly batches: BatchStore;
  readonly records: RecordStore & CountStore;
  /** The clock that is kept to the time of the server; undefined: readings come from elsewhere. */
  readonly kept: Clock | undefined;
  readonly bucketsMax: number;
  readonly draftedLease: (body: unknown) => DraftedLease | undefined;
  readonly copyOf: (scoped: ScopedRecords) => CopyStore;
  readonly ping: () => Promise<void>;
  /** Ends what goes on behind the calls, and the connection. */
  readonly close: () => Promise<void>;
}

/** A reading further ahead of the server's clock than this is that of a machine that slept, or was put. */
const AHEAD_MAX_MS = 2_000;

/** A store whose takes are batches, and whose records are committed on a generation. */
export async function batchedStore(options: BatchedStoreOptions, parts: ServerParts): Promise<Store> {
  const { calendar, retention } = options;
  const { name, batches, records, kept } = parts;
  const clock = options.clock.kind === "given" ? options.clock.clock : (kept as Clock);
  const generations = new SeenGenerations();
  const recorded = recordParts(records, generations);
  if (options.create) await ensureDefault(recorded);
  const countsUsage = retention.usageKeepMs !== undefined;
  const sweep = new StoreSweep({
    buckets: new BucketSweep(batches, calendar, countsUsage, (id) => configOn(new ScopedRecords(recorded, id))),
    ...{ counts: records, retention, clock },
  });
  let closing: Promise<void> | undefined;
  const requireOpen = () => {
    if (closing === undefined) return;
    throw new LimiterError("closed", `The store ${name} is closed; open it again with RateLimiter.open.`);
  };
  const takes = new StraightTakes({
    ...{ store: batches, turns: options.turns, calendar, countsUsage, requireOpen },
    waiting: { steadyMs: options.steadyMs, after: options.after },
    ...{ digest: options.digest, random: options.random, laneCount: options.laneCount, coalesce: options.coalesce },
    clock: kept && { aheadMaxMs: AHEAD_MAX_MS, now: () => kept.now() },
    onAnswer: (seen) => {
      generations.noteAnswer(seen);
      sweep.afterBatch(seen);
    },
  });
  const writeOf = (body: unknown) => {
    const drafted = parts.draftedLease(body);
    return drafted && draftedWrite(drafted, options.leaseForm, calendar);
  };
  const namespaces = namespacesOn(recorded);
  const close = async (): Promise<void> => {
    await takes.drained();
    await sweep.close();
    await parts.close();
  };
  return {
    ...{ name, ...(kept === undefined ? {} : { clock: kept }), atomicBucketsMax: parts.bucketsMax },
    tellsThresholds: true,
    namespaces,
    scope: (namespaceId) => {
      sweep.note(namespaceId);
      const leases = { isWrittenByTake: true, writeOf } as const;
      const scope = recordScope(recorded, namespaceId, { retention, counts: records, takes: leases });
      const scoped = new ScopedRecords(recorded, namespaceId);
      return {
        ...scope,
        callers: callersOn(scoped, records, countsUsage),
        buckets: takes.bucketsOf(namespaceId, scope.config),
        copy: parts.copyOf(scoped),
      };
    },
    sweep: async () => {
      requireOpen();
      return sweep.toEnd(await everyNamespace(namespaces), clock.now());
    },
    ping: parts.ping,
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}
