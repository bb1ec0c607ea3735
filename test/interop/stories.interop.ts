import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, type RateLimiter } from "../../src/entry/index.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { DAY_MS, HOUR_MS } from "../kit/contract-kit.ts";
import { ADA, ask, Shared } from "./kit.ts";
import type { Original } from "./original.ts";
import { OriginalError } from "./original-process.ts";

// Two processes of each side on one bucket, in any order, and processes of ours between the round trips of the original: what
// all of them were granted is held against the promise.

const SEEDS = 3;
const STEPS = 50;

/** Terms of a limit while they count: tokens, tokens an hour. */
interface Span {
  readonly id: string;
  readonly capacity: number;
  readonly perHour: number;
}

interface Story {
  readonly name: string;
  readonly limits: readonly Limit[];
  readonly passMs: readonly number[];
  /** What counts of each limit at an instant; a quota's terms are those of its period. */
  spanOf(limit: string, atMs: number): Span;
}

const STORIES: readonly Story[] = [
  {
    name: "limits that drip",
    limits: [Limit.perHour("rph", 60), Limit.perDay("rpd", 100)],
    passMs: [0, 0, 1, 1_000, 60_000, HOUR_MS, 3 * HOUR_MS],
    spanOf: (limit) =>
      limit === "rph" ? { id: "", capacity: 60, perHour: 60 } : { id: "", capacity: 100, perHour: 100 / 24 },
  },
  {
    name: "a calendar quota beside a limit that drips",
    limits: [Limit.quota("day", 40, { reset: { cron: "0 0 * * *" } }), Limit.perHour("rph", 60)],
    passMs: [0, 0, 1, 60_000, 5 * HOUR_MS, 11 * HOUR_MS],
    spanOf: (limit, atMs) =>
      limit === "day"
        ? { id: String(Math.floor(atMs / DAY_MS)), capacity: 40, perHour: 0 }
        : { id: "", capacity: 60, perHour: 60 },
  },
  {
    name: "windows of a schedule",
    limits: [Limit.perHour("rph", 60, { schedule: [{ cron: "* 14-17 * * *", scale: 0.5 }] })],
    passMs: [0, 0, 1, 60_000, HOUR_MS / 2, HOUR_MS, 3 * HOUR_MS],
    spanOf: (_, atMs) => {
      const hour = Math.floor((atMs % DAY_MS) / HOUR_MS);
      const day = Math.floor(atMs / DAY_MS);
      const isInside = hour >= 14 && hour < 18;
      if (isInside) return { id: `${day} inside`, capacity: 30, perHour: 30 };
      return { id: `${hour < 14 ? day : day + 1} outside`, capacity: 60, perHour: 60 };
    },
  },
];

await describeDynamo("stories of both", (dynamodb) => {
  for (const story of STORIES) {
    test(`nobody gets more than is promised: ${story.name}`, async (t) => {
      let [granted, between] = [0, 0];
      for (let seed = 1; seed <= SEEDS; seed++) {
        const shared = await Shared.on(dynamodb, t);
        const our = [await shared.our(), await shared.our()];
        const their = [await shared.their(), await shared.their()];
        await our[0]?.setLimits(ADA.entityId, story.limits, { resource: ADA.resource });
        const play = new Play(story, shared, { our, their }, new SeededRandom(seed));
        for (let step = 0; step < STEPS; step++) await play.step();
        play.check(`seed ${seed}`);
        granted += play.grants.length;
        between += play.between;
      }
      t.diagnostic(`${granted} grants and give-backs, ${between} of them between round trips of the original`);
      assert.ok(between > 10, "hardly anything happened between the round trips of the original");
    });
  }
});

interface Grant {
  readonly limit: string;
  readonly atMs: number;
  /** Whole tokens; given back: less than 0. */
  readonly tokens: number;
}

interface Held {
  readonly consume: Readonly<Record<string, number>>;
  readonly atMs: number;
  giveBack(): Promise<void>;
}

class Play {
  readonly grants: Grant[] = [];
  between = 0;
  readonly #story: Story;
  readonly #shared: Shared;
  readonly #our: readonly RateLimiter[];
  readonly #their: readonly Original[];
  readonly #random: SeededRandom;
  #held: Held[] = [];

