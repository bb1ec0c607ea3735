import { SeededRandom } from "../../src/testing/random.ts";
import type { Client, Surroundings } from "./client.ts";
import type { Profile } from "./profile.ts";
import { hasSlots } from "./slot-profile.ts";

/**
 * Two of seventeen worlds have limits with an end, so that all others stay as they are, and the bugs that were found in them; of those with
 * slots, which are rare, every second of them.
 */
export function hasEnds(seed: number): boolean {
  const isOne = seed % 17 === 0 || seed % 17 === 8;
  return isOne && !(hasSlots(seed) && seed % 2 === 1);
}

/** The same world where limits and access are often set until an instant, if it is one of those; nothing that is asked for is taken away. */
export function withEnds(seed: number, profile: Profile): Profile {
  if (!hasEnds(seed)) return profile;
  const random = new SeededRandom(seed + 2 ** 48);
  const { weights, levels } = profile;
  const often = (weight: number, share: number) => Math.max(weight, random.chance(share) ? random.pick([2, 6]) : 0);
  return {
    ...profile,
    ends: random.pick([0.4, 0.7]),
    weights: {
      ...weights,
      hold: Math.max(8, weights.hold),
      greedy: Math.max(2, weights.greedy),
      look: Math.max(0.5, weights.look),
      again: Math.max(1, weights.again),
      limits: Math.max(random.pick([2, 6]), weights.limits),
      policies: often(weights.policies, 0.3),
      ...(levels === undefined ? {} : { totals: often(weights.totals, 0.5), plans: often(weights.plans, 0.5) }),
    },
  };
}

/** What a set says of an end: until when it counts, or that what has one goes on to it. Nothing, in worlds without. */
export function drawEnd(
  random: SeededRandom,
  { clock }: Client,
  { profile, truth, journal }: Surroundings,
): { readonly untilMs?: number; readonly keepOverride?: true } {
  const { ends, momentMs } = profile;
  if (ends === undefined) return {};
  if (!random.chance(ends)) return random.chance(0.4) ? { keepOverride: true } : {};
  journal.count("sets with an end");
  const nowMs = clock.now();
  const knownMs = truth.nextEndMs(nowMs);
  const lasting = random.integer(1, random.pick([2, 1_000, momentMs, 4 * momentMs, 7_200_000]));
  // Now and then at the very instant of another.
  return { untilMs: knownMs !== undefined && random.chance(0.3) ? knownMs : nowMs + lasting };
}

/** Which part of what a level says is deleted: all of it, or only what has an end. */
export function drawPart(random: SeededRandom, { ends }: Profile): { readonly override?: true } {
  return ends !== undefined && random.chance(0.5) ? { override: true } : {};
}
