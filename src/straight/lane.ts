import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import { withoutShadowed } from "../domain/bucket/bucket-questions.ts";
import type { LimitedBucket } from "../domain/limits/limit-set.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import type { Batch, BatchReply, BatchStore } from "../ports/batch-store.ts";
import type { Answer, Claim } from "../ports/bucket-store.ts";
import type { ConfigStore } from "../ports/config-store.ts";
import type { TouchedNames } from "../ports/record-store.ts";
import type { Turns } from "../ports/system.ts";
import { mayHavePassedEnd, passesOverEnd, type RuleContext } from "../stored/bucket-rules.ts";
import { answerOf, contended, type Reply, RowsAfter, unavailable, undoneOf } from "./answers.ts";
import { BatchDraft, type KnownRows } from "./draft.ts";
import type { Call, CallTime } from "./requests.ts";
import type { SignatureOf } from "./row-codec.ts";

/** Time that goes on evenly, for waiting. */
export interface Waiting {
  readonly steadyMs: () => number;
  /** Calls back after so long, unless it is cancelled by what it answers. */
  readonly after: (ms: number, work: () => void) => () => void;
}

/** All lanes of a store share these. */
export interface LaneParts {
  readonly store: BatchStore;
  readonly turns: Turns;
  readonly waiting: Waiting;
  readonly calendar: Calendar;
  readonly signatureOf: SignatureOf;
  readonly countsUsage: boolean;
  /** False: every call is a batch of its own. */
  readonly coalesce: boolean;
  /** Only where readings are those of the store's own clock. */
  readonly clock: { readonly aheadMaxMs: number; now(): number } | undefined;
  /** Told of every answer: the generation of configuration, and the time of the store. */
  readonly onAnswer: (seen: {
    readonly namespaceId: string;
    readonly generation: number;
    /** The newest generation that its calls went by; undefined: none of them is compared, or this is the answer of then. */
    readonly askedGeneration: number | undefined;
    readonly changes: TouchedNames | undefined;
    readonly serverMs: number;
    /** The latest reading among the calls. */
    readonly nowMs: number;
    /** One of the buckets, if there is any, and how many of them this process met for the first time. */
    readonly bucket: BucketKey | undefined;
    readonly newBuckets: number;
  }) => void;
}

/** The configuration of one namespace. */
export type LaneConfig = Pick<ConfigStore, "generation" | "isUnchanged" | "resolve">;

/** The rows and the configuration of one namespace, as this process knows them. */
export interface LaneScope {
  readonly namespaceId: string;
  readonly known: KnownRows;
  readonly config: LaneConfig;
}

interface Job {
  readonly scope: LaneScope;
  readonly call: Call;
  readonly time: CallTime;
  readonly untilMs: number;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
  /** Differs from that of the call once the store has shown that the clock was wrong. */
  nowMs: number;
  tries: number;
  isOver: boolean;
  /** It was answered when its time was up: nobody knows then what became of it. */
  isLate: boolean;
  isWatched: boolean;
  endTimer: () => void;
}

/** A call that is always overtaken is contended after this many tries. */
const TRIES_MAX = 8;

/** A server that could not be reached is asked again after this time what became of a batch. */
const PAUSE_MS = 25;

/**
 * Calls that are joined to batches, one batch under way at a time: whoever comes meanwhile is in the next one. Every batch has the next
 * number, under which the store remembers what became of it: after a lost answer the same batch is sent again, and never as another one.
 */
export class Lane {
  readonly #id: string;
  readonly #parts: LaneParts;
  #queue: Job[] = [];
  #seq = 0;
  #isRunning = false;
  #isUnderWay = false;
  #onDrained: (() => void)[] = [];

  constructor(id: string, parts: LaneParts) {
    this.#id = id;
    this.#parts = parts;
  }

  /** The number of calls that wait for the next batch. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** A batch was sent and is not answered: who comes now waits for that. */
  get isUnderWay(): boolean {
    return this.#isUnderWay;
  }

