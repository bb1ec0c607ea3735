import type { Store } from "../../src/ports/store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { Arrival } from "./arrival.ts";
import { calendar } from "./calendar.ts";
import { checkAbove, checkBelief, isExpected } from "./checks.ts";
import { Client, type Surroundings } from "./client.ts";
import { LONG_MS } from "./connection.ts";
import { withCorrections } from "./correction-profile.ts";
import { correct } from "./corrections.ts";
import { withEnds } from "./ends.ts";
import { EventLedger } from "./event-ledger.ts";
import type { Ground } from "./ground.ts";
import { Journal } from "./journal.ts";
import { changePlans, changeTotals, furnishLevels } from "./level-stories.ts";
import { MostLedger } from "./most-ledger.ts";
import type { Mutant } from "./mutants.ts";
import { oneProcess } from "./one-process.ts";
import { Operation, runAs } from "./operation.ts";
import {
  drawLimits,
  drawPassingMs,
  drawProfile,
  type Profile,
  STRANGER,
  type StoryName,
  withFloors,
  withParts,
  withThresholds,
  ZONES,
} from "./profile.ts";
import { waitAndGiveBack } from "./promptness.ts";
import { look, lookAfterChanges } from "./questions.ts";
import { withRepriced } from "./repriced-profile.ts";
import { resizeShards } from "./resizing.ts";
import type { Scene, Story } from "./scene.ts";
import { Scheduler } from "./scheduler.ts";
import { withShadows } from "./shadow-profile.ts";
import { withSlots } from "./slot-profile.ts";
import type { Opened } from "./stores.ts";
import * as stories from "./stories.ts";
import { ThresholdLedger } from "./threshold-ledger.ts";
import { Truth } from "./truth.ts";
import { ALWAYS, sumProblems } from "./usage-sums.ts";

export interface SeedReport {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly lastSteps: readonly string[];
  /** How often what happened. */
  readonly tally: Readonly<Record<string, number>>;
  /** What was drawn: the same again plays the same world. */
  readonly script?: Script;
}

/** A world as data: its character, and what happened in it, step by step. Some steps may be left out. */
export interface Script {
  readonly profile: Profile;
  readonly decisions: readonly Decision[];
}

/** One step: what was done, and the seed of everything that was drawn for it. */
export interface Decision {
  readonly act: string;
  readonly seed: number;
}

export interface SimulationOptions {
  /** Opens a new, empty store. */
  readonly open: () => Opened;
  readonly verbose: boolean;
  /** A deliberate bug, to see whether it is found. */
  readonly mutant?: Mutant;
  /** What happens, where that is not left to the seed. */
  readonly script?: Script;
}

const HOUR_MS = 3_600_000;

/** By how much clocks run fast or slow, at most. */
const DRIFT = 0.0002;

const LIVE_MAX = 6;
const ALONE_TURNS = 100;

/** Together with clocks that are off, below the hour that stores keep buckets for that are full. */
const READING_AGE_MAX_MS = 600_000;

/** Plays one seed from beginning to end. Any seed plays the same way again. */
export async function simulate(seed: number, options: SimulationOptions): Promise<SeedReport> {
  const opened = options.open();
  const mend = options.mutant?.layer === "code" ? options.mutant.spoil() : () => {};
  try {
    return await new Simulation(seed, opened, options).run();
  } finally {
    mend();
    await opened.close();
  }
}

class Simulation {
  readonly #seed: number;
  /** Of the step that is played: what one step draws does not depend on those before it. */
  #random: SeededRandom;
  readonly #decisions: Decision[] = [];
  readonly #script: Script | undefined;
  readonly #around: Surroundings;
  readonly #ground: Ground;
  readonly #spoilClient: (store: Store) => Store;
  readonly #clients: Client[] = [];
  readonly #aborts = new Map<Operation, AbortController>();
  #names = 0;
  /** How much time has passed since no operation was under way. */
  #uncaughtMs = 0;

