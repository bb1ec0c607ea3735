import assert from "node:assert/strict";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Tokens } from "../../src/domain/charge/amounts.ts";
import { type ConfigScope, type LimitsChange, levelAt } from "../../src/domain/config/config.ts";
import { changesIn } from "../../src/domain/config/config-versions.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { SetReply } from "../../src/ports/config-store.ts";
import { amountsOf, T0, type TestedNamespace } from "./contract-kit.ts";

// What the contracts of changed limits share: one bucket, of `a` on `api`, with one limit `r`.

export const perSecond = (rate: number, burst = 100_000) => [Limit.perSecond("r", rate, { burst })];

/** Somebody who asks at that time: by the limits, the changes and the ends as they are stored. */
export async function claimNow(place: TestedNamespace, tokens: Tokens, atMs = T0): Promise<Claim> {
  const level = levelAt(await place.resolve("a", "api"), atMs);
  const origin: SetOrigin = {
    asOfMs: level.changes?.at(-1)?.fromMs ?? T0,
    generation: place.scope.config.generation?.() ?? null,
    ...changesIn(level, limitSet),
  };
  const bucket = bucketKey("a", "api");
  const take = amountsOf(tokens);
  return { bucket, set: limitSet(level.limits), origin, take, bypass: false, isConfigJustRead: true };
}

export async function drained(place: TestedNamespace, atMs: number): Promise<void> {
  const [answer] = await place.take([await claimNow(place, { r: 100_000 }, atMs)], atMs);
  assert.equal(answer?.kind, "taken");
}

/** Tokens that somebody finds who asks at that time. */
export async function held(place: TestedNamespace, atMs: number): Promise<number> {
  return (await place.holds(await claimNow(place, {}, atMs), "r", atMs)) / 1000;
}

export async function setAt(
  place: TestedNamespace,
  scope: ConfigScope,
  limits: readonly Limit[],
  atMs: number,
  options: Omit<LimitsChange, "limits"> = {},
): Promise<SetReply> {
  return place.scope.config.set(scope, { limits, ...options }, place.event("limits_set", "somebody", atMs));
}

export async function deleteAt(place: TestedNamespace, scope: ConfigScope, atMs: number): Promise<void> {
  await place.scope.config.delete(scope, place.event("limits_deleted", "somebody", atMs), "all");
}