  submit(scope: LaneScope, call: Call, time: CallTime): Promise<Reply> {
    return new Promise<Reply>((resolve, reject) => {
      if (time.signal?.aborted) {
        reject(time.signal.reason);
        return;
      }
      const untilMs = this.#parts.waiting.steadyMs() + time.timeoutMs;
      const job: Job = {
        ...{ scope, call, time, untilMs, resolve, reject, nowMs: time.nowMs, tries: 0, isOver: false },
        ...{ isLate: false, isWatched: false, endTimer: () => {} },
      };
      this.#queue.push(job);
      if (this.#isRunning) this.#watch(job);
      else this.#start();
    });
  }

  /** Resolves when everything that was submitted is answered. */
  drained(): Promise<void> {
    if (!this.#isRunning) return Promise.resolve();
    return new Promise((resolve) => this.#onDrained.push(resolve));
  }

  #start(): void {
    this.#isRunning = true;
    void this.#run();
  }

  async #run(): Promise<void> {
    // After all that is ready to run has run: calls of the same turn are one batch.
    await this.#parts.turns.next();
    while (this.#queue.length > 0) {
      const [draft, jobs] = this.#draft();
      if (draft === undefined) continue;
      this.#isUnderWay = true;
      try {
        await this.#send(draft, jobs);
      } catch (error) {
        for (const job of jobs) this.#fail(job, error);
      }
      this.#isUnderWay = false;
    }
    this.#isRunning = false;
    for (const done of this.#onDrained.splice(0)) done();
  }

  // Neither waiting behind a batch nor the batch itself may take longer than the caller waits.
  #watch(job: Job): void {
    if (job.isWatched || job.isOver) return;
    job.isWatched = true;
    const { waiting } = this.#parts;
    job.endTimer = waiting.after(Math.max(0, job.untilMs - waiting.steadyMs()), () => {
      const cause = new Error(`No answer of the store within ${job.time.timeoutMs} ms.`);
      const isSent = !this.#queue.includes(job);
      job.isLate = isSent && !job.isOver;
      this.#settle(job, unavailable(job.call, isSent ? "unknown" : "no", cause));
    });
  }

  #draft(): [BatchDraft | undefined, Job[]] {
    const { signatureOf, coalesce } = this.#parts;
    const [first] = this.#queue;
    const { scope } = first as Job;
    const draft = new BatchDraft((id) => scope.known.get(id), signatureOf);
    const jobs: Job[] = [];
    const later: Job[] = [];
    for (const job of this.#queue) {
      if (job.isOver) continue;
      if (job.time.signal?.aborted) {
        job.endTimer();
        job.reject(job.time.signal.reason);
        continue;
      }
      const mayJoin = job.scope === scope && later.length === 0 && (coalesce || jobs.length === 0);
      if (mayJoin && this.#added(draft, job)) jobs.push(job);
      else if (!job.isOver) later.push(job);
    }
    this.#queue = later;
    return [jobs.length === 0 ? undefined : draft, jobs];
  }

  #added(draft: BatchDraft, job: Job): boolean {
    try {
      return draft.add(job.call, this.#contextOf(job));
    } catch (error) {
      this.#fail(job, error);
      return false;
    }
  }

  async #send(draft: BatchDraft, jobs: readonly Job[]): Promise<void> {
    const { countsUsage, clock } = this.#parts;
    const { scope } = jobs[0] as Job;
    const head = { namespaceId: scope.namespaceId, lane: this.#id, seq: ++this.#seq, countsUsage };
    const batch = draft.batch({ ...head, aheadMaxMs: clock?.aheadMaxMs });
    for (const job of jobs) this.#watch(job);
    const reply = await this.#applied(batch, jobs);
    switch (reply.kind) {
      case "done":
        this.#answer(draft, jobs, reply);
        return;
      case "rolledBack":
        for (const job of jobs) {
          const rowOf = (id: string) => scope.known.get(id)?.record;
          this.#settle(job, contended(job.call, rowOf, this.#contextOf(job)));
        }
        return;
      case "superseded":
        for (const job of jobs)
          this.#settle(job, unavailable(job.call, "unknown", new Error("A later batch was done first.")));
        return;
      case "unavailable":
        for (const job of jobs) this.#settle(job, unavailable(job.call, reply.applied, reply.cause));
    }
  }

  /** Sends the batch until it is known what became of it, or nobody waits any longer. */
  async #applied(batch: Batch, jobs: readonly Job[]): Promise<BatchReply> {
    const { store, waiting } = this.#parts;
    const untilMs = Math.max(...jobs.map((job) => job.untilMs));
    let isPerhapsApplied = false;
    for (;;) {
      const leftMs = untilMs - waiting.steadyMs();
      // A batch that was sent and not answered may still arrive after this one.
      const reply = await store.apply(isPerhapsApplied ? { ...batch, isRepeat: true } : batch, Math.max(1, leftMs));
      if (reply.kind === "done" || reply.kind === "superseded") return reply;
      if (reply.kind === "unavailable") isPerhapsApplied ||= reply.applied === "unknown";
      const isFinal = reply.kind === "unavailable" && !isPerhapsApplied;
      if (isFinal) return reply;
      if (untilMs - waiting.steadyMs() <= PAUSE_MS) {
        if (reply.kind === "rolledBack" && !isPerhapsApplied) return reply;
        return { kind: "unavailable", applied: isPerhapsApplied ? "unknown" : "no", cause: reply.cause };
      }
      if (reply.kind === "unavailable") await new Promise<void>((resolve) => waiting.after(PAUSE_MS, resolve));
    }
  }

