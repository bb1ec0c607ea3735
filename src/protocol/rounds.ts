import type { BucketState } from "../domain/bucket-state.ts";
import { RateLimiterUnavailable } from "../domain/errors.ts";
import type { Item, ItemAnswer, ItemKey, ItemStore, ItemWrite } from "../ports/item-store.ts";
import type { Clock } from "../ports/system.ts";
import { nonceSlot } from "./attributes.ts";
import type { Image } from "./codec.ts";
import type { ConfigReadings } from "./config-readings.ts";
import { createForm, formFor } from "./forms.ts";
import type { Env, Intent, Step } from "./intent.ts";
import { bringing, intentOf, type Job, type JobOutcome, newestOf, type Walked, walk } from "./job.ts";
import type { BucketMemory, Memories, Seen } from "./memory.ts";
import type { Nonces } from "./nonces.ts";
import { isAhead, repairFutureEpochWrite } from "./repair-epoch.ts";
import { guessesFor, learnSides } from "./tolerance.ts";

/** What the rounds need of the protocol. */
export interface RoundsContext {
  readonly items: ItemStore;
  readonly env: Env;
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  readonly memories: Memories;
  readonly nonces: Nonces;
  readonly readings: ConfigReadings;
  /** Never cut more than needed at the brim. */
  readonly exact: boolean;
  /** Rebased when a write that nobody waits for any more turns out to have landed. */
  readonly landedLate: (key: ItemKey, jobs: readonly Job[], answer: ItemAnswer, readingMs: number) => void;
  readonly throttled: (memory: BucketMemory) => void;
}

const ROUNDS_SPARE = 4;
const SENDS_MAX = 4;
const UNKNOWNS_MAX = 2;
const BACKOFF_MS = 10;

/**
 * Does jobs at one shard: guess a form, send it, learn from the answer, until all are decided. `follows`: what is remembered
 * of the shard has only just been seen.
 */
export async function doRounds(
  context: RoundsContext,
  memory: BucketMemory,
  key: ItemKey,
  jobs: readonly Job[],
  follows: boolean,
): Promise<JobOutcome[]> {
  const [job] = jobs;
  const usual = jobs.length === 1 && job !== undefined ? usualWrite(context, memory, key, job) : undefined;
  if (usual === undefined) return new Rounds(context, memory, key, jobs, follows).run();
  const { intent, write } = usual;
  const asked = context.memories.learnt;
  const beganMs = context.clock.now();
  const sent = context.items.write(write, job as Job);
  const answer = sent instanceof Promise ? await sent : sent;
  if (answer.kind !== "applied")
    return new Rounds(context, memory, key, jobs, follows).goOn(usual, answer, asked, beganMs);
  const { readingMs } = intent;
  const about = { atMs: readingMs, hearsay: false, set: intent.install?.set, own: 1, asked };
  const { image } = context.memories.learnIn(memory, key, answer.item, about);
  learnSides(memory, image as Image, intent, readingMs, true);
  return [{ kind: "taken", image: image as Image, written: usual.state, readingMs }];
}

interface UsualWrite {
  readonly intent: Intent;
  readonly write: ItemWrite;
  readonly state: BucketState;
}

/** What nearly every request is: one claim on a bucket that is known and casts no doubt, and by what is known it fits. */
function usualWrite(
  { env, readings, nonces, exact }: RoundsContext,
  memory: BucketMemory,
  { shard }: ItemKey,
  job: Job,
): UsualWrite | undefined {
  const seen = memory.seen(shard);
  if (seen?.image === undefined || isAhead(seen.image, env)) return undefined;
  const jobs = [job];
  if (readings.doubtOf(memory, seen, jobs, env) !== "none") return undefined;
  const { readingMs } = job;
  const nonce = { name: nonceSlot(nonces.slot), value: nonces.next() };
  const intent = intentOf(jobs, {
    readingMs,
    nonce,
    configConfirmed: false,
    ignoreImageShortage: false,
    guesses: undefined,
  });
  const guesses = exact ? undefined : guessesFor(memory, seen.image, intent.moves, readingMs);
  const guessed = guesses === undefined ? intent : { ...intent, guesses };
  const step = formFor(seen.image, guessed, env);
  return step.kind === "write" ? { intent: guessed, write: step.write, state: step.state } : undefined;
}

