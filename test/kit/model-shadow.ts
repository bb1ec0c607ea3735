import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { ModelLimit } from "./model.ts";
import type { ModelBucket } from "./model-bucket.ts";
import { type StoredBucket, storedMilli } from "./model-stored.ts";
import { floorOf } from "./model-terms.ts";

// What a shadow must make of a take: it decides like a hard limit, and refuses nothing.

/** A take as a store answered it. */
interface AnsweredTake {
  /** All that it asked for. */
  readonly asked: readonly Amount[];
  /** The shadows that it passed by, as it was told. */
  readonly shadowed: readonly string[];
  readonly readingMs: number;
  readonly leavePercent: number;
}

/** What was taken: nothing of what passed by. */
export function takenOf(asked: readonly Amount[], shadowed: readonly string[]): readonly Amount[] {
  return shadowed.length === 0 ? asked : asked.filter(({ limit }) => !shadowed.includes(limit));
}

/**
 * Where a take was not decided as a hard limit would have; empty where it was. `before`: the bucket before the take, by the model;
 * `after`: as the store has it after the take. To a millitoken, or where only the store can say how a limit stood, its own numbers decide.
 */
export function shadowProblems(before: ModelBucket, after: StoredBucket, take: AnsweredTake): string[] {
  const { asked, shadowed, readingMs, leavePercent } = take;
  const strays = shadowed
    .filter((name) => !asked.some(({ limit }) => limit === name) || before.limit(name)?.limit.shadow !== true)
    .map((name) => `a take passed by ${name}, which is no shadow of it`);
  return [
    ...strays,
    ...asked.flatMap(({ limit: name, milli }) => {
      if (before.limit(name)?.limit.shadow !== true) return [];
      const passed = shadowed.includes(name);
      const fits = byModel(before.candidates(name), milli, readingMs, leavePercent) ?? byStore(after, name, take);
      if (fits === undefined || fits !== passed) return [];
      const held = before.limit(name)?.levelMilli(readingMs);
      return [`${milli} ${passed ? "passed by" : "were taken from"} the shadow ${name}, which held ${held}`];
    }),
  ];
}

/** Whether so much fits; undefined where that is not certain: by a millitoken, as the limit may stand in several ways, or only the store knows. */
function byModel(
  ways: readonly ModelLimit[],
  milli: number,
  readingMs: number,
  leavePercent: number,
): boolean | undefined {
  const answers = ways.map((way) => {
    if (way.isDoubted) return undefined;
    const [level, needed] = [way.levelMilli(readingMs), BigInt(milli) + floorOf(way, leavePercent)];
    // A full limit holds its brim to the millitoken.
    const spare = level === way.brimMilli ? 0n : 1n;
    if (level >= needed + spare) return true;
    return level + spare < needed ? false : undefined;
  });
  const [first] = answers;
  return answers.every((one) => one === first) ? first : undefined;
}

/** The same by what is stored after the take: a taken amount was in it before. */
function byStore(
  { limits, epochMs, validUntilMs }: StoredBucket,
  name: string,
  { asked, shadowed, readingMs, leavePercent }: AnsweredTake,
): boolean | undefined {
  const stored = limits.find((one) => one.name === name);
  if (stored === undefined) return undefined;
  const milli = BigInt(asked.find(({ limit }) => limit === name)?.milli ?? 0);
  const left = storedMilli(stored, epochMs, Math.min(readingMs, validUntilMs - 1));
  const floor = (BigInt(stored.terms.capacityMilli) * BigInt(leavePercent) + 99n) / 100n;
  return (shadowed.includes(name) ? left : left + milli) >= milli + floor;
}
