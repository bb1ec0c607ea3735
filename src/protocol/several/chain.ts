import { withoutShadowed } from "../../domain/bucket/bucket-questions.ts";
import type { Answer, Claim, TakenAnswer } from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { ProtocolContext } from "../context.ts";
import { giveBack } from "../give-back/crediting.ts";
import type { Called } from "../process/call.ts";
import { PAUSES_MAX } from "../process/retry-policy.ts";
import { UNSEEN } from "./looks.ts";

/** The operations that a chain of claims needs: each bucket is an item of its own. */
export interface ChainOps {
  /** Rejects with errors that no caller can handle: access denied, a missing table, a fault of ours. */
  take(claim: Claim): Promise<Answer>;
  /** False if certainly nothing was written, so that the claim is still held. */
  giveBack(claim: Claim, taken: TakenAnswer): Promise<boolean>;
  /** True if `noteScarce` was called for the bucket in the last seconds. */
  isScarce(claim: Claim): boolean;
  noteScarce(claim: Claim): void;
  /** True if other processes were seen to write to the bucket lately. */
  hasOthers(claim: Claim): boolean;
}

interface ChainContext {
  readonly clock: Clock;
  readonly random: () => number;
  readonly untilMs: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * Takes several claims that are not one transaction. The claims come with the entity first and its parents after it, and that
 * order decides which request yields: it may keep what it holds of the levels before the one that is short, and must give back
 * what it holds of the levels after it. So of two requests that hold what the other one needs, one goes on. See "Several levels"
 * in docs/protocol.md.
 */
export async function takeChain(
  claims: readonly Claim[],
  ops: ChainOps,
  context: ChainContext,
): Promise<readonly Answer[]> {
  const attempt = new Attempt(claims, ops, context);
  let isTaken = await attempt.ask(stagesOf(claims.map((claim) => ops.isScarce(claim))));
  let pauses = 0;
  while (!isTaken && pauses < PAUSES_MAX) {
    const short = yieldAt(attempt.answers);
    // If no other process writes, no other request holds tokens that it is about to give back.
    if (short === undefined || !ops.hasOthers(claims[short] as Claim)) break;
    if (!(await attempt.yieldAbove(short))) break;
    pauses++;
    isTaken = await attempt.ask(missingIn(attempt.answers));
  }
  const scarce = scarceAfter(attempt.answers, pauses);
  if (scarce !== undefined) ops.noteScarce(claims[scarce] as Claim);
  return attempt.concluded();
}

/** The outcome of one claim of a chain; undefined: not asked yet, or given back. */
export type ChainAnswer = Answer | Thrown | undefined;

interface Thrown {
  readonly kind: "thrown";
  readonly error: unknown;
}

/**
 * The order in which levels are asked, as indices: the levels of a stage at the same time, the next stage once all of them gave.
 * If nothing is scarce there is one stage. Scarce levels go first, one by one, so that no request holds what it cannot use.
 */
export function stagesOf(isScarce: readonly boolean[]): readonly (readonly number[])[] {
  const scarce: number[] = [];
  const plenty: number[] = [];
  for (const [i, is] of isScarce.entries()) (is ? scarce : plenty).push(i);
  const stages = scarce.map((i) => [i]);
  if (plenty.length > 0) stages.push(plenty);
  return stages;
}

/**
 * The level that is short, if it is worth asking again: something is held before it. Requests that hold it without the levels
 * before it give it back within a trip or two. If nothing is held before it the refusal is final: the requests that hold it hold
 * everything that this one could hold.
 */
export function yieldAt(answers: readonly ChainAnswer[]): number | undefined {
  if (answers.some((answer) => answer !== undefined && !isDecided(answer))) return undefined;
  const short = answers.findIndex((answer) => answer !== undefined && answer.kind !== "taken");
  return answers.slice(0, short).some((answer) => answer?.kind === "taken") ? short : undefined;
}

export function missingIn(answers: readonly ChainAnswer[]): readonly (readonly number[])[] {
  return answers.flatMap((answer, i) => (answer?.kind === "taken" ? [] : [[i]]));
}

/**
 * The level that should go first next time: the one that refused; or, if the request was only held up, the first of the chain:
 * others want the same levels, and all should ask for them in the same order.
 */
export function scarceAfter(answers: readonly ChainAnswer[], pauses: number): number | undefined {
  const short = answers.findIndex((answer) => answer?.kind === "short" || answer?.kind === "contended");
  if (short >= 0) return short;
  return pauses > 0 ? 0 : undefined;
}

function isDecided({ kind }: Answer | Thrown): boolean {
  return kind === "taken" || kind === "short" || kind === "contended";
}

/** One request on its way through the levels: its holdings, and its remaining time. */
class Attempt {
  readonly answers: ChainAnswer[];
  readonly #claims: readonly Claim[];
  readonly #ops: ChainOps;
  readonly #context: ChainContext;
  #tripMs = 1;