  #answer(draft: BatchDraft, jobs: readonly Job[], reply: Extract<BatchReply, { kind: "done" }>): void {
    const { scope } = jobs[0] as Job;
    const { generation, changes, serverMs } = reply;
    const nowMs = Math.max(...jobs.map((job) => job.nowMs));
    const { buckets } = draft;
    const bucket = buckets[0]?.key;
    const newBuckets = buckets.filter(({ known, index }) => known === undefined && reply.rows[index] != null).length;
    const asked = reply.repeated ? [] : jobs.flatMap(({ call }) => call.generation ?? []);
    const askedGeneration = asked.length === 0 ? undefined : Math.max(...asked);
    const seen = { namespaceId: scope.namespaceId, generation, askedGeneration, changes, serverMs };
    this.#parts.onAnswer({ ...seen, nowMs, bucket, newBuckets });
    const rows = new RowsAfter(draft, reply, this.#parts);
    rows.noteIn(scope.known, draft, reply);
    const again: Job[] = [];
    for (const [i, job] of jobs.entries()) {
      try {
        const context = this.#contextOf(job);
        const answer = answerOf(job.call, reply.replies[i] as (typeof reply.replies)[0], rows, draft, context);
        if (answer === "again" && this.#hasToReadLimits(job)) {
          this.#settle(job, job.call.kind === "take" ? "ended" : "stale");
        } else if (answer !== "again" && answer !== "clock") {
          if (job.isLate) this.#undo(job, answer);
          this.#settle(job, told(answer, job));
        } else if (++job.tries < TRIES_MAX && !job.isOver) {
          if (answer === "clock") job.nowMs = this.#parts.clock?.now() ?? job.nowMs;
          again.push(job);
        } else
          this.#settle(
            job,
            contended(job.call, (id) => scope.known.get(id)?.record, context),
          );
      } catch (error) {
        this.#fail(job, error);
      }
    }
    // They are the oldest, and nobody who comes later overtakes them.
    if (again.length > 0) this.#queue = [...again, ...this.#queue];
  }

  /**
   * Gives back what a take has taken after its caller was answered that the store is unavailable. One that has written a lease stays: a
   * repeat under its key is answered with it, and without a key it ends with its time.
   */
  #undo({ scope, call, time, nowMs }: Job, reply: Reply): void {
    if (call.kind !== "take" || call.lease !== undefined || !Array.isArray(reply)) return;
    for (const [i, answer] of (reply as readonly Answer[]).entries()) {
      if (answer.kind !== "taken") return;
      const { shadowed, ticket, state } = answer;
      const asked = call.claims[i] as Claim;
      const claim = shadowed.length === 0 ? asked : { ...asked, take: withoutShadowed(asked.take, shadowed), shadowed };
      const held = { ...asked, ticket };
      const undone = undoneOf(state, claim, nowMs);
      // If that fails, the amounts count as used.
      const slots = { undoes: "request" } as const;
      const unmet = { generation: undefined, stored: undefined, mayBeEnded: false };
      this.submit(
        scope,
        { kind: "credit", held, amounts: claim.take, slots, undone, ...unmet },
        { ...time, nowMs, signal: undefined },
      ).catch(() => {});
    }
  }

  /** A row shows the end of an override that a write which brings no limits of now would pass over. */
  #hasToReadLimits({ scope, call, nowMs }: Job): boolean {
    if (!call.mayBeEnded) return false;
    const stateOf = ({ bucket }: LimitedBucket) => scope.known.get(bucket.id)?.record.state;
    if (call.kind === "take") {
      return call.limitsFrom === "lease" && call.claims.some((claim) => passesOverEnd(stateOf(claim), nowMs, claim));
    }
    return call.generation !== undefined && call.stored === undefined && mayHavePassedEnd(stateOf(call.held), nowMs);
  }

  #contextOf({ scope, call, nowMs }: Job): RuleContext {
    const { calendar, countsUsage } = this.#parts;
    const stored = call.kind === "take" ? undefined : call.stored;
    const current = stored && { of: () => stored };
    return { nowMs, calendar, generation: scope.config.generation() ?? 0, countsUsage, current };
  }

  #settle(job: Job, reply: Reply): void {
    if (job.isOver) return;
    job.isOver = true;
    job.endTimer();
    job.resolve(reply);
  }

  #fail(job: Job, error: unknown): void {
    if (job.isOver) return;
    job.isOver = true;
    job.endTimer();
    job.reject(error);
  }
}

/** The answer says which reading it went by, where that is not the caller's. */
function told(reply: Reply, { nowMs, time }: Job): Reply {
  if (nowMs === time.nowMs || !Array.isArray(reply)) return reply;
  return reply.map((answer) =>
    answer.kind === "taken" || answer.kind === "short" || answer.kind === "skipped"
      ? { ...answer, readingMs: nowMs }
      : answer,
  );
}
