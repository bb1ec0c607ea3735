import { checkLimits, type Limit } from "../../src/domain/limits/limit.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { calendar } from "./calendar.ts";
import { drawPalette, type Profile } from "./profile.ts";

/** Every seventh world has shadows, so that all others stay as they are, and the bugs that were found in them. */
export function hasShadows(seed: number): boolean {
  return seed % 7 === 5;
}

/**
 * The same world where some limits are shadows, if it is one of those. Each set of limits is there in several modes, so that a limit
 * that is set again is made hard, soft or a shadow while it stays the same otherwise.
 */
export function withShadows(seed: number, profile: Profile): Profile {
  if (!hasShadows(seed)) return profile;
  const random = new SeededRandom(seed + 2 ** 47);
  const { palette, levels, weights } = profile;
  const shadowed = (sets: Profile["palette"]) => [
    ...sets.map((set) => inShadow(set, random)),
    ...sets.filter(() => random.chance(0.3)),
    ...sets.filter(() => random.chance(0.3)).map((set) => inOtherModes(set, random)),
  ];
  return {
    ...profile,
    palette: shadowed(palette.length === 0 ? drawPalette(random, profile) : palette),
    weights: {
      ...weights,
      limits: random.chance(0.5) ? Math.max(1, weights.limits) : weights.limits,
      greedy: Math.max(1, weights.greedy),
    },
    ...(levels === undefined ? {} : { levels: { ...levels, totals: shadowed(levels.totals) } }),
  };
}

/** Most hard limits as shadows, some of them so small that most requests pass by. */
function inShadow(limits: readonly Limit[], random: SeededRandom): readonly Limit[] {
  return checkLimits(
    limits.map((limit) => (limit.soft || !random.chance(0.6) ? limit : made("shadow", smaller(limit, random)))),
    calendar,
  );
}

function inOtherModes(limits: readonly Limit[], random: SeededRandom): readonly Limit[] {
  return checkLimits(
    limits.map((limit) => made(random.pick(["hard", "soft", "shadow", "shadow"]), limit)),
    calendar,
  );
}

function made(mode: "hard" | "soft" | "shadow", { soft: _, shadow: __, ...limit }: Limit): Limit {
  return mode === "hard" ? limit : { ...limit, [mode]: true };
}

function smaller(limit: Limit, random: SeededRandom): Limit {
  const part = random.pick([1, 1, 3, 10]);
  // What a window says stands for itself.
  return limit.schedule === undefined ? { ...limit, capacity: Math.ceil(limit.capacity / part) } : limit;
}