  constructor(claims: readonly Claim[], ops: ChainOps, context: ChainContext) {
    this.#claims = claims;
    this.#ops = ops;
    this.#context = context;
    this.answers = claims.map(() => undefined);
  }

  /** Asks stage after stage until one does not give; true if all gave. */
  async ask(stages: readonly (readonly number[])[]): Promise<boolean> {
    const { clock } = this.#context;
    for (const stage of stages) {
      const sentMs = clock.now();
      await Promise.all(stage.map((i) => this.#askOne(i)));
      this.#tripMs = Math.max(1, clock.now() - sentMs);
      if (stage.some((i) => this.answers[i]?.kind !== "taken")) return false;
    }
    return true;
  }

  /** Gives back what is held above a level that is short, and lets others do the same; false if there is no time for it. */
  async yieldAbove(short: number): Promise<boolean> {
    const { clock, random, signal } = this.#context;
    const pauseMs = Math.ceil(this.#tripMs * (0.5 + random()));
    if (pauseMs >= this.#leftMs()) return false;
    await Promise.all(this.answers.map((_, i) => (i > short ? this.#giveBack(i) : undefined)));
    if (pauseMs >= this.#leftMs()) return false;
    // The engine notices an abort by itself; what is held then is given back like after any refusal.
    await clock.sleep(pauseMs, signal).catch(() => {});
    return !signal?.aborted && this.#leftMs() > 1;
  }

  /** The answers. If a claim was rejected, everything held is given back and the error thrown. */
  async concluded(): Promise<readonly Answer[]> {
    const thrown = this.answers.find((answer) => answer?.kind === "thrown") as Thrown | undefined;
    if (thrown === undefined) {
      // The claim was not sent, because another was not granted.
      return this.answers.map((answer) => (answer as Answer | undefined) ?? UNSEEN);
    }
    await Promise.all(this.answers.map((_, i) => this.#giveBack(i)));
    throw thrown.error;
  }

  async #askOne(i: number): Promise<void> {
    try {
      this.answers[i] = await this.#ops.take(this.#claims[i] as Claim);
    } catch (error) {
      this.answers[i] = { kind: "thrown", error };
    }
  }

  async #giveBack(i: number): Promise<void> {
    const answer = this.answers[i];
    if (answer?.kind !== "taken") return;
    try {
      if (await this.#ops.giveBack(this.#claims[i] as Claim, answer)) this.answers[i] = undefined;
    } catch (error) {
      this.answers[i] = { kind: "thrown", error };
    }
  }

  #leftMs(): number {
    const { clock, untilMs } = this.#context;
    return untilMs - clock.now();
  }
}

export function chainOps(context: ProtocolContext, call: Called, take: ChainOps["take"]): ChainOps {
  const { caches, clock, returned } = context;
  const { nowMs } = call;
  const cacheOf = ({ bucket }: Claim) => caches.of(bucket);
  return {
    take,
    giveBack: async (claim, { ticket }) => {
      const { bucket } = claim;
      // Nothing was taken from a shadow that let it pass.
      const taken = withoutShadowed(claim.take, ticket.shadowed);
      // The give-back has the rest of the request's time; after that it goes on in the background.
      const timeoutMs = Math.max(1, call.untilMs - clock.now());
      const reply = await giveBack(context, { ...claim, ticket }, taken, { nowMs, timeoutMs, undoes: "request" });
      returned({ after: "refusal", bucket, amounts: taken, askedMs: nowMs });
      return reply.kind !== "unavailable" || reply.applied === "unknown";
    },
    isScarce: (claim) => cacheOf(claim).isScarce(nowMs),
    noteScarce: (claim) => {
      cacheOf(claim).scarceAtMs = nowMs;
    },
    hasOthers: (claim) => cacheOf(claim).hasOtherWriters(nowMs),
  };
}
