import { bucketKey } from "../../src/domain/bucket-key.ts";
import { ResourceDisabled, ValidationError } from "../../src/domain/errors.ts";
import type { Limit } from "../../src/domain/limit.ts";
import type { AcquireRequest } from "../../src/engine/request.ts";
import type { Store } from "../../src/ports/store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { checkBelief, isExpected } from "./checks.ts";
import { Client, type Surroundings } from "./client.ts";
import type { Ground } from "./ground.ts";
import { Journal } from "./journal.ts";
import type { Mutant } from "./mutants.ts";
import { Operation, runAs } from "./operation.ts";
import { drawLimits, drawPassingMs, drawProfile, ZONES } from "./profile.ts";
import { resizeShards } from "./resizing.ts";
import type { Scene, Story } from "./scene.ts";
import { Scheduler } from "./scheduler.ts";
import type { Opened } from "./stores.ts";
import * as stories from "./stories.ts";
import { Truth } from "./truth.ts";

export interface SeedReport {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly lastSteps: readonly string[];
  /** How often what happened. */
  readonly tally: Readonly<Record<string, number>>;
}

export interface SimulationOptions {
  /** Opens a new, empty store. */
  readonly open: () => Opened;
  readonly verbose: boolean;
  /** A deliberate bug, to see whether it is found. */
  readonly mutant?: Mutant;
}

const LIVE_MAX = 6;
const ALONE_TURNS = 100;

/** Together with clocks that are off, below the hour that stores keep buckets for that are full. */
const READING_AGE_MAX_MS = 600_000;

/** Plays one seed from beginning to end. Any seed plays the same way again. */
export async function simulate(seed: number, options: SimulationOptions): Promise<SeedReport> {
  const opened = options.open();
  try {
    return await new Simulation(seed, opened, options).run();
  } finally {
    await opened.close();
  }
}

class Simulation {
  readonly #seed: number;
  readonly #random: SeededRandom;
  readonly #around: Surroundings;
  readonly #ground: Ground;
  readonly #spoilClient: (store: Store) => Store;
  readonly #clients: Client[] = [];
  readonly #aborts = new Map<Operation, AbortController>();
  #names = 0;
  /** How much time has passed since nobody was under way. */
  #uncaughtMs = 0;