/** A look at an item, by whoever needs one before writing. */
export async function look(context: RoundsContext, key: ItemKey, consistent: boolean, job: Job): Promise<Seen> {
  const { items, memories } = context;
  const asked = memories.learnt;
  const [item] = await items.read([key], { consistent }, job);
  return memories.learn(key, item, { atMs: job.readingMs, hearsay: !consistent, set: job.of.set, own: 0, asked });
}

class Rounds {
  readonly #context: RoundsContext;
  readonly #key: ItemKey;
  readonly #jobs: readonly Job[];
  readonly #memory: BucketMemory;
  readonly #outcomes = new Map<Job, JobOutcome>();
  #untilMs: number;
  readonly #laters: Promise<ItemAnswer>[] = [];
  /** Not decided yet. */
  #pending: readonly Job[];
  /** Those of them that the write is for. */
  #sent: readonly Job[] = [];
  #nonce: number;
  #readingMs: number;
  /** What is remembered was seen in these rounds, or just before: somebody may be refused by it. */
  #isSure: boolean;
  /** A write may have landed unseen: from now on the same is asked for, with the same reading. */
  #isFrozen = false;
  #unknowns = 0;
  /** What had been learnt when the write was sent. */
  #asked = 0;
  /** The state that the write leaves, and that of the one whose answer was lost first. */
  #written: BucketState | undefined;
  #lost: BucketState | undefined;
  #cause: unknown;
  #isExact: boolean;

  constructor(context: RoundsContext, memory: BucketMemory, key: ItemKey, jobs: readonly Job[], follows: boolean) {
    this.#context = context;
    this.#key = key;
    this.#jobs = jobs;
    this.#pending = jobs;
    this.#memory = memory;
    this.#nonce = context.nonces.next();
    this.#isSure = follows && this.#memory.seen(key.shard)?.hearsay === false;
    this.#isExact = context.exact;
    let [readingMs, timeoutMs] = [Number.NEGATIVE_INFINITY, 1];
    for (const job of jobs) {
      readingMs = Math.max(readingMs, job.readingMs);
      timeoutMs = Math.max(timeoutMs, job.timeoutMs);
    }
    // One reading for all rounds: the brim stands still meanwhile, so that they come to an end.
    this.#readingMs = readingMs;
    this.#untilMs = context.clock.now() + timeoutMs;
  }

  /** Goes on after a first write that was not simply applied. */
  async goOn(
    { intent, write, state }: UsualWrite,
    answer: ItemAnswer,
    asked: number,
    beganMs: number,
  ): Promise<JobOutcome[]> {
    this.#untilMs += beganMs - this.#context.clock.now();
    this.#asked = asked;
    this.#written = state;
    this.#sent = this.#pending;
    this.#nonce = intent.nonce?.value ?? this.#nonce;
    this.#heard(answer.kind === "refused" ? await this.#sendAgain(write, answer) : answer, intent);
    return this.run();
  }

