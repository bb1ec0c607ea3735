import type { BucketState } from "../../src/domain/bucket/bucket-state.ts";
import { type Amount, milliOf } from "../../src/domain/charge/amounts.ts";
import type { Held } from "../../src/ports/bucket-store.ts";
import type { ModelLimit } from "../kit/model.ts";
import type { ModelBucket, ModelPins } from "../kit/model-bucket.ts";
import { storedMilli } from "../kit/model-stored.ts";

// What a store that applies a call as a whole may give back without a lease: at most what is missing, and not less than that.

/** A store rounds what drips by a millitoken, and so does the model. */
const ROUNDING = 2n;

/** A refund that has not been answered yet. */
export class OpenRefund {
  readonly held: Held;
  readonly nowMs: number;
  readonly #asked: readonly Amount[];
  /** What the bucket shows to have been given before the answer came. */
  readonly #early = new Map<string, number>();
  /** The least that was missing since it began. */
  readonly #least = new Map<string, bigint>();

  constructor(held: Held, asked: readonly Amount[], nowMs: number) {
    this.held = held;
    this.nowMs = nowMs;
    this.#asked = asked;
  }

  /** The bucket stands differently from now on; undefined: there is none, or nobody knows how it stands. */
  look(model: ModelBucket | undefined): void {
    // What a boundary makes of it shows once the model is across.
    if (model !== undefined && this.nowMs >= model.nextBoundaryMs) return;
    for (const { limit } of this.#asked) {
      const missing = model === undefined ? 0n : missingIn(model, limit, this.nowMs).least + this.#earlyOf(limit);
      const before = this.#least.get(limit);
      this.#least.set(limit, before === undefined || missing < before ? missing : before);
    }
  }

  /** A bucket that others are shown meanwhile may have it already: a store of batches gives first, and says afterwards how much it was. */
  seen(model: ModelBucket, state: BucketState): void {
    for (const { limit: name, milli } of this.#asked) {
      const [limit, stored] = [model.limit(name), state.limits.find((one) => one.name === name)];
      if (limit === undefined || stored === undefined || limit.limit.holdMs !== undefined) continue;
      if (JSON.stringify(limit.limit) !== JSON.stringify(stored.limit)) continue;
      const atMs = Math.max(this.nowMs, state.epochMs);
      const more = Number(storedMilli(stored, state.epochMs, atMs) - limit.levelMilli(atMs));
      const part = Math.min(more, milli - (this.#early.get(name) ?? 0));
      if (more <= 1 || part <= 0) continue;
      this.#early.set(name, (this.#early.get(name) ?? 0) + part);
      model.giveBack([{ limit: name, milli: part }], periodsOf(model), this.nowMs);
    }
  }

  /** What the bucket has not shown yet of what was given. */
  rest(given: readonly Amount[]): readonly Amount[] {
    return given.map(({ limit, milli }) => ({ limit, milli: milli - (this.#early.get(limit) ?? 0) }));
  }

  /** What is wrong with what was given; the model goes by the limits in force, and has the rest of it still to get. */
  problems(model: ModelBucket, given: readonly Amount[]): string[] {
    this.look(model);
    const odd = [...given, ...this.#earlyAmounts()].flatMap(({ limit, milli }) => {
      const asked = milliOf(this.#asked, limit);
      return milli > asked ? [`${milli} of ${limit} were given back, and ${asked} asked for`] : [];
    });
    const wrong = this.#asked.flatMap(({ limit: name, milli: asked }) => {
      const milli = milliOf(given, name);
      const limit = model.limit(name);
      if (limit === undefined || limit.limit.holdMs !== undefined) {
        return milli > 0 ? [`${milli} of ${name} were given back, which has nothing to give back to`] : [];
      }
      const most = missingIn(model, name, this.nowMs).most + this.#earlyOf(name);
      if (BigInt(milli) > most + ROUNDING)
        return [`${milli} of ${name} were given back, and only ${most} were missing`];
      const least = this.#least.get(name) ?? 0n;
      const due = least < BigInt(asked) ? least : BigInt(asked);
      if (BigInt(milli) >= due - ROUNDING) return [];
      return [`only ${milli} of ${asked} of ${name} were given back, and ${least} were missing all the time`];
    });
    return [...odd, ...wrong];
  }

  #earlyOf(limit: string): bigint {
    return BigInt(this.#early.get(limit) ?? 0);
  }

  #earlyAmounts(): readonly Amount[] {
    return [...this.#early].map(([limit, milli]) => ({ limit, milli }));
  }
}

/** The periods that something given back now belongs to. */
export function periodsOf(model: ModelBucket): ModelPins {
  return new Map(model.limits.flatMap(({ limit, period }) => (period === undefined ? [] : [[limit.name, period]])));
}

interface Missing {
  readonly least: bigint;
  readonly most: bigint;
}

/** What is missing of a limit at a reading, in each of the ways in which it may stand. */
function missingIn(model: ModelBucket, name: string, readingMs: number): Missing {
  const all = model.candidates(name).map((limit) => roomOf(limit, readingMs));
  const [first = 0n] = all;
  const lesser = (a: bigint, b: bigint) => (b < a ? b : a);
  return { least: all.reduce(lesser, first), most: -all.reduce((a, b) => lesser(a, -b), -first) };
}

function roomOf(limit: ModelLimit, readingMs: number): bigint {
  const room = limit.brimMilli - limit.levelMilli(readingMs);
  return room > 0n ? room : 0n;
}
