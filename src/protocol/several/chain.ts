import type { Answer, Claim, TakenAnswer } from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";
import { PAUSES_MAX } from "../process/retry-policy.ts";
import { UNSEEN } from "./looks.ts";

/** What taking a chain of claims needs of the store: each bucket is an item of its own. */
export interface ChainOps {
  /** Rejects with what no caller can do anything about: access denied, a table that is not there, a fault of ours. */
  take(claim: Claim): Promise<Answer>;
  /** False when certainly nothing was written, so that the claim is still held. */
  giveBack(claim: Claim, taken: TakenAnswer): Promise<boolean>;
  /** Whether `noteScarce` was called for the bucket in the last seconds. */
  isScarce(claim: Claim): boolean;
  noteScarce(claim: Claim): void;
  /** Whether other processes were seen to write to the bucket lately. */
  hasOthers(claim: Claim): boolean;
}

interface ChainContext {
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  /** When the caller must have an answer. */
  readonly untilMs: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * Takes several claims that are not one transaction. The claims come with the entity first and its parents after it, and that
 * order decides who yields: a request may keep what it holds of the levels before the one that is short, and must give back
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
    // Where no other process writes, no other request holds tokens that it is about to give back.
    if (short === undefined || !ops.hasOthers(claims[short] as Claim)) break;
    if (!(await attempt.yieldAbove(short))) break;
    pauses++;
    isTaken = await attempt.ask(missingIn(attempt.answers));
  }
  const scarce = scarceAfter(attempt.answers, pauses);
  if (scarce !== undefined) ops.noteScarce(claims[scarce] as Claim);
  return attempt.concluded();
}

/** What became of one claim of a chain; undefined: not asked yet, or given back. */
export type ChainAnswer = Answer | Thrown | undefined;

interface Thrown {
  readonly kind: "thrown";
  readonly error: unknown;
}

/**
 * In which order the levels are asked, as indices: those of one stage at the same time, the next stage when all of them gave.
 * While nothing is scarce that is one stage. Scarce levels go first, one by one, so that no request holds what it cannot use.
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
 * The level that is short, when it is worth asking again: something is held before it. Others that hold it without having the
 * levels before it give it back within a trip or two. Where nothing is held before it the refusal is final: those who hold it
 * hold everything that this request could hold.
 */
export function yieldAt(answers: readonly ChainAnswer[]): number | undefined {
  if (answers.some((answer) => answer !== undefined && !isDecided(answer))) return undefined;
  const short = answers.findIndex((answer) => answer !== undefined && answer.kind !== "taken");
  return answers.slice(0, short).some((answer) => answer?.kind === "taken") ? short : undefined;
}

/** What is still to be asked for, one level after the other. */
export function missingIn(answers: readonly ChainAnswer[]): readonly (readonly number[])[] {
  return answers.flatMap((answer, i) => (answer?.kind === "taken" ? [] : [[i]]));
}

/**
 * The level that should go first next time: the one that refused; or, when the request was only held up, the first of the chain,
 * for then others want the same levels, and all should ask for them in the same order.
 */
export function scarceAfter(answers: readonly ChainAnswer[], pauses: number): number | undefined {
  const short = answers.findIndex((answer) => answer?.kind === "short" || answer?.kind === "contended");
  if (short >= 0) return short;
  return pauses > 0 ? 0 : undefined;
}

function isDecided({ kind }: Answer | Thrown): boolean {
  return kind === "taken" || kind === "short" || kind === "contended";
}

/** One request on its way through the levels: what it holds, and how much time it has left. */
class Attempt {
  readonly answers: ChainAnswer[];
  readonly #claims: readonly Claim[];
  readonly #ops: ChainOps;
  readonly #context: ChainContext;
  /** How long the store took to answer last. */
  #tripMs = 1;

  constructor(claims: readonly Claim[], ops: ChainOps, context: ChainContext) {
    this.#claims = claims;
    this.#ops = ops;
    this.#context = context;
    this.answers = claims.map(() => undefined);
  }

  /** Asks stage after stage until one does not give; true when all gave. */
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

  /** Gives back what is held above a level that is short, and lets others do the same; false when there is no time for it. */
  async yieldAbove(short: number): Promise<boolean> {
    const { clock, random, signal } = this.#context;
    const pauseMs = Math.ceil(this.#tripMs * (0.5 + random()));
    if (pauseMs >= this.#leftMs()) return false;
    await Promise.all(this.answers.map((_, i) => (i > short ? this.#giveBack(i) : undefined)));
    if (pauseMs >= this.#leftMs()) return false;
    // The engine hears of an abort by itself; what is held then is given back like that of any refusal.
    await clock.sleep(pauseMs, signal).catch(() => {});
    return !signal?.aborted && this.#leftMs() > 1;
  }

  /** The answers; or, when a claim was rejected, that error, after everything held was given back. */
  async concluded(): Promise<readonly Answer[]> {
    const thrown = this.answers.find((answer) => answer?.kind === "thrown") as Thrown | undefined;
    if (thrown === undefined) {
      // Not sent, because another was not granted.
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
