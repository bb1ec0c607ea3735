import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { LevelConfig } from "../../src/domain/config/config.ts";
import type { ItemStore } from "../../src/ports/item-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { isShardKey } from "../../src/protocol/item/write-builder.ts";
import { type FaultedCall, FaultStore } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import type { LineCall } from "../kit/conditional-line.ts";
import { type ConditionalWorld, conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { calendar } from "./calendar.ts";
import type { Surroundings } from "./client.ts";
import { ClientClock } from "./client-clock.ts";
import { CorrectedClock } from "./conditional-clock.ts";
import { seenConfig } from "./conditional-config.ts";
import { watchedItems } from "./conditional-items.ts";
import { ConditionalRecorder } from "./conditional-recorder.ts";
import { resolvedProblems, watchedConfig } from "./config-watch.ts";
import { type Connection, type Connector, LONG_MS, type Manner } from "./connection.ts";
import type { Ground, GroundContext } from "./ground.ts";
import { currentOperation } from "./operation.ts";
import { heard, overriding } from "./port.ts";

/** Where processes forget: more buckets than one request has, so that each gets on alone. */
const BUCKETS_MAX = 40;

const OTHERS = Array.from({ length: 2 * BUCKETS_MAX }, (_, i) => bucketKey(`other-${i}`, "api"));

/** How old configuration and items may be that somebody reads who does not insist. */
const STALE_MS = 2_000;

/** The protocol on a table that can do no more than conditional writes; each client is a process of its own. */
export function conditionalGround(context: GroundContext): Ground {
  // Its own chance: what is drawn here must not depend on what the clients draw.
  const random = new SeededRandom(context.seed + 2 ** 40);
  const { clock, journal, profile, mutant } = context;
  const world = conditionalWorld(
    {
      now: () => clock.now(),
      random: random.fork(),
      writesPerSecond: random.pick([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 1_000, 60, 15]),
      staleMs: random.pick([0, STALE_MS, STALE_MS]),
    },
    calendar,
  );
  // Its own chance again, so that worlds stay what they were before usage was kept.
  const usageRandom = new SeededRandom(context.seed + 2 ** 42);
  const usageKeptS = usageRandom.pick([0, 3_600, 90 * 86_400, 90 * 86_400]);
  const recorder = new ConditionalRecorder({
    ...{ journal, clock, calendar, profile, usageKeptS, truth: context.truth, mosts: context.mosts },
    thresholds: context.thresholds,
    random: new SeededRandom(context.seed + 2 ** 44),
  });
  world.table.watchTogether((changes) => recorder.changed(changes));
  // All clocks of a world listen to the store, or none does: who listens takes those that do not for broken.
  const listens = random.chance(0.5);
  // Some do not listen at first, and are taken for broken.
  const wrong = listens && random.chance(0.4) ? new Set<CorrectedClock>() : undefined;
  // And of how answers come: late after all, or not at all; within the time of a call, or whenever.
  const answerRandom = new SeededRandom(context.seed + 2 ** 43);
  const answersLate = answerRandom.chance(0.5);
  const timeoutMs = answerRandom.chance(0.25) ? answerRandom.pick([200, 1_000, 5_000]) : undefined;
  const crowds = new Set<() => void>();
  const site: Site = { world, recorder, context, listens, wrong, usageKeptS, answersLate, timeoutMs, crowds };
  const whole = openConditional(world, { clock, random: () => random.next() });
  const spoilItems = mutant?.layer === "items" ? mutant.spoil : (items: ItemStore) => items;
  return {
    whole,
    together: [1, 1, 1, 2, 4],
    underWay: 0,
    get disturbances() {
      return recorder.disturbances;
    },
    usage: recorder.usage,
    lastProblems: () => recorder.lateProblems(),
    marking: "beside the take",
    shards: (bucketId) =>
      world.table.entries("default").filter(([key]) => key.bucket.id === bucketId && isShardKey(key)).length,
    setup: connectorTo(site, (items) => items),
    connector: () => connectorTo(site, spoilItems),
    happenings: (drawn) => [
      [
        2.5,
        "sweep",
        () => {
          const removed = world.table.sweep(drawn().pick([0.3, 1]));
          if (removed > 0) journal.note(`${removed} items that had expired are removed`);
        },
      ],
      [1, "close", () => closeSome(site, drawn().fork())],
      [profile.bucketsMax === undefined || crowds.size === 0 ? 0 : 4, "crowd", () => drawn().pick([...crowds])()],
      [
        wrong !== undefined && wrong.size > 0 ? 1 : 0,
        "correct",
        () => {
          const clock = drawn().pick([...(wrong ?? [])]);
          clock.correct(world.table.dateMs());
          wrong?.delete(clock);
          journal.note("a clock that was wrong hears of the store's time");
          journal.count("clocks that were corrected");
        },
      ],
    ],
  };
}

/** A sweep closes hours, on a line that fails; it may be killed after any of its calls. */
function closeSome({ world, context, usageKeptS }: Site, random: SeededRandom): void {
  const { clock, journal } = context;
  const shards = world.table.entries("default").flatMap(([key]) => (isShardKey(key) ? [key] : []));
  if (shards.length === 0) return;
  let left = random.pick([1, 2, 3, 100]);
  const store = openConditional(world, {
    clock,
    random: () => random.next(),
    usageKeptS: () => usageKeptS,
    line: { random: random.fork(), rates: { write: 0.1, read: 0.05 } },
    through: (line) =>
      overriding<ItemStore>(line, {
        write: (write, call) => {
          if (left-- <= 0) line.crash();
          return line.write(write, call);
        },
      }),
  });
  journal.count("sweeps that close hours");
  const closing = { nowMs: clock.now(), afterHours: random.pick([0, 0, 2]) };
  const done = store.bucketsOf("default").closeHours(random.pick([shards.slice(0, 1), shards.slice(0, 100)]), closing);
  done.then(
    (answers) => journal.note(`a sweep closes hours: ${answers.map(({ kind }) => kind).join(" ")}`),
    (error: unknown) => journal.note(`a sweep is cut off: ${error}`),
  );
}

interface Site {
  readonly world: ConditionalWorld;
  readonly recorder: ConditionalRecorder;
  readonly context: GroundContext;
  readonly listens: boolean;
  /** Clocks that have not heard of the store's time; undefined: there are none in this world. */
  readonly wrong: Set<CorrectedClock> | undefined;
  readonly usageKeptS: number;
  /** Whether the answer to what lands late comes after all. */
  readonly answersLate: boolean;
  /** How long calls may take; undefined: as long as they take. */
  readonly timeoutMs: number | undefined;
  /** Of each process: many others come to it, so that it forgets what it knew of all buckets that nobody writes to. */
  readonly crowds: Set<() => void>;
}

function connectorTo(site: Site, spoil: (items: ItemStore) => ItemStore): Connector {
  return {
    draw: (random) => ({ direct: random.chance(0.2), split: false, hidden: true }),
    connect: (id, manner, around, onFault) => connected(site, spoil, { id, manner, around, onFault }),
  };
}

interface Connecting {
  readonly id: string;
  readonly manner: Manner;
  readonly around: Surroundings;
  readonly onFault: (told: string) => void;
}

function connected(
  { world, recorder, context, listens, wrong, usageKeptS, answersLate, timeoutMs, crowds }: Site,
  spoil: (items: ItemStore) => ItemStore,
  { id, manner: { direct }, around, onFault }: Connecting,
): Connection {
  const { random, profile, scheduler, clock: trueClock } = around;
  const { journal, truth } = context;
  const isWrong = wrong !== undefined && random.chance(0.4);
  const corrected = listens ? new CorrectedClock(trueClock, random, isWrong) : undefined;
  if (isWrong && corrected !== undefined) wrong.add(corrected);
  const clock = corrected ?? new ClientClock(trueClock, profile, random);
  // Whoever opens a store hears from it before anything else.
  corrected?.observe({ dateMs: world.table.dateMs(), sent: corrected.stamp() });
  const rate = direct ? 0 : profile.faultRate;
  const rates: Partial<Record<LineCall, number>> = {
    write: rate,
    // There are few of them, and most is at stake.
    transact: Math.min(0.5, 2 * rate),
    read: rate / 2,
  };
  const configRates: Partial<Record<FaultedCall, number>> = {
    ...{ resolve: rate / 2, change: rate / 2, look: 0 },
    ...{ lease: rate / 2, key: rate / 2 },
  };
  const options = {
    coalesce: random.chance(0.7),
    exact: random.chance(profile.modest ? 0.1 : 0.5),
    denyMemoryMs: random.pick([0, 0, 1_000]),
  };
  const announces = random.chance(0.5);
  const isStale = random.chance(0.5);
  const readings = new ConfigReadings();
  let faults = 0;
  const own = random.fork();
  const resolved = (entityId: string, resource: string, found: LevelConfig) => {
    for (const problem of resolvedProblems(truth.stages(entityId, resource), found)) {
      journal.violation(`${entityId}/${resource} ${problem}`);
    }
  };
  const label = (before: string, call: string) => `${before} ${call}`;
  const store = openConditional(world, {
    ...options,
    clock,
    random: () => own.next(),
    readings,
    usageKeptS: () => usageKeptS,
    bucketsMax: profile.bucketsMax === undefined ? 20_000 : BUCKETS_MAX,
    ...(corrected === undefined
      ? {}
      : {
          serverTime: { latestMs: () => corrected.latestServerMs(), isKnown: () => corrected.isTimeKnown },
        }),
    line: {
      random: random.fork(),
      rates,
      conflicts: rate === 0 ? 0 : 0.1,
      answersLate,
      ...(timeoutMs === undefined ? {} : { sleep: (ms, signal) => trueClock.sleep(ms, signal) }),
      onFault: (call, fault) => journal.count(`faults of a ${call}, ${fault}`),
      ...(corrected === undefined ? {} : { stamp: () => corrected.stamp(), onDate: (seen) => corrected.observe(seen) }),
      ...(direct
        ? {}
        : {
            // What is on the wire lands whatever becomes of its sender.
            pause: (call, before) =>
              scheduler.pause(
                before === "landing late" ? "wire" : (currentOperation()?.name ?? id),
                label(before, call),
              ),
          }),
    },
    through: (line) =>
      watchedItems(spoil(line), {
        journal,
        onFault: (told) => {
          faults++;
          onFault(told);
        },
        onSent: (write) => recorder.sent(write),
        onLost: (write) => recorder.lost(write),
        onLate: (write, isApplied) => recorder.heardLate(write, isApplied),
      }),
    // Where it is stored, not where its caller is answered: buckets are told of it in between, and that may fail.
    watched: (stored) => watchedConfig(stored, { truth, after: heard, resolved, deleted: () => {} }),
  });
  const errorMaxMs = () => corrected?.errorMaxMs ?? profile.skewMs + driftMs(trueClock.now() - profile.startMs);
  const isTimeKnown = () => corrected?.isTimeKnown ?? true;
  const latestServerMs = () => corrected?.latestServerMs() ?? Number.POSITIVE_INFINITY;
  let isAlive = true;
  let die = () => {};
  const gone = new Promise<void>((resolve) => {
    die = resolve;
  });
  const process = {
    ...{
      id,
      clock,
      exact: options.exact,
      denyMs: options.denyMemoryMs,
      errorMaxMs,
      isTimeKnown,
      latestServerMs,
      direct,
      gone,
    },
    isTimely: timeoutMs !== undefined && !direct,
    buckets: store.scope("default").buckets,
    isAlive: () => isAlive,
    faults: () => faults,
    outwaited: (call: string) => onFault(`${call} outwaited`),
  };
  const configRandom = random.fork();
  const recorded = overriding<Store>(store, {
    scope: (namespaceId) => {
      const scope = store.scope(namespaceId);
      const seen = seenConfig(scope.config, {
        world,
        truth,
        random: configRandom,
        nowMs: () => trueClock.now(),
        staleMs: isStale ? STALE_MS : 0,
        mustBeConsistent: (bucketId) => readings.mustBeConsistent(bucketId),
        announceBy: announces ? store.lineTo(namespaceId) : undefined,
        journal,
      });
      return { ...scope, config: seen, buckets: recorder.watched(scope.buckets, process) };
    },
  });
  // Calls about buckets have their faults and their turns at the items, one by one.
  const line = new FaultStore(recorded, {
    random: random.fork(),
    rates: configRates,
    generationHidden: true,
    onFault: (call, fault) => onFault(`${call} ${fault}`),
    ...(direct
      ? {}
      : {
          pause: (call, before) =>
            call === "resolve" || call === "change"
              ? scheduler.pause(currentOperation()?.name ?? id, label(before, call))
              : Promise.resolve(),
        }),
  });
  store.bucketsOf("default").onFault((fault) => recorder.gaveUp(id, fault));
  const crowd = () => {
    journal.note(`many others come to ${id}`);
    journal.count("crowds");
    Promise.resolve(store.bucketsOf("default").read(OTHERS)).catch(() => {});
  };
  crowds.add(crowd);
  return {
    store: line,
    clock,
    timeoutMs: timeoutMs ?? LONG_MS,
    configAgeMs: STALE_MS + 1,
    protocol: store.bucketsOf("default"),
    crash: () => {
      store.lineTo("default").crash();
      line.crash();
      isAlive = false;
      crowds.delete(crowd);
      die();
    },
    calm: () => {
      for (const call of Object.keys(rates)) rates[call as LineCall] = 0;
      for (const call of Object.keys(configRates)) configRates[call as FaultedCall] = 0;
    },
  };
}

/** What a clock of 200 ppm is off after that time. */
function driftMs(ms: number): number {
  return Math.ceil(ms * 0.0002) + 1;
}