  constructor(seed: number, opened: Opened, { verbose, mutant, script }: SimulationOptions) {
    this.#seed = seed;
    this.#script = script;
    this.#random = new SeededRandom(seed);
    const journal = new Journal(verbose);
    const zone = opened.oneZone ? ZONES[seed % ZONES.length] : undefined;
    const plain = script?.profile ?? withFloors(seed, withRepriced(seed, drawProfile(this.#random, zone)));
    const isDrawn = script === undefined;
    const slots = isDrawn && opened.holds === true ? withSlots(seed, plain) : plain;
    const told = isDrawn && opened.tells === true ? withThresholds(seed, slots) : slots;
    const shadowed = isDrawn && opened.shadows === true ? withShadows(seed, told) : told;
    const profile = isDrawn ? withCorrections(seed, withParts(seed, withEnds(seed, shadowed))) : shadowed;
    const clock = new SimulatedClock(profile.startMs);
    const truth = new Truth(() => clock.now(), opened.countsChanges ? "as made" : "by clocks");
    const mosts = new MostLedger(() => clock.now());
    const thresholds = new ThresholdLedger(journal, calendar);
    // Of clocks that are kept to a store's time, one may not have heard of it yet.
    const skewMs = profile.skewMs + (opened.correctsClocks ? HOUR_MS : 0);
    const errorMs = () => 2 * (skewMs + Math.ceil((clock.now() - profile.startMs) * DRIFT)) + 1;
    this.#ground = opened.ground({ seed, journal, truth, mosts, thresholds, clock, profile, mutant, errorMs });
    this.#spoilClient = mutant?.layer === "client" ? mutant.spoil : SOUND;
    const drawn = () => this.#random;
    this.#around = {
      get random() {
        return drawn();
      },
      profile,
      clock,
      scheduler: new Scheduler(drawn),
      journal,
      truth,
      mosts,
      thresholds,
      events: new EventLedger(),
      errorMs,
      disturbances: () => this.#ground.disturbances + truth.changes + truth.endsPassed(errorMs()),
    };
  }

  async run(): Promise<SeedReport> {
    const { journal, profile } = this.#around;
    journal.note(JSON.stringify(profile));
    const unhandled = (error: unknown) => journal.violation(`unhandled rejection: ${shownError(error)}`);
    process.on("unhandledRejection", unhandled);
    try {
      await this.#furnish();
      // What one step draws must not depend on the steps before it: some may be left out.
      const seeds = new SeededRandom(this.#seed);
      const { decisions } = this.#script ?? {};
      for (let step = 0; step < (decisions?.length ?? profile.steps) && this.#sound; step++) {
        const decision = decisions?.[step];
        this.#random = new SeededRandom(seeds.integer(0, 2 ** 48));
        await this.#step(decision);
        await this.#settled();
      }
      this.#random = seeds.fork();
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
      script: { profile, decisions: this.#decisions },
    };
  }

  /** A tree of entities with limits at some of the levels. */
  async #furnish(): Promise<void> {
    const { profile, scheduler } = this.#around;
    this.#random = new SeededRandom(this.#seed + 2 ** 41);
    for (let i = 0; i < profile.clients; i++) this.#newProcess();
    scheduler.calm = true;
    const random = this.#random;
    const around = { ...this.#around, random: random.fork(), profile: { ...profile, faultRate: 0 } };
    const { limiter } = new Client("setup", this.#ground.setup, around, SOUND);
    for (const id of profile.entities) {
      if (id === STRANGER) continue;
      const parentId = PARENTS[id]?.find((one) => profile.entities.includes(one));
      await limiter.createEntity({ id, cascade: random.chance(0.8), ...(parentId === undefined ? {} : { parentId }) });
    }
    await limiter.setSystemDefaults(drawLimits(random, profile), {
      ...(random.chance(0.3) ? { onUnavailable: random.pick(["allow", "block"]) } : {}),
    });
    if (random.chance(0.3)) await limiter.setResourceDefaults("api", drawLimits(random, profile));
    for (const id of profile.entities) {
      if (id !== STRANGER && (profile.everyLevel || random.chance(0.3)))
        await limiter.setLimits(id, profile.begins?.[id] ?? drawLimits(random, profile));
    }
    // Its own chance: the rest of the world is the same whether or not there are totals and plans.
    await furnishLevels(limiter, new SeededRandom(this.#seed + 2 ** 45), profile);
    scheduler.calm = false;
  }

  /** One thing happens: the next of the story, where that can happen now, or what the seed draws. */
  async #step(told: Decision | undefined): Promise<void> {
    const seed = told?.seed ?? this.#random.integer(0, 2 ** 48);
    const acts = this.#acts();
    const name = told?.act ?? this.#random.weighted(acts.map(([weight, act]) => [weight, act] as const));
    const act = acts.find(([weight, one]) => one === name && weight > 0)?.[2];
    this.#random = new SeededRandom(seed);
    this.#decisions.push({ act: name, seed });
    await act?.();
  }

  /** What may happen now, as often as its weight says. */
  #acts(): (readonly [weight: number, name: string, act: () => void | Promise<void>])[] {
    const { scheduler, clock, journal, profile } = this.#around;
    const { weights } = profile;
    const live = this.#clients.flatMap((client) => [...client.live]);
    const client = () => this.#random.pick(this.#clients);
    const began = live.length < LIVE_MAX ? 5 : 0;
    const all = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
    const isSplit = this.#clients.some(({ protocol }) => protocol !== undefined);
    const share = (name: StoryName) => (name === "resize" && !isSplit ? 0 : (6.2 * (weights[name] ?? 0)) / all);
    const alone = ALONE.map((name) => [share(name), name, () => this.#alone(client(), [name, STORIES[name]])] as const);
    const together = (Object.keys(STORIES) as StoryName[]).flatMap((name) =>
      (ALONE as readonly StoryName[]).includes(name)
        ? []
        : [[began * share(name), name, () => void this.#start(client(), [name, STORIES[name]])] as const],
    );
    return [
      ...together,
      ...alone,
      [
        scheduler.waiting > 0 ? 60 : 0,
        "go on",
        () => journal.note(`go on: ${scheduler.open(this.#random.pick(this.#ground.together))}`),
      ],
      [12, "pass", () => this.#pass(drawPassingMs(this.#random, profile))],
      [
        clock.nextWakeMs === undefined || clock.nextWakeMs - clock.now() > LONG_MS / 4 ? 0 : 8,
        "wake",
        () => this.#pass(Math.max(0, (clock.nextWakeMs ?? 0) - clock.now())),
      ],
      [this.#toEndMs === undefined ? 0 : 6, "end", () => this.#end(client())],
      [profile.jumps ? 2 : 0, "jump", () => this.#jump(client())],
      [this.#aborts.size > 0 ? 2 : 0, "abort", () => this.#abort(this.#random.pick([...this.#aborts.keys()]))],
      [profile.crashes ? 1 : 0, "crash", () => this.#crash(client())],
      ...this.#ground.happenings(() => this.#random),
    ];
  }

  #start(client: Client, [name, story]: [string, Story]): Operation {
    const operation = new Operation(`${client.id}.${++this.#names}-${name}`, client.id);
    operation.beganMs = this.#around.clock.now();
    operation.beganShownMs = client.clock.now();
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
        checkAbove(scene, error);
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
  async #alone(client: Client, story: [string, Story]): Promise<void> {
    const { scheduler, clock } = this.#around;
    await this.#catchUp();
    // Its process may have died meanwhile: nobody would be answered, and the years until it gives up would pass.
    if (!client.alive) return;
    const operation = this.#start(client, story);
    for (let turns = 0; client.live.has(operation) && turns < ALONE_TURNS; turns++) {
      await this.#settled();
      if (scheduler.openOf(operation.name)) continue;
      // What this client sends to one bucket leaves one after the other: a request that woke meanwhile may stand before it.
      if (client.protocol !== undefined && client.live.has(operation) && scheduler.openDated()) continue;
      if (client.live.has(operation)) await this.#pass(Math.max(0, (clock.nextWakeMs ?? 0) - clock.now()));
    }
  }

  async #pass(ms: number): Promise<void> {
    const { clock, journal, scheduler } = this.#around;
    journal.note(`${ms} ms pass`);
    const untilMs = clock.now() + ms;
    // Who wakes on the way reads his clock, and goes by that while time passes on: a while at a time.
    do {
      const isAnybody = scheduler.waiting > 0 || clock.nextWakeMs !== undefined;
      const stepMs = Math.min(untilMs - clock.now(), isAnybody ? READING_AGE_MAX_MS / 2 : ms);
      this.#uncaughtMs += stepMs;
      if (this.#uncaughtMs > READING_AGE_MAX_MS) await this.#catchUp();
      await clock.advance(stepMs);
    } while (clock.now() < untilMs);
  }

  /** No operation is under way with a reading that grows old: calls have a timeout, of which stores may rely on a bound. */
  async #catchUp(): Promise<void> {
    for (let turns = 0; turns < 500 && this.#around.scheduler.openDated(); turns++) await this.#settled();
    this.#uncaughtMs = 0;
  }

  /** Something ends, or is about to; and somebody asks. */
  async #end(client: Client): Promise<void> {
    await this.#pass((this.#toEndMs ?? 0) - this.#random.pick([0, 0, 1]));
    // Its process may have died while time passed.
    if (client.alive && client.live.size < LIVE_MAX) this.#start(client, ["hold", STORIES.hold]);
  }

  /** How long it is to the next end, where that is not too long. */
  get #toEndMs(): number | undefined {
    const { clock, profile, truth } = this.#around;
    const endMs = truth.nextEndMs(clock.now());
    return endMs === undefined || endMs - clock.now() > 8 * profile.momentMs ? undefined : endMs - clock.now();
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
    const together = this.#clients.filter((other) => other.isWith(client));
    // Another of its process may have died before it in the same moment.
    if (together.length === 0) return;
    for (const one of together) {
      for (const operation of one.live) this.#aborts.delete(operation);
      one.crash();
      this.#clients.splice(this.#clients.indexOf(one), 1);
    }
    this.#newProcess();
  }

  #newProcess(): void {
    const connector = oneProcess(this.#ground.connector(this.#random));
    for (let limiters = this.#around.profile.limiters ?? 1; limiters > 0; limiters--) {
      this.#clients.push(new Client(`c${++this.#names}`, connector, this.#around, this.#spoilClient));
    }
  }

  /** Everything runs that can run; then what clients believe is compared with what is true. */
  async #settled(): Promise<void> {
    do await new Promise((resolve) => setImmediate(resolve));
    while (this.#ground.underWay > 0);
    for (const client of this.#clients.filter(({ isDead }) => isDead)) this.#crash(client);
    for (const problem of this.#around.thresholds.problems("none")) this.#around.journal.violation(problem);
    for (const client of this.#clients) {
      for (const operation of client.live) {
        const wrong = checkBelief(operation);
        if (wrong !== undefined) this.#around.journal.violation(wrong);
      }
    }
  }

  /** Lets all operations finish, then asks the last questions. */
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
    this.#checkEvents();
    await this.#checkUsage();
    await new Arrival(this.#around, this.#ground, this.#clients, () => this.#settled()).check((ms) => this.#pass(ms));
    await this.#checkSums();
    for (const problem of this.#ground.lastProblems()) journal.violation(problem);
    // Who crashes may die between the mark and the telling; who meets faults may tell later than this world ends.
    // A mark that is written beside its take may be outrun: of what refills, what is used by then is told.
    const all = !this.#isCalm ? "none" : this.#ground.marking === "with the take" ? "everything" : "quotas";
    for (const problem of this.#around.thresholds.problems(all)) journal.violation(problem);
    await lookAfterChanges(this.#around, this.#clients, this.#seed);
  }

  /** Where nothing went wrong, what was published of tokens adds up to what was counted. */
  #checkEvents(): void {
    const { journal, events, profile } = this.#around;
    const { usage } = this.#ground;
    // Of slots that come back usage keeps what was used, and an event does not say what are slots.
    if (usage === undefined || !this.#isCalm || profile.slots !== undefined) return;
    journal.count("worlds whose events were added up");
    for (const problem of events.problems(usage)) journal.violation(problem);
  }

  /** Nobody crashed, and no call failed. */
  get #isCalm(): boolean {
    const { profile, journal } = this.#around;
    const hasDied = profile.crashes || (journal.tally.crashes ?? 0) > 0;
    return profile.faultRate === 0 && !hasDied && this.#clients.every(({ faults }) => faults === 0);
  }

  async #checkUsage(): Promise<void> {
    const ledger = this.#ground.usage;
    if (ledger === undefined) return;
    const { usage } = this.#ground.whole.scope("default");
    const { items } = await usage.query({ window: "hourly", ...ALWAYS }, { limit: 10_000 });
    for (const problem of ledger.problems(items)) this.#around.journal.violation(problem);
  }

  /** What clients show of usage adds up to what is stored. */
  async #checkSums(): Promise<void> {
    const { profile, journal } = this.#around;
    const [client] = this.#clients;
    // Sums of the largest amounts are beyond what numbers of JavaScript can say.
    if (profile.levels === undefined || profile.large || client === undefined) return;
    const { usage } = this.#ground.whole.scope("default");
    const { items } = await usage.query({ window: "hourly", ...ALWAYS }, { limit: 10_000 });
    for (const problem of await sumProblems(client.limiter, items)) journal.violation(problem);
  }

  get #sound(): boolean {
    return this.#around.journal.violations.length === 0;
  }
}

const SOUND = (store: Store): Store => store;

/** Above which others each stands, the nearest first. */
const PARENTS: Readonly<Record<string, readonly string[]>> = {
  "team-1": ["org"],
  "team-2": ["org"],
  "key-1": ["team-1", "org"],
  "key-2": ["team-1"],
  "key-3": ["team-2"],
};

const STORIES: Readonly<Record<StoryName, Story>> = {
  hold: stories.holdLease,
  body: stories.holdLeaseInBody,
  sync: stories.holdLeaseSync,
  greedy: stories.takeAllThereIs,
  look,
  limits: stories.changeLimits,
  entities: stories.changeEntities,
  policies: stories.changePolicies,
  operator: stories.operate,
  resize: resizeShards,
  again: stories.askAgain,
  back: stories.giveBackAndAsk,
  prompt: waitAndGiveBack,
  totals: changeTotals,
  plans: changePlans,
  correct,
};

/** Stories that have the world for themselves. */
const ALONE = ["again", "back", "prompt"] as const;

function shownError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
