import { refilledMilli } from "../../bucket/level.ts";
import { debtMaxMilli } from "../../bucket/share.ts";
import type { LimitState } from "../../domain/bucket/bucket-state.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { namesOf, TTL } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import { keptUntilFromS } from "../item/ttl.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import { debtsOf, type Low } from "../take/expiry.ts";
import type { Env, Intent } from "../take/intent.ts";
import { atLeast, leastMilli } from "../take/moves.ts";

// The original does not look at debts when it sets an expiry. On a table of our own nothing here does anything.

/** Whether an item may expire before it has paid what it owes, because a writer that ignores debts set its expiry. */
export function expiresInDebt({ item, state }: Image, readingMs: number, { calendar, dialect }: Env): boolean {
  const ttl = numberOf(item, TTL);
  if (!dialect.expiryIgnoresDebts || ttl === undefined) return false;
  const fromMs = Math.max(readingMs, state.epochMs);
  const debts = debtsOf(state.limits, fromMs - state.epochMs, []);
  if (debts.length === 0) return false;
  const untilS = keptUntilFromS(debts, fromMs, calendar);
  return untilS === undefined || ttl < untilS;
}

/**
 * Makes the write fail where a limit stands below `milli` by now. The original takes limits into debt and leaves the expiry as it
 * is, so an expiry of ours that goes by the image says how deep that may have been meanwhile. Quotas owe nothing after a reset.
 */
export function boundDebt(builder: WriteBuilder, { name, limit }: LimitState, milli: number, { dialect }: Env): void {
  if (dialect.expiryIgnoresDebts && rulesOf(limit).refillsSteadily) atLeast(builder, namesOf(name).tk, milli);
}

/** The same for what a plain write takes nothing from; how low each of them may stand. */
export function boundDebts(builder: WriteBuilder, { state }: Image, { readingMs, moves }: Intent, env: Env): Low[] {
  const low: Low[] = [];
  if (!env.dialect.expiryIgnoresDebts) return low;
  for (const held of state.limits) {
    if (moves.some(({ limit }) => limit === held.name)) continue;
    const risen = refilledMilli(held.remainder, held.terms, readingMs - state.epochMs);
    const isOwing = held.tokensMilli + risen < 0;
    const least = isOwing
      ? leastMilli(held.tokensMilli - held.terms.capacityMilli, -debtMaxMilli(held.part))
      : 0 - risen;
    boundDebt(builder, held, least, env);
    if (isOwing) low.push({ limit: held, lowMilli: least + risen });
  }
  return low;
}