  async run(): Promise<JobOutcome[]> {
    try {
      await this.#rounds();
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) throw error;
      // A look that failed: whoever has been decided keeps his answer.
      const applied = this.#isFrozen ? "unknown" : "no";
      this.#settle(this.#pending, { kind: "unavailable", applied, cause: error });
    }
    this.#giveUp();
    return this.#jobs.map((job) => this.#outcomes.get(job) as JobOutcome);
  }

  async #rounds(): Promise<void> {
    const { clock } = this.#context;
    const roundsMax = ROUNDS_SPARE + 2 * newestOf(this.#jobs).set.limits.length;
    for (let round = 0; round < roundsMax && this.#pending.length > 0; round++) {
      // A reading may only be so old when its write is applied.
      if (clock.now() > this.#untilMs) break;
      const seen = this.#memory.seen(this.#key.shard) ?? (await this.#look(false));
      if (seen.image === undefined && this.#key.shard > 0) {
        // Whether a lost write landed on a shard that is gone nobody can tell any more.
        this.#settle(this.#pending, this.#isFrozen ? this.#unknown() : { kind: "elsewhere" });
        break;
      }
      const intent = await this.#intended(seen);
      if (intent === undefined) continue;
      const step = this.#formed(seen, intent);
      if (step.kind === "short") await this.#missed(step.state, intent);
      else {
        this.#asked = this.#context.memories.learnt;
        this.#written = step.state;
        const answer = this.#context.items.write(step.write, { timeoutMs: Math.max(1, this.#untilMs - clock.now()) });
        const heard = answer instanceof Promise ? await answer : answer;
        this.#heard(heard.kind === "refused" ? await this.#sendAgain(step.write, heard) : heard, intent);
      }
    }
  }

  /** The write that is wanted now; undefined when somebody had to be answered, or looked for, first. */
  async #intended(seen: Seen): Promise<Intent | undefined> {
    const { readings, env } = this.#context;
    const nonce = { name: nonceSlot(this.#context.nonces.slot), value: this.#nonce };
    const doubt = readings.doubtOf(this.#memory, seen, this.#pending, env);
    const options = {
      readingMs: this.#readingMs,
      nonce,
      configConfirmed: doubt === "confirmed",
      ignoreImageShortage: false,
    };
    if (this.#isFrozen) return intentOf(this.#sent, { ...options, guesses: undefined });
    const walked = walk(seen.image, this.#pending, this.#readingMs, options.configConfirmed, env);
    if (doubt === "configSuspect") {
      // What is only remembered, or hearsay, is looked at before anybody is sent to read configuration.
      if (this.#isSure) this.#settle(this.#pending, { kind: "configSuspect", state: walked.state });
      else await this.#look(true);
      return undefined;
    }
    if (walked.refused.length > 0 && this.#isSure) {
      if (walked.fitting.length === 0 && walked.brings) return this.#bringing(walked, options);
      this.#refuse(walked);
      if (this.#pending.length === 0) return undefined;
    }
    this.#sent = walked.fitting.length > 0 ? walked.fitting : this.#pending.slice(0, 1);
    const intent = intentOf(this.#sent, {
      ...options,
      ignoreImageShortage: walked.fitting.length === 0,
      guesses: undefined,
    });
    if (this.#isExact || seen.image === undefined) return intent;
    return { ...intent, guesses: guessesFor(this.#memory, seen.image, intent.moves, this.#readingMs) };
  }

  /** Changed limits reach a bucket also with a claim that is refused. */
  #bringing({ refused }: Walked, options: Pick<Intent, "readingMs" | "nonce" | "configConfirmed">): Intent {
    this.#sent = [];
    return bringing(refused[0] as Job, options);
  }

  #formed(seen: Seen, intent: Intent): Step {
    const { env } = this.#context;
    if (seen.image !== undefined && isAhead(seen.image, env) && !this.#isFrozen) {
      // First this; then what was asked for, by a reading that can be.
      this.#sent = [];
      this.#readingMs = Math.min(this.#readingMs, env.latestServerMs());
      return repairFutureEpochWrite(seen.image, { ...intent, readingMs: this.#readingMs }, env);
    }
    if (seen.image !== undefined) return formFor(seen.image, intent, env);
    return createForm(this.#key, newestOf(this.#jobs), intent, env);
  }

  #heard(answer: ItemAnswer, intent: Intent): void {
    switch (answer.kind) {
      case "applied": {
        const image = this.#learn(answer.item, intent, 1);
        // The next write is another one.
        this.#nonce = this.#context.nonces.next();
        if (image === undefined) return;
        learnSides(this.#memory, image, intent, this.#readingMs, true);
        this.#taken(image, this.#written);
        return;
      }
      case "failed": {
        const image = this.#learn(answer.item, intent, 0);
        if (image === undefined) return;
        learnSides(this.#memory, image, intent, this.#readingMs, false);
        if (image.item[intent.nonce?.name ?? ""] === this.#nonce) this.#taken(image, this.#lost ?? this.#written);
        return;
      }
      case "refused": {
        if (answer.why === "conflict") return;
        const applied = this.#isFrozen ? "unknown" : "no";
        this.#settle(this.#pending, { kind: "unavailable", applied, cause: answer.cause });
        return;
      }
      case "unknown":
        if (this.#sent.length === 0) {
          // It took nothing for anybody: how the item stands now is looked up, and should it have landed, or land later, its
          // nonce must not be taken for that of a take.
          this.#nonce = this.#context.nonces.next();
          this.#memory.shards[this.#key.shard] = undefined;
          return;
        }
        this.#isFrozen = true;
        this.#lost ??= this.#written;
        this.#cause = answer.cause;
        if (answer.later !== undefined) this.#laters.push(answer.later);
        if (++this.#unknowns >= UNKNOWNS_MAX) this.#settle(this.#pending, this.#unknown());
    }
  }

  /** By the image it does not fit, although a moment ago it seemed so. */
  async #missed(state: BucketState, intent: Intent): Promise<void> {
    if (intent.guesses !== undefined) this.#isExact = true;
    else if (this.#isFrozen) this.#settle(this.#pending, this.#unknown());
    else if (this.#isSure) this.#settle(this.#sent, { kind: "short", state });
    else await this.#look(true);
  }

  #unknown(): JobOutcome {
    const jobs = this.#sent;
    // Should it turn out to have landed, nobody was granted anything for it.
    for (const later of this.#laters) {
      void later.then((answer) => {
        if (answer.kind === "applied") this.#context.landedLate(this.#key, jobs, answer, this.#readingMs);
      });
    }
    return { kind: "unavailable", applied: "unknown", cause: this.#cause };
  }

  /** What certainly was not written is sent again after a moment. */
  async #sendAgain(write: ItemWrite, refused: Extract<ItemAnswer, { kind: "refused" }>): Promise<ItemAnswer> {
    const { items, clock, random } = this.#context;
    let answer: ItemAnswer = refused;
    for (let sends = 1; answer.kind === "refused"; sends++) {
      if (answer.why === "throttled") this.#context.throttled(this.#memory);
      if (sends >= SENDS_MAX || clock.now() >= this.#untilMs) return answer;
      await clock.sleep(Math.ceil(random() * BACKOFF_MS * 2 ** sends), undefined);
      this.#asked = this.#context.memories.learnt;
      answer = await items.write(write, { timeoutMs: Math.max(1, this.#untilMs - clock.now()) });
    }
    return answer;
  }

  #learn(item: Item | undefined, intent: Intent, own: number): Image | undefined {
    const { memories } = this.#context;
    this.#isSure = true;
    const options = { atMs: this.#readingMs, hearsay: false, set: intent.install?.set, own, asked: this.#asked };
    return memories.learnIn(this.#memory, this.#key, item, options).image;
  }

  #look(consistent: boolean): Promise<Seen> {
    this.#isSure = consistent;
    return look(this.#context, this.#key, consistent, this.#pending[0] as Job);
  }

  #refuse({ refused, fitting, state }: Walked): void {
    this.#memory.refusedAtMs = this.#readingMs;
    this.#settle(refused, { kind: "short", state });
    this.#pending = fitting;
  }

  #taken(image: Image, written: BucketState | undefined): void {
    const { state } = image;
    this.#settle(this.#sent, { kind: "taken", image, written: written ?? state, readingMs: this.#readingMs });
  }

  #settle(jobs: readonly Job[], outcome: JobOutcome): void {
    for (const job of jobs) this.#outcomes.set(job, outcome);
    this.#pending = this.#pending.filter((job) => !this.#outcomes.has(job));
  }

  /** Rounds are used up: among many it could not be decided. That is a refusal, not a fault. */
  #giveUp(): void {
    if (this.#isFrozen && this.#pending.length > 0) this.#settle(this.#pending, this.#unknown());
    if (this.#pending.length === 0) return;
    const { env } = this.#context;
    const { image } = this.#memory.seen(this.#key.shard) ?? {};
    const { state } = walk(image, this.#pending, this.#readingMs, false, env);
    this.#settle(this.#pending, { kind: "contended", state });
  }
}

/** Whether two jobs may leave in one write. */
export function mayJoin(first: Job, next: Job): boolean {
  const isAlike = first.kind === next.kind && first.of.set.signature === next.of.set.signature;
  // Together they must stay among the exact numbers.
  if (!isAlike || isVast(first) || isVast(next)) return false;
  // Who cannot be sent to read configuration again does not hold up those who can.
  return (first.of.origin.reading === undefined) === (next.of.origin.reading === undefined);
}

function isVast({ amounts }: Job): boolean {
  return amounts.some(({ milli }) => milli > VAST_MILLI);
}

/** A thousand of these can be summed up. */
const VAST_MILLI = 1_000_000_000_000;
