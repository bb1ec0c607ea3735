import type { Limit } from "../domain/limits/limit.ts";
import { limitOfText } from "../domain/limits/limit-text.ts";
import { given } from "../domain/names/given.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";

/** The limits of a body: objects, and texts such as `rpm:100/min` as on the command line. The library checks what they say. */
export function givenLimits(limiter: Limiter, limits: readonly (object | string)[]): readonly Limit[] {
  const { calendar } = partsOf(limiter).deps;
  return limits.map((limit) => (typeof limit === "string" ? limitOfText(limit, calendar) : (given(limit) as Limit)));
}
