import { systemDigest } from "../../src/adapters/system/random.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { OnUnavailable } from "../../src/domain/config/config.ts";
import type { LimitedBucket } from "../../src/domain/limits/limit-set.ts";
import { Limiter } from "../../src/engine/limiter/limiter.ts";
import type { EngineDeps } from "../../src/engine/limiter/settings.ts";
import type {
  Answer,
  BucketStore,
  BucketsMaybeInPlace,
  CallContext,
  Claim,
  Held,
  TakeReply,
  WriteReply,
} from "../../src/ports/bucket-store.ts";
import type { Channel, Events, RefusedEvent, ThresholdEvent } from "../../src/ports/events.ts";
import type { Store } from "../../src/ports/store.ts";
import type { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { NO_TURNS, type SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { calendar } from "./calendar.ts";
import type { Connection, Connector, MachineClock } from "./connection.ts";
import type { EventLedger } from "./event-ledger.ts";
import type { Journal } from "./journal.ts";
import type { MostLedger } from "./most-ledger.ts";
import { currentOperation, type Operation } from "./operation.ts";
import { heard, overriding } from "./port.ts";
import type { Profile } from "./profile.ts";
import type { Scheduler } from "./scheduler.ts";
import type { ThresholdLedger } from "./threshold-ledger.ts";
import type { Readings, Truth } from "./truth.ts";

export interface Surroundings {
  readonly random: SeededRandom;
  readonly profile: Profile;
  readonly clock: SimulatedClock;
  readonly scheduler: Scheduler;
  readonly journal: Journal;
  readonly truth: Truth;
  readonly mosts: MostLedger;
  readonly thresholds: ThresholdLedger;
  readonly events: EventLedger;
  /** By how much clocks may differ by now. */
  errorMs(): number;
  /** Changes whenever something happens that can make a client wait longer. */
  disturbances(): number;
}

/** One process: a limiter with its own clock, its own caches and its own bad line to the store that all share. */
export class Client {
  readonly id: string;
  readonly limiter: Limiter;
  readonly clock: MachineClock;
  /** Its calls are answered at once, without waiting for their turn. */
  readonly direct: boolean;
  /** What it does in an outage; undefined: what is stored. */
  readonly onUnavailable: OnUnavailable | undefined;
  /** Whether it can be asked synchronously. */
  readonly sync: boolean;
  /** Whether it cannot tell that configuration changed, and has to go by time. */
  readonly hidden: boolean;
  /** So long its engine may refuse from memory. */
  readonly denyMs: number;
  /** Of a store made of conditional writes. */
  readonly protocol: ProtocolBuckets | undefined;
  readonly live = new Set<Operation>();
  alive = true;
  #adjusted = 0;
  faults = 0;
  /** How many requests have begun to wait. */
  waits = 0;
  readonly #connection: Connection;
  /** The line as the engine sees it, deliberate bugs included. */
  readonly #seen: Store;
  readonly #around: Surroundings;
  readonly #configTtlMs: number;
  /** The longest that reading configuration took: what was read may be older than the answer by that. */
  #resolveMs = 0;

  constructor(id: string, connector: Connector, around: Surroundings, spoil: (store: Store) => Store) {
    const { random } = around;
    this.id = id;
    this.#around = around;
    const manner = connector.draw(random);
    this.direct = manner.direct;
    this.hidden = manner.hidden;
    this.onUnavailable = random.pick([undefined, "allow", "block"]);
    this.#configTtlMs = random.pick([0, 2_000, 60_000, 600_000]);
    this.#connection = connector.connect(id, manner, around, (told) => this.#met(told));
    this.clock = this.#connection.clock;
    this.protocol = this.#connection.protocol;
    this.#seen = spoil(this.#connection.store);
    const store = overriding(this.#seen, { scope: (namespaceId) => this.#watched(namespaceId) });
    const scope = store.scope("default");
    this.sync = scope.buckets.takeSync !== undefined;
    const world: EngineDeps = {
      digest: systemDigest,
      store,
      scope,
      clock: this.clock,
      calendar,
      random: random.fork(),
      events: {
        ...quietEvents,
        ...around.events.channels(),
        refused: { active: true, publish: (event) => this.#refused(event) },
        threshold: { active: true, publish: (event) => this.#told(event) },
        waitBegan: { active: true, publish: () => void this.waits++ },
      },
      turns: NO_TURNS,
      warnings: { once: () => false, done: () => {} },
    };
    this.denyMs = random.pick([0, 1_000, 1_000, 10_000]);
    this.limiter = new Limiter(
      world,
      {
        namespace: "default",
        namespaceId: () => "default",
        configTtlMs: this.#configTtlMs,
        denyMemoryMs: this.denyMs,
        timeoutMs: this.#connection.timeoutMs,
        onUnavailable: this.onUnavailable,
        unknownEntities: "allow",
        unnamedLimits: "allow",
        // Nobody asks for them, and what writes them sleeps by the clock that the simulation walks along.
        countRefusals: false,
        refusalLog: false,
        countCallers: false,
        bucketsMax: around.profile.bucketsMax ?? 10_000,
      },
      false,
    );
  }

  /** Who has crashed tells nobody. */
  #told(event: ThresholdEvent): void {
    if (this.alive) this.#around.thresholds.heard(event);
  }

  /** Whether both are limiters of one process. */
  isWith(other: Client): boolean {
    return this.#connection === other.#connection;
  }

  /** Whether its process has died by itself. */
  get isDead(): boolean {
    return this.#connection.isDead?.() ?? false;
  }

  /** How long a call of the engine may take. */
  get timeoutMs(): number {
    return this.#connection.timeoutMs;
  }

  /** The process dies: nothing it has begun goes on. */
  crash(): void {
    this.alive = false;
    this.#connection.crash();
    for (const operation of this.live) this.#around.scheduler.drop(operation.name);
    this.live.clear();
  }

  /** Where calls fail at all, each seventh adjustment meets an outage that outlasts all that is tried at once. */
  beginAdjusting(): void {
    if (this.#around.profile.faultRate > 0 && this.#adjusted++ % 7 === 0) this.#connection.refuseDebits?.();
  }

  /** From now on nothing goes wrong. */
  calm(): void {
    this.#connection.calm();
  }

  /** A refusal from memory says as of when, and that is no longer ago than it may be remembered. */
  #refused({ statuses, remembered }: RefusedEvent): void {
    if (!remembered) return;
    const { journal } = this.#around;
    journal.count("refusals from memory");
    const operation = currentOperation();
    // Its reading is older than the answer by the time in which it read configuration.
    const isReadingKnown = operation !== undefined && !operation.hasRead;
    if (operation !== undefined) operation.hasRead = false;
    const nowMs = this.clock.now();
    for (const { entityId, limit, asOfMs } of statuses) {
      const ageMs = nowMs - (asOfMs ?? Number.NEGATIVE_INFINITY);
      const isInTime = ageMs >= 0 && ageMs < this.denyMs;
      if (isInTime || (asOfMs !== undefined && !isReadingKnown)) continue;
      journal.violation(
        `${limit} of ${entityId} refuses as it was ${ageMs} ms ago, and is remembered for ${this.denyMs}`,
      );
    }
  }

  #met(fault: string): void {
    this.faults++;
    const operation = currentOperation();
    if (operation !== undefined) operation.faults++;
    this.#around.journal.note(`${this.id} fault: ${fault}`);
    this.#around.journal.count(`faults ${fault.slice(fault.indexOf(" ") + 1)}`);
  }

  #watched(namespaceId: string) {
    const scope = this.#seen.scope(namespaceId);
    const { config } = scope;
    const buckets: BucketsMaybeInPlace = scope.buckets;
    const takeSync: BucketStore["takeSync"] = buckets.takeSync?.bind(buckets);
    const takeOne = buckets.takeOne?.bind(buckets);
    return {
      ...scope,
      buckets: overriding(buckets, {
        take: (claims, context) => {
          this.#planned(claims, context);
          return heard(buckets.take(claims, context), (reply) => this.#answered(claims, reply));
        },
        ...(takeSync === undefined
          ? {}
          : {
              takeSync: (claims: readonly Claim[], context: Parameters<typeof takeSync>[1]) => {
                this.#planned(claims, context);
                const reply = takeSync(claims, context);
                if (reply !== "stale") ticketed(claims, reply);
                return reply;
              },
            }),
        ...(takeOne === undefined
          ? {}
          : {
              takeOne: (of: LimitedBucket, take: readonly Amount[], nowMs: number, generation: number | undefined) => {
                const answer = takeOne(of, take, nowMs, generation);
                // Otherwise it is asked once more, the long way.
                if (answer === undefined) return undefined;
                const claim = { ...of, take, bypass: false };
                this.#planned([claim], { nowMs, timeoutMs: 0 });
                ticketed([claim], [answer]);
                return answer;
              },
            }),
        debit: (held, amounts, context) => {
          sends(held, amounts, held.bypass);
          return heard(buckets.debit(held, amounts, context), (reply) => {
            if (reply.kind === "applied" && reply.ticket !== undefined)
              currentOperation()?.ticketed(held.bucket, amounts, reply.ticket);
            debited(held, reply);
          });
        },
        refund: (of, amounts, context) => {
          sends(of, amounts, false);
          return heard(buckets.refund(of, amounts, context), (reply) => written(of, reply));
        },
        credit: (held, ...rest) => heard(buckets.credit(held, ...rest), (reply) => written(held, reply)),
      }),
      config: overriding(config, {
        resolve: (...asked) => {
          const askedAtMs = this.#around.clock.now();
          const reply = config.resolve(...asked);
          if (!(reply instanceof Promise)) return reply;
          return reply.finally(() => {
            this.#resolveMs = Math.max(this.#resolveMs, this.#around.clock.now() - askedAtMs);
            // Others of this process may have waited for the same answer.
            for (const operation of this.live) operation.hasRead = true;
          });
        },
      }),
    };
  }

  #answered(claims: readonly Claim[], reply: TakeReply): void {
    if (reply === "stale") return;
    const operation = currentOperation();
    ticketed(claims, reply);
    if (operation !== undefined) {
      operation.short = claims.filter((_, i) => reply[i]?.kind === "short");
      operation.sights = reply.map((answer, i) => ({
        limits: "state" in answer ? answer.state.limits.map(({ limit }) => limit) : [],
        take: claims[i]?.take ?? [],
        bypass: claims[i]?.bypass ?? false,
      }));
    }
    for (const [i, { kind }] of reply.entries()) {
      if (kind === "unavailable") currentOperation()?.uncertain.add((claims[i] as Claim).bucket.id);
    }
    const { journal } = this.#around;
    if (reply.every(({ kind }) => kind === "taken")) return;
    for (const [i, { kind }] of reply.entries()) {
      const { take, set } = claims[i] as Claim;
      if (claims.length > 1 && take.every(({ milli }) => milli === 0))
        journal.count("levels asked for nothing, refused");
      const isSession = set.limits.some(({ resetAfterMs }) => resetAfterMs !== undefined);
      if (kind !== "short" && isSession) journal.count("sessions below what refuses");
    }
  }

  /**
   * Since when what was configured may be what it says of a switch: one that cannot see changes may go by anything that ever was, one
   * that hears of them with answers of its store by what it may remember, any other by what is stored.
   */
  get switchedSinceMs(): number {
    if (this.hidden) return Number.NEGATIVE_INFINITY;
    const hearsLater = this.#seen.scope("default").config.askGeneration !== undefined;
    return hearsLater ? this.#rememberedSinceMs(this.clock.now()) : this.#around.clock.now();
  }

  /** What its clock may have shown to an operation, and to others of its process meanwhile. */
  readingsOf({ beganShownMs }: Operation): Readings {
    return { fromMs: beganShownMs - this.clock.steppedBackMs, toMs: this.#latestMs };
  }

  /** The latest that its clock has ever shown. */
  get #latestMs(): number {
    return this.clock.now() + this.clock.steppedBackMs;
  }

  /** Since when what was configured may be what it charges or gives back by, without a lease. */
  correctedSinceMs({ beganMs, beganShownMs }: Operation): number {
    const { config } = this.#seen.scope("default");
    const isHeardLater = this.hidden || config.askGeneration !== undefined;
    return isHeardLater ? Math.min(beganMs, this.#rememberedSinceMs(beganShownMs)) : beganMs;
  }

  #rememberedSinceMs(nowMs: number): number {
    const agesMs = Math.ceil(this.#configTtlMs * 1.001) + this.#resolveMs + this.#connection.configAgeMs;
    return this.clock.trueMs(nowMs) - agesMs - this.clock.steppedBackMs - 1;
  }

  // A client that cannot see that configuration changed may go by what it was, for as long as it may be remembered.
  #planned(claims: readonly Claim[], { nowMs }: CallContext): void {
    const operation = currentOperation();
    if (operation?.request === undefined || operation.underLease) return;
    operation.claims = claims;
    operation.short = [];
    operation.asked++;
    operation.readingMs = nowMs;
    operation.plannedAfter = this.#around.truth.changes;
    operation.hasRead = false;
    if (!this.hidden) return;
    const readings = { fromMs: nowMs, toMs: this.#latestMs };
    if (this.#around.truth.explains(operation.request, claims, this.#rememberedSinceMs(nowMs), readings)) return;
    const levels = claims.map(({ bucket, set }) => `${bucket.entityId} ${set.signature}`);
    this.#around.journal.violation(`${operation.name} goes by configuration that is out of date: ${levels.join(", ")}`);
  }
}

function ticketed(claims: readonly Claim[], reply: readonly Answer[]): void {
  const operation = currentOperation();
  for (const [i, answer] of reply.entries()) {
    const { bucket, take } = claims[i] as Claim;
    if (answer.kind === "taken") operation?.ticketed(bucket, take, answer.ticket);
  }
}

/** One that was certainly not stored is stored when the lease is settled; only then is it too late. */
function debited(held: Held, reply: WriteReply): void {
  const isPending = reply.kind === "unavailable" && reply.applied === "no";
  if (!isPending || currentOperation()?.isClosing) written(held, reply);
}

function sends({ bucket, set }: LimitedBucket, amounts: readonly Amount[], bypass: boolean): void {
  currentOperation()?.sent.push({ bucket, limits: set.limits, amounts, bypass });
}

function written({ bucket }: LimitedBucket, reply: WriteReply): void {
  if (reply.kind === "unavailable") currentOperation()?.uncertain.add(bucket.id);
}

const quiet: Channel<unknown> = { active: true, publish: () => {} };
const quietEvents: Events = {
  acquired: quiet,
  refused: quiet,
  gaveBack: quiet,
  charged: quiet,
  threshold: quiet,
  unavailable: quiet,
  degraded: quiet,
  limitsChanged: quiet,
  acquireEnded: quiet,
  disabled: quiet,
  waitBegan: quiet,
  waitEnded: quiet,
  leaseOpened: quiet,
  leaseEnded: quiet,
};