  constructor(seed: number, opened: Opened, { verbose, mutant }: SimulationOptions) {
    this.#seed = seed;
    this.#random = new SeededRandom(seed);
    const journal = new Journal(verbose);
    const drawn = drawProfile(this.#random);
    const profile = opened.oneZone ? { ...drawn, zone: ZONES[seed % ZONES.length] } : drawn;
    const clock = new SimulatedClock(profile.startMs);
    const truth = new Truth(() => clock.now());
    this.#ground = opened.ground({ seed, journal, truth, clock, profile, mutant });
    this.#spoilClient = mutant?.layer === "client" ? mutant.spoil : SOUND;
    this.#around = {
      random: this.#random,
      profile,
      clock,
      scheduler: new Scheduler(this.#random),
      journal,
      truth,
      disturbances: () => this.#ground.disturbances + truth.changes,
      shards: (bucketId) => this.#ground.shards(bucketId),
    };
  }

  async run(): Promise<SeedReport> {
    const { journal, profile } = this.#around;
    journal.note(JSON.stringify(profile));
    const unhandled = (error: unknown) => journal.violation(`unhandled rejection: ${shownError(error)}`);
    process.on("unhandledRejection", unhandled);
    try {
      await this.#furnish();
      for (let step = 0; step < profile.steps && this.#sound; step++) {
        await this.#step();
        await this.#settled();
      }
      if (this.#sound) await this.#finish();
    } catch (error) {
      journal.violation(`the simulation itself failed: ${shownError(error)}`);
    } finally {
      process.off("unhandledRejection", unhandled);
    }
    return {
      seed: this.#seed,
      violations: journal.violations,
      lastSteps: journal.steps,
      tally: journal.tally,
    };
  }

  /** A tree of entities with limits at some of the levels. */
  async #furnish(): Promise<void> {
    const { profile, scheduler } = this.#around;
    for (let i = 0; i < profile.clients; i++) this.#newClient();
    scheduler.calm = true;
    const random = this.#random;
    const around = { ...this.#around, random: random.fork(), profile: { ...profile, faultRate: 0 } };
    const { limiter } = new Client("setup", this.#ground.setup, around, SOUND);
    for (const [id, parentId] of TREE) {
      await limiter.createEntity({ id, cascade: random.chance(0.8), ...(parentId === undefined ? {} : { parentId }) });
    }
    await limiter.setSystemDefaults(drawLimits(random, profile), {
      ...(random.chance(0.3) ? { onUnavailable: random.pick(["allow", "block"]) } : {}),
    });
    if (random.chance(0.5)) await limiter.setResourceDefaults("api", drawLimits(random, profile));
    for (const id of ["org", "key-1"]) if (random.chance(0.5)) await limiter.setLimits(id, drawLimits(random, profile));
    scheduler.calm = false;
  }

  async #step(): Promise<void> {
    const { scheduler, clock, journal, profile } = this.#around;
    const random = this.#random;
    const live = this.#clients.flatMap((client) => [...client.live]);
    const act = random.weighted<() => void | Promise<void>>([
      [live.length < LIVE_MAX ? 5 : 0, () => this.#start(random.pick(this.#clients), this.#drawStory())],
      [
        scheduler.waiting > 0 ? 12 : 0,
        () => journal.note(`go on: ${scheduler.open(random.pick(this.#ground.together))}`),
      ],
      [3, () => this.#pass(drawPassingMs(random, profile))],
      [clock.nextWakeMs === undefined ? 0 : 2, () => this.#pass(Math.max(0, (clock.nextWakeMs ?? 0) - clock.now()))],
      [profile.jumps ? 0.5 : 0, () => this.#jump(random.pick(this.#clients))],
      [this.#aborts.size > 0 ? 0.5 : 0, () => this.#abort(random.pick([...this.#aborts.keys()]))],
      [profile.crashes ? 0.12 : 0, () => this.#crash(random.pick(this.#clients))],
      [1.2, () => this.#alone(random.pick(this.#clients))],
      ...this.#ground.happenings(random),
    ]);
    await act();
  }

  #drawStory(): [string, Story] {
    const { changeWeight, policyWeight, operatorWeight } = this.#around.profile;
    return this.#random.weighted<[string, Story]>([
      [6, ["hold", stories.holdLease]],
      [4, ["body", stories.holdLeaseInBody]],
      [1, ["sync", stories.holdLeaseSync]],
      [2, ["greedy", stories.takeAllThereIs]],
      [1, ["look", stories.look]],
      [changeWeight, ["limits", stories.changeLimits]],
      [changeWeight, ["entities", stories.changeEntities]],
      [policyWeight, ["policies", stories.changePolicies]],
      [operatorWeight, ["operator", stories.operate]],
      [this.#clients.some(({ protocol }) => protocol !== undefined) ? 2 : 0, ["resize", resizeShards]],
    ]);
  }

  #start(client: Client, [name, story]: [string, Story]): Operation {
    const operation = new Operation(`${client.id}.${++this.#names}-${name}`, client.id);
    operation.beganMs = this.#around.clock.now();
    const abort = this.#random.chance(0.2) ? new AbortController() : undefined;
    const scene: Scene = {
      client,
      operation,
      random: this.#random.fork(),
      around: this.#around,
      signal: abort?.signal,
    };
    if (abort !== undefined) this.#aborts.set(operation, abort);
    client.live.add(operation);
    this.#around.journal.note(`${operation.name} begins`);
    this.#around.journal.count("operations");
    runAs(operation, () => story(scene))
      .catch((error: unknown) => {
        if (isExpected(scene, error))
          this.#around.journal.note(`${operation.name}: ${shownError(error).slice(0, 120)}`);
        else this.#around.journal.violation(`${operation.name} was rejected with ${shownError(error)}`);
      })
      .finally(() => {
        client.live.delete(operation);
        this.#aborts.delete(operation);
        this.#around.journal.note(`${operation.name} ends`);
      });
    return operation;
  }

  /** One operation has the world for itself, until it is done. */
  async #alone(client: Client): Promise<void> {
    const { scheduler, clock } = this.#around;
    const story: [string, Story] = this.#random.pick([
      ["again", stories.askAgain],
      ["back", stories.giveBackAndAsk],
    ]);
    await this.#catchUp();
    const operation = this.#start(client, story);
    for (let turns = 0; client.live.has(operation) && turns < ALONE_TURNS; turns++) {
      await this.#settled();
      if (scheduler.openOf(operation.name)) continue;
      // What this client sends to one bucket leaves one after the other: somebody who woke meanwhile may stand before it.
      if (client.protocol !== undefined && client.live.has(operation) && scheduler.openDated()) continue;
      if (client.live.has(operation)) await this.#pass(Math.max(0, (clock.nextWakeMs ?? 0) - clock.now()));
    }
  }

  async #pass(ms: number): Promise<void> {
    const { clock, journal } = this.#around;
    journal.note(`${ms} ms pass`);
    const untilMs = clock.now() + ms;
    // Also moments add up.
    this.#uncaughtMs += ms;
    if (this.#uncaughtMs > READING_AGE_MAX_MS) await this.#catchUp();
    while (ms > READING_AGE_MAX_MS && (clock.nextWakeMs ?? Infinity) < untilMs) {
      await this.#catchUp();
      await clock.advance(Math.max(0, (clock.nextWakeMs ?? untilMs) - clock.now()));
    }
    if (ms > READING_AGE_MAX_MS) await this.#catchUp();
    await clock.advance(Math.max(0, untilMs - clock.now()));
  }

  /** Nobody is under way with a reading that grows old: calls have a timeout, of which stores may rely on a bound. */
  async #catchUp(): Promise<void> {
    this.#uncaughtMs = 0;
    for (let turns = 0; turns < 500 && this.#around.scheduler.openDated(); turns++) await this.#settled();
  }

  #jump(client: Client): void {
    this.#around.journal.note(`the clock of ${client.id} jumps by ${client.clock.jump(this.#random)} ms`);
  }

  #abort(operation: Operation): void {
    this.#around.journal.note(`${operation.name} is aborted`);
    this.#around.journal.count("aborts");
    this.#aborts.get(operation)?.abort(new Error("aborted"));
    this.#aborts.delete(operation);
  }

  #crash(client: Client): void {
    this.#around.journal.note(`${client.id} crashes`);
    this.#around.journal.count("crashes");
    for (const operation of client.live) this.#aborts.delete(operation);
    client.crash();
    this.#clients.splice(this.#clients.indexOf(client), 1);
    this.#newClient();
  }

