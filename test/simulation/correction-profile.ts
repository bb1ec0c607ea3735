import { SeededRandom } from "../../src/testing/random.ts";
import type { Profile } from "./profile.ts";

/** One of twelve worlds charges and gives back without leases, so that all others stay as they are, and the bugs that were found in them. */
export function hasCorrections(seed: number): boolean {
  return seed % 17 === 14 || seed % 36 === 5;
}

/** The same world where amounts are charged and given back without a lease, if it is one of those; while limits change, in most. */
export function withCorrections(seed: number, profile: Profile): Profile {
  if (!hasCorrections(seed)) return profile;
  const random = new SeededRandom(seed + 2 ** 48);
  const { weights } = profile;
  const limits = Math.max(weights.limits, random.pick([0, 0.5, 2]));
  const greedy = Math.max(weights.greedy, random.pick([0, 1]));
  const others = Object.values({ ...weights, limits, greedy }).reduce((sum, weight) => sum + weight, 0);
  return { ...profile, weights: { ...weights, limits, greedy, correct: others * random.pick([0.2, 0.5, 1]) } };
}
