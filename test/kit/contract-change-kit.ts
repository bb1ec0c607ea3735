import assert from "node:assert/strict";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Tokens } from "../../src/domain/charge/amounts.ts";
import type { ConfigScope, LevelOptions } from "../../src/domain/config/config.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { amountsOf, T0, type TestedNamespace } from "./contract-kit.ts";

// What the contracts of changed limits share: one bucket, of `a` on `api`, with one limit `r`.

export const perSecond = (rate: number, burst = 100_000) => [Limit.perSecond("r", rate, { burst })];

/** Somebody who asks now: by the limits and the changes as they are stored. */
export async function claimNow(place: TestedNamespace, tokens: Tokens): Promise<Claim> {
  const { limits, changes = [] } = await place.resolve("a", "api");
  const sets = changes.map((change) => ({ ...change, set: limitSet(change.limits) }));
  const { fromMs, number: changeNumber } = changes.at(-1) ?? {};
  const origin: SetOrigin = {
    asOfMs: fromMs ?? T0,
    generation: place.scope.config.generation?.() ?? null,
    ...(changeNumber === undefined ? {} : { changeNumber, changes: sets }),
  };
  const bucket = bucketKey("a", "api");
  return { bucket, set: limitSet(limits), origin, take: amountsOf(tokens), bypass: false, isConfigJustRead: true };
}

export async function drained(place: TestedNamespace, atMs: number): Promise<void> {
  const [answer] = await place.take([await claimNow(place, { r: 100_000 })], atMs);
  assert.equal(answer?.kind, "taken");
}

/** Tokens that somebody finds who asks at that time. */
export async function held(place: TestedNamespace, atMs: number): Promise<number> {
  return (await place.holds(await claimNow(place, {}), "r", atMs)) / 1000;
}

export async function setAt(
  place: TestedNamespace,
  scope: ConfigScope,
  limits: readonly Limit[],
  atMs: number,
  options: LevelOptions = {},
): Promise<void> {
  await place.scope.config.set(scope, { limits, ...options }, place.event("limits_set", "somebody", atMs));
}

export async function deleteAt(place: TestedNamespace, scope: ConfigScope, atMs: number): Promise<void> {
  await place.scope.config.delete(scope, place.event("limits_deleted", "somebody", atMs));
}