  #newClient(): void {
    const id = `c${++this.#names}`;
    this.#clients.push(new Client(id, this.#ground.connector(this.#random), this.#around, this.#spoilClient));
  }

  /** Everything runs that can run; then what clients believe is compared with what is true. */
  async #settled(): Promise<void> {
    do await new Promise((resolve) => setImmediate(resolve));
    while (this.#ground.underWay > 0);
    for (const client of this.#clients) {
      for (const operation of client.live) {
        const wrong = checkBelief(operation);
        if (wrong !== undefined) this.#around.journal.violation(wrong);
      }
    }
  }

  /** Lets everybody finish, then asks the last questions. */
  async #finish(): Promise<void> {
    const { scheduler, clock, journal } = this.#around;
    for (let turns = 0; this.#clients.some(({ live }) => live.size > 0) && this.#sound; turns++) {
      if (turns > 5_000)
        return journal.violation(
          `never ends: ${this.#clients.flatMap(({ live }) => [...live].map(({ name }) => name))}`,
        );
      if (scheduler.waiting > 0) journal.note(`go on: ${scheduler.open(1)}`);
      else await this.#pass(Math.max(0, (clock.nextWakeMs ?? 0) - clock.now()));
      await this.#settled();
    }
    if (!this.#sound) return;
    await this.#checkUsage();
    await this.#checkArrival();
  }

  /** When everybody has had time to hear of it, what is configured is what every bucket goes by. */
  async #checkArrival(): Promise<void> {
    const { scheduler, profile, truth, journal } = this.#around;
    scheduler.calm = true;
    for (const client of this.#clients) client.calm();
    // Longer than anything is remembered, by the clock that is most behind.
    await this.#pass(601_000 + 2 * profile.skewMs);
    for (const entityId of stories.ENTITIES) {
      for (const resource of profile.resources) {
        const { limits } = truth.level(entityId, resource);
        if (limits.length === 0 || truth.isDisabled(entityId, resource)) continue;
        const stored = await this.#arrival(entityId, resource, limits);
        if (stored === undefined) continue;
        journal.violation(`${entityId}/${resource} never hears of its limits: ${JSON.stringify(stored)}`);
      }
    }
  }

  /**
   * Everybody asks once; the limits that the bucket goes by then, where they are not what they should be. A bucket that is
   * split hears of them shard by shard, so it is asked some more.
   */
  async #arrival(entityId: string, resource: string, limits: readonly Limit[]): Promise<readonly Limit[] | undefined> {
    let stored: readonly Limit[] | undefined;
    for (let passes = 0; passes < 4; passes++) {
      // Where each level is asked by itself, one below a level that refuses need not be asked.
      let isAsked = false;
      for (const client of this.#clients) {
        const request = { entityId, resource, consume: { [limits[0]!.name]: 0 } };
        const isGranted = await this.#arrived(client, request);
        isAsked ||= isGranted || client.protocol === undefined;
        // A table has a ceiling of writes a second.
        await this.#around.clock.advance(client.protocol === undefined ? 1 : 1_000);
      }
      if (!isAsked) return undefined;
      stored = await this.#configured(entityId, resource);
      if (stored === undefined || JSON.stringify(stored) === JSON.stringify(limits)) return undefined;
      if (this.#clients.every(({ protocol }) => protocol === undefined)) return stored;
    }
    return stored;
  }

  /** The limits that a bucket goes by. */
  async #configured(entityId: string, resource: string): Promise<readonly Limit[] | undefined> {
    const [state] = await this.#ground.whole.scope("default").buckets.read([bucketKey(entityId, resource)]);
    return state?.limits.filter(({ configured }) => configured).map(({ limit }) => limit);
  }

  async #arrived(client: Client, request: AcquireRequest): Promise<boolean> {
    try {
      const operation = new Operation(`${client.id}.arrival`, client.id);
      operation.request = request;
      const asked = runAs(operation, () => client.limiter.tryAcquire(request));
      return (await (client.protocol === undefined ? asked : this.#waited(asked))).ok;
    } catch (error) {
      if (!(error instanceof ValidationError || error instanceof ResourceDisabled)) throw error;
      this.#around.journal.violation(`${client.id} never hears of its limits: ${error.message}`);
      return false;
    }
  }

  /** Time passes for whoever has to wait a moment before he sends a write again. */
  async #waited<Value>(work: Promise<Value>): Promise<Value> {
    const { clock } = this.#around;
    let isDone = false;
    const done = work.finally(() => {
      isDone = true;
    });
    done.catch(() => {});
    for (await this.#settled(); !isDone; await this.#settled()) {
      await clock.advance(Math.max(1, (clock.nextWakeMs ?? 0) - clock.now()));
    }
    return done;
  }

  async #checkUsage(): Promise<void> {
    const ledger = this.#ground.usage;
    if (ledger === undefined) return;
    const { usage } = this.#ground.whole.scope("default");
    const query = { window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
    const { items } = await usage.query(query, { limit: 10_000 });
    for (const problem of ledger.problems(items)) this.#around.journal.violation(problem);
  }

  get #sound(): boolean {
    return this.#around.journal.violations.length === 0;
  }
}

const SOUND = (store: Store): Store => store;

const TREE: readonly (readonly [string, string | undefined])[] = [
  ["org", undefined],
  ["team-1", "org"],
  ["team-2", "org"],
  ["key-1", "team-1"],
  ["key-2", "team-1"],
  ["key-3", "team-2"],
];

function shownError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
