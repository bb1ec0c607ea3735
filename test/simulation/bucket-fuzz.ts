import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { CallContext, Claim, Held, Operation } from "../../src/ports/bucket-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { BucketBalance } from "./bucket-balance.ts";
import { type BucketSite, openSite } from "./bucket-sites.ts";
import { type Ask, type BucketStoreKind, type BucketWorld, drawBucketWorld, type Happening } from "./bucket-world.ts";
import { PromisedLimit, type Rule } from "./promised-limit.ts";
import { limitOf } from "./rule-limit.ts";
import type { SeedReport } from "./simulation.ts";
import { ticketIn, ticketText } from "./ticket-text.ts";

const BUCKET = bucketKey("somebody", "api");

/** Plays one seed; any seed plays the same way again. */
export function fuzzBucket(seed: number, store: BucketStoreKind): Promise<SeedReport> {
  return playBucketWorld(drawBucketWorld(store, new SeededRandom(seed)), seed);
}

export async function playBucketWorld(world: BucketWorld, seed: number): Promise<SeedReport> {
  const play = new BucketPlay(world, seed);
  const { violations, told, tally } = await play.run();
  return { seed, violations, lastSteps: told, tally };
}

/** Something that was taken, and not given back yet. */
interface Lease {
  readonly held: Omit<Held, "ticket">;
  /** The ticket as it is stored: whoever gives back reads it anew. */
  readonly ticket: string;
  /** In millitokens, and in which eras of the limit they were taken, after how many changes of its rule. */
  readonly left: Map<string, Left>;
}

interface Left {
  milli: number;
  readonly of: PromisedLimit;
  readonly eras: readonly object[];
  readonly changes: number;
}

/**
 * One bucket, a few processes, one clock, no engine. What is granted is held against the most that the promise allows, and
 * what the bucket holds after each happening against what it held before.
 */
class BucketPlay {
  readonly violations: string[] = [];
  readonly told: string[] = [];
  readonly tally: Record<string, number> = {};
  readonly #world: BucketWorld;
  readonly #site: BucketSite;
  readonly #sets: readonly LimitSet[];
  readonly #limits = new Map<string, PromisedLimit>();
  readonly #leases: Lease[] = [];
  #nowMs: number;
  #set = 0;
  #changes = 0;
  #keys = 0;
  #shardsMost = 1;
  /** As they were seen last. */
  #shards = 1;
  /** Give-backs beside others: they may reach a bucket that is only just made. */
  readonly #underWay: { readonly limit: string; readonly milli: number; readonly eras: readonly object[] }[] = [];
  /** By so many milliseconds the bucket's time may be ahead. */
  #writes = 0;
  readonly #balance: BucketBalance;
  /** The rules by which each limit went while something is under way. */
  #seen: Map<string, Set<string>> | undefined;