  constructor(
    story: Story,
    shared: Shared,
    { our, their }: { readonly our: readonly RateLimiter[]; readonly their: readonly Original[] },
    random: SeededRandom,
  ) {
    this.#story = story;
    this.#shared = shared;
    this.#our = our;
    this.#their = their;
    this.#random = random;
  }

  async step(): Promise<void> {
    const { passMs } = this.#story;
    const drawn = this.#below(10);
    if (drawn < 3) return this.#shared.pass(passMs[this.#below(passMs.length)] as number);
    if (drawn < 5) return this.#ours();
    const their = this.#their[this.#below(2)] as Original;
    if (drawn < 6) return this.#theirs(their);
    // One of ours acts somewhere in the middle of what the original does.
    const at = this.#below(8);
    let calls = 0;
    return their.between(
      async () => {
        if (calls++ !== at) return;
        const before = this.grants.length;
        if (this.#below(5) === 0) await this.#shared.pass(1);
        await this.#ours();
        this.between += this.grants.length - before;
      },
      () => this.#theirs(their),
    );
  }

  /** Any run of grants, within what counts then: at most two capacities and what dripped in; of a quota, one. */
  check(where: string): void {
    for (const { name } of this.#story.limits) {
      const own = this.grants.filter(({ limit }) => limit === name);
      for (const [i, first] of own.entries()) {
        const span = this.#story.spanOf(name, first.atMs);
        const most = span.perHour === 0 ? span.capacity : 2 * span.capacity;
        let taken = 0;
        for (const grant of own.slice(i)) {
          if (this.#story.spanOf(name, grant.atMs).id !== span.id) break;
          taken += grant.tokens;
          const due = most + (span.perHour * (grant.atMs - first.atMs)) / HOUR_MS;
          assert.ok(
            taken <= due + 0.001,
            `${where}: ${taken} of ${due} of ${name} from ${first.atMs} to ${grant.atMs}`,
          );
        }
      }
    }
  }

  async #ours(): Promise<void> {
    if (this.#below(4) === 0 && (await this.#givesBack())) return;
    const limiter = this.#our[this.#below(2)] as RateLimiter;
    const consume = this.#amounts();
    const atMs = this.#shared.now();
    const answer = await limiter.tryAcquire(ask(consume));
    if (!answer.ok) return;
    this.#granted(consume, atMs, 1);
    this.#held.push({ consume, atMs, giveBack: () => answer.lease.rollback() });
  }

  async #theirs(their: Original): Promise<void> {
    if (this.#below(4) === 0 && (await this.#givesBack())) return;
    const consume = this.#amounts();
    try {
      const lease = await their.acquire(ask(consume));
      const atMs = this.#shared.now();
      this.#granted(consume, atMs, 1);
      this.#held.push({ consume, atMs, giveBack: () => lease.fail() });
    } catch (error) {
      if (!(error instanceof OriginalError) || error.type !== "RateLimitExceeded") throw error;
    }
  }

  async #givesBack(): Promise<boolean> {
    const [held] = this.#held.splice(this.#below(Math.max(1, this.#held.length)), 1);
    if (held === undefined) return false;
    await held.giveBack();
    const nowMs = this.#shared.now();
    for (const [limit, tokens] of Object.entries(held.consume)) {
      // What was taken in a period that is over is not given back.
      const isSame = this.#story.spanOf(limit, held.atMs).id === this.#story.spanOf(limit, nowMs).id;
      const isQuota = this.#story.spanOf(limit, nowMs).perHour === 0;
      if (isSame || !isQuota) this.grants.push({ limit, atMs: nowMs, tokens: -tokens });
    }
    return true;
  }

  #granted(consume: Readonly<Record<string, number>>, atMs: number, sign: number): void {
    for (const [limit, tokens] of Object.entries(consume)) this.grants.push({ limit, atMs, tokens: sign * tokens });
  }

  #amounts(): Readonly<Record<string, number>> {
    const names = this.#story.limits.map(({ name }) => name);
    const some = names.filter(() => this.#below(2) === 0);
    return Object.fromEntries((some.length === 0 ? names : some).map((name) => [name, 1 + this.#below(20)]));
  }

  #below(count: number): number {
    return Math.floor(this.#random.next() * count);
  }
}