  constructor(world: BucketWorld, seed: number) {
    this.#world = world;
    this.#nowMs = world.startMs;
    this.#balance = new BucketBalance({ isExact: world.exact || world.store !== "bucket-conditional" });
    this.#sets = world.sets.map((rules) => limitSet(rules.map(limitOf)));
    this.#site = openSite(world, BUCKET, {
      seed,
      now: () => this.#nowMs,
      moved: () => {
        this.#writes++;
        this.#balance.wrote();
        this.#look();
      },
      operated: (key) => this.#operations.get(key)?.(),
    });
  }

  readonly #operations = new Map<string, () => void>();

  async run(): Promise<this> {
    this.#tell(`limits are ${JSON.stringify(this.#world.sets[0])}`);
    try {
      for (const happening of this.#world.happenings) {
        if (this.violations.length > 0) break;
        this.#balance.begin(this.#site.stored(), this.#nowMs);
        this.#seen = new Map();
        this.#look();
        await this.#happen(happening);
        const steady = new Set([...this.#seen].flatMap(([name, rules]) => (rules.size === 1 ? [name] : [])));
        this.#seen = undefined;
        for (const limit of this.#limits.values()) limit.settle();
        this.#look();
        this.#weigh(steady);
      }
    } catch (error) {
      this.#violation(`it failed: ${error instanceof Error ? error.stack : error}`);
    } finally {
      await this.#site.close();
    }
    return this;
  }

  /** Nothing was minted, and nothing lost, of limits that went by one rule all the time. */
  #weigh(steady: ReadonlySet<string>): void {
    const stored = this.#site.stored();
    for (const problem of this.#balance.problems(stored, this.#nowMs, steady)) this.#violation(problem);
    for (const [name, limit] of this.#limits) {
      const due = limit.exactMilli;
      const held = due === undefined ? undefined : BucketBalance.heldMilli(stored, name, this.#nowMs);
      if (due === undefined || held === undefined || this.#balance.isInDoubt) continue;
      const apart = Math.abs(Number(held) - due);
      if (apart > this.#shardsMost)
        this.#violation(`the bucket holds ${held} of ${name}, and its period leaves ${due}`);
    }
  }

  async #happen(what: Happening): Promise<void> {
    if (what.do === "together") {
      this.#tell(`together: ${what.all.length}`);
      await this.#site.together(what.all.map((one) => () => this.#happen(one)));
      this.#underWay.length = 0;
      return;
    }
    this.#count(what.do);
    const { [what.do]: act } = this.#acts;
    await (act as (what: Happening) => Promise<void> | void)(what);
  }

  readonly #acts: {
    readonly [Do in Exclude<Happening["do"], "together">]: (
      what: Extract<Happening, { do: Do }>,
    ) => Promise<void> | void;
  } = {
    take: (what) => this.#take(what),
    giveBack: (what) => this.#giveBack(what),
    debit: (what) => this.#debit(what),
    limits: ({ set }) => {
      this.#set = set;
      this.#changes++;
      this.#tell(`limits become ${JSON.stringify(this.#world.sets[set])}`);
    },
    pass: ({ ms }) => this.#pass(ms),
    passToHour: ({ offMs }) => this.#pass(HOUR_MS - (this.#nowMs % HOUR_MS) + offMs),
    topUp: ({ by, limit, tokens }) => {
      if (this.#sets[this.#set]?.limits.every(({ name }) => name !== limit)) return;
      return this.#operate(
        `${tokens} of ${limit} are bought`,
        () => {
          this.#limits.get(limit)?.topUp(tokens * 1000);
          this.#balance.back(limit, tokens * 1000, tokens * 1000);
        },
        (operation) => this.#site.buckets(by).topUp(operation, [{ limit, milli: tokens * 1000 }]),
      );
    },
    reset: ({ by, limits }) =>
      this.#operate(
        `${limits ?? "all"} are reset`,
        () => {
          for (const [name, limit] of this.#limits) {
            if (limits !== undefined && !limits.includes(name)) continue;
            limit.reset();
            this.#balance.reset(name);
          }
        },
        (operation) => this.#site.buckets(by).reset(operation, limits),
      ),
    sweep: async () => {
      this.#tell("what has expired is removed");
      await this.#site.sweep();
    },
    delete: async () => {
      this.#tell("the entity is deleted");
      await this.#site.delete();
      // Nobody deletes a bucket and makes it again within the same millisecond.
      this.#nowMs++;
      this.#limits.clear();
    },
    split: async ({ by }) => this.#tell(`split: ${await this.#site.resize(by, "more")}`),
    join: async ({ by }) => this.#tell(`join: ${await this.#site.resize(by, "fewer")}`),
    announce: ({ by }) => this.#site.announce(by),
    fail: ({ by, call, how, after }) => {
      this.#tell(`a ${call} of ${by} will be ${how}, after ${after}`);
      this.#site.fail(by, call, how, after);
    },
    restart: ({ by }) => {
      this.#tell(`${by} starts anew`);
      this.#site.restart(by);
    },
  };

  #pass(ms: number): void {
    if (ms > 0) this.#writes = Math.max(0, this.#writes - ms);
    this.#nowMs += ms;
    this.#tell(`${ms} ms pass`);
  }

  async #take({ by, asks }: Extract<Happening, { do: "take" }>): Promise<void> {
    const set = this.#sets[this.#set] as LimitSet;
    const take = set.limits.flatMap(({ name }) => {
      const asked = asks.find(([limit]) => limit === name);
      return asked === undefined ? [] : [{ limit: name, milli: this.#milliOf(name, asked[1]) }];
    });
    const claim = (isConfigJustRead: boolean): Claim => {
      return { bucket: BUCKET, set, origin: this.#origin(by), take, bypass: false, isConfigJustRead };
    };
    const context = { ...this.#context(), generation: undefined, atomic: false };
    let asked = claim(false);
    let reply = await this.#site.buckets(by).take([asked], context);
    if (reply !== "stale" && reply[0]?.kind === "configSuspect") {
      asked = claim(true);
      reply = await this.#site.buckets(by).take([asked], context);
    }
    const answer = reply === "stale" ? undefined : reply[0];
    this.#look();
    const shown = take.map(({ limit, milli }) => `${milli} of ${limit}`).join(", ");
    this.#tell(`${by} asks for ${shown || "nothing"}: ${answer?.kind}`);
    this.#count(`claims ${answer?.kind}`);
    if (answer?.kind === "unavailable") for (const one of take) this.#balance.perhapsOut(one.limit, one.milli);
    if (answer?.kind !== "taken") return;
    for (const { limit, milli } of take) this.#balance.out(limit, milli);
    const left: Lease["left"] = new Map();
    for (const { limit, milli } of take) {
      const promised = this.#limits.get(limit);
      if (promised === undefined) {
        if (milli > 0) this.#violation(`${milli} of ${limit} were taken, and there is no such limit`);
        continue;
      }
      const over = promised.take(milli, 1 + this.#shardsMost);
      left.set(limit, { milli, of: promised, eras: promised.eras, changes: promised.changes });
      if (over > 0) this.#violation(`${over} millitokens of ${limit} were granted above the promise`);
    }
    const { bucket, origin, bypass } = asked;
    const ticket = ticketText(answer.ticket);
    this.#leases.push({ held: { bucket, set, origin, bypass }, ticket, left });
  }

  async #giveBack({ by, lease: index, tokens }: Extract<Happening, { do: "giveBack" | "debit" }>): Promise<void> {
    const lease = this.#leases[index % Math.max(1, this.#leases.length)];
    if (lease === undefined) return;
    const amounts = [...lease.left].flatMap(([limit, held]) => {
      const milli = Math.min(held.milli, tokens * 1000);
      held.milli -= milli;
      return milli === 0 ? [] : [{ ...held, limit, milli }];
    });
    if (amounts.length === 0) return;
    // Beside others it may be applied at any moment until it is answered.
    const give = (isCertain: boolean) => {
      for (const { limit, milli, of, eras, changes } of amounts) {
        const isApart = this.#shardsMost > 1 && this.#limits.get(limit) === of && of.changes !== changes;
        this.#limits.get(limit)?.giveBack(milli, eras, isCertain, isApart);
        if (this.#site.isBusy) this.#underWay.push({ limit, milli, eras });
      }
    };
    this.#look();
    if (this.#site.isBusy) give(false);
    const given = amounts.map(({ limit, milli }) => ({ limit, milli }));
    const reply = await this.#site.buckets(by).credit(this.#heldOf(lease), given, this.#context());
    this.#tell(`${by} gives back ${given.map(({ limit, milli }) => `${milli} of ${limit}`)}: ${reply.kind}`);
    this.#look();
    for (const { limit, milli, of, eras, changes } of amounts) {
      if (reply.kind === "unavailable" && reply.applied === "unknown") this.#balance.perhapsBack(limit, milli);
      if (reply.kind !== "applied") continue;
      const promised = this.#limits.get(limit);
      const takes = promised === of ? of.takesBack(eras, changes) : "either";
      // Beside others its period may have been over when it came.
      const isCertain = takes === "all" && !this.#site.isBusy;
      this.#balance.back(limit, isCertain ? milli : 0, takes === "nothing" ? 0 : milli);
    }
    if (!this.#site.isBusy && reply.kind !== "gone") give(reply.kind === "applied");
  }

  async #debit({ by, lease: index, tokens }: Extract<Happening, { do: "giveBack" | "debit" }>): Promise<void> {
    const lease = this.#leases[index % Math.max(1, this.#leases.length)];
    const [limit] = lease?.left.keys() ?? [];
    if (lease === undefined || limit === undefined) return;
    const milli = Math.min(tokens, 20) * 1000;
    const reply = await this.#site.buckets(by).debit(this.#heldOf(lease), [{ limit, milli }], this.#context());
    this.#tell(`${by} debits ${milli} of ${limit}: ${reply.kind}`);
    this.#look();
    if (reply.kind === "applied") this.#balance.out(limit, milli);
    else if (reply.kind === "unavailable") this.#balance.perhapsOut(limit, milli);
    const promised = this.#limits.get(limit);
    if (reply.kind !== "applied" || promised === undefined) return;
    // Beside others, one that was answered later may have come first.
    promised.debit(milli, this.#site.shards === 1 && !this.#site.isBusy);
    const ticket = ticketText(reply.ticket ?? PLAIN_TICKET);
    const { eras, changes } = promised;
    this.#leases.push({ held: lease.held, ticket, left: new Map([[limit, { milli, of: promised, eras, changes }]]) });
  }

  #heldOf({ held, ticket }: Lease): Held {
    return { ...held, ticket: ticketIn(ticket) };
  }

  async #operate(what: string, apply: () => void, act: (operation: Operation) => unknown): Promise<void> {
    const idempotencyKey = `key-${++this.#keys}`;
    let isApplied = false;
    this.#operations.set(idempotencyKey, () => {
      if (isApplied) this.#violation(`${what}, twice`);
      isApplied = true;
      this.#look();
      apply();
    });
    const set = this.#sets[this.#set] as LimitSet;
    const about = { entityId: BUCKET.entityId, resource: BUCKET.resource };
    const event = {
      eventId: idempotencyKey,
      atMs: this.#nowMs,
      action: "bucket_reset",
      ...about,
      details: {},
    } as const;
    const operation = { bucket: BUCKET, set, origin: this.#origin(0), nowMs: this.#nowMs, idempotencyKey, event };
    try {
      await act(operation);
      // A store that tells nobody of its writes has done it by now.
      if (!isApplied) this.#operations.get(idempotencyKey)?.();
      this.#tell(what);
    } catch (error) {
      // Shards that are split or joined behind everybody's back may be in its way each time.
      if (!this.#site.hasFaults && this.#shardsMost === 1) throw error;
      this.#balance.lose();
      this.#tell(`${what}, or not: ${(error as Error).name}`);
    }
  }

  /** What the limits on the bucket are, now that something was written. How much they hold is not looked at. */
  #look(): void {
    const { shards, rules, epochMs } = this.#site.inForce();
    this.#shardsMost = Math.max(this.#shardsMost, shards);
    if (this.#shards === 1 && shards > 1) for (const limit of this.#limits.values()) limit.split();
    this.#shards = shards;
    // Each write that tells a bucket anew tells it from a millisecond later, also where several come at one instant.
    const nowMs = Math.max(this.#nowMs, Math.min(epochMs, this.#nowMs + this.#writes));
    if (shards > 1) this.#count(`with ${shards} shards`);
    for (const [name, inForce] of rules) {
      const seen = this.#seen?.get(name) ?? new Set<string>();
      this.#seen?.set(name, seen);
      for (const rule of inForce) seen.add(JSON.stringify(rule));
      const known = this.#limits.get(name);
      if (known === undefined) this.#limits.set(name, this.#made(name, inForce, nowMs));
      else if (known.goBy(inForce, this.#nowMs, shards)) this.#count("forgotten limits that come back");
      this.#limits.get(name)?.runAhead(nowMs);
    }
    for (const [name, limit] of this.#limits) if (!rules.has(name)) limit.goBy([], this.#nowMs, shards);
  }

  #made(name: string, rules: readonly Rule[], nowMs: number): PromisedLimit {
    const made = new PromisedLimit(rules, nowMs);
    for (const { limit, milli, eras } of this.#underWay) if (limit === name) made.giveBack(milli, eras, false, false);
    return made;
  }

  #milliOf(name: string, ask: Ask): number {
    if (typeof ask === "number") return ask * 1000;
    this.#look();
    const promised = this.#limits.get(name);
    const rule = this.#world.sets[this.#set]?.find((one) => one.name === name);
    const capacity = (rule?.capacity ?? 0) * 1000;
    const most = Math.max(0, promised?.mostMilli ?? capacity);
    return ask === "all" ? Math.min(capacity, most) : Math.min(capacity, most + 2 + this.#shardsMost);
  }

  #origin(by: number): SetOrigin {
    return this.#site.origin(by, this.#changes, this.#nowMs);
  }

  #context(): CallContext {
    return { nowMs: this.#nowMs, timeoutMs: 60_000 };
  }

  #tell(text: string): void {
    this.told.push(`${String(this.#nowMs - this.#world.startMs).padStart(10)} ms  ${text}`);
  }

  #count(what: string): void {
    this.tally[what] = (this.tally[what] ?? 0) + 1;
  }

  #violation(text: string): void {
    this.violations.push(text);
    this.#tell(`VIOLATION ${text}`);
  }
}

const HOUR_MS = 3_600_000;
