import { waitText } from "../domain/limits/durations.ts";
import type { LoggedRefusal, PastExplanation, PastLevel, PastLimit } from "../entry/index.ts";
import { tokensText } from "./limit-text.ts";

/** Which limits applied at an instant, in a sentence. */
export function pastText({ entityId, resource, outcome, atMs, knownFromMs, levels }: PastExplanation): string {
  const when = `${outcome === "past" ? "At" : "From"} ${minuteText(atMs)} UTC`;
  const known =
    knownFromMs === undefined
      ? ""
      : ` The changes that are kept begin at ${minuteText(knownFromMs)} UTC: this is what was there right before.`;
  const hasAny = levels.some(({ limits, totals }) => limits.length + totals.length > 0);
  if (!hasAny) return `${when} no limits apply to ${entityId} on ${resource}.${known}`;
  const plan = levels[0]?.planId === undefined ? "" : `, on the plan ${levels[0].planId}`;
  return `${when} ${entityId}${plan} goes by these limits on ${resource}:${known}`;
}

/** One row of the table under the sentence. */
export interface PastRow {
  readonly entityId: string;
  /** Over all resources. */
  readonly isTotal: boolean;
  readonly then: PastLimit;
}

export function pastRows(levels: readonly PastLevel[]): readonly PastRow[] {
  return levels.flatMap(({ entityId, limits, totals }) => [
    ...limits.map((then) => ({ entityId, isTotal: false, then })),
    ...totals.map((then) => ({ entityId, isTotal: true, then })),
  ]);
}

/** The refusals of that minute, a line each, the oldest first. */
export function pastRefusals({ refusals, outcome, atMs }: PastExplanation): string {
  if (outcome === "ahead" || refusals === undefined) return "";
  const minute = minuteText(atMs).slice(-5);
  if (refusals.length === 0) return `\nNo refusal of ${minute} UTC is kept.\n`;
  const lines = refusals.toReversed().map((refusal) => `${secondText(refusal.atMs)}  ${refusalText(refusal)}\n`);
  return `\nRefused at ${minute} UTC:\n${lines.join("")}`;
}

/** `rpm of acme had 0 of 60, 1 asked, fits in 900 ms (request 8f3a)`. */
function refusalText({ limit, level, total, requested, available, capacity, ...refusal }: LoggedRefusal): string {
  const { retryAfterMs, waitedMs, requestId } = refusal;
  const held = `${total ? "*/" : ""}${limit} of ${level} had ${tokensText(limit, available)} of ${tokensText(limit, capacity)}`;
  const fits = retryAfterMs === null ? "never fits" : `fits in ${waitText(retryAfterMs)}`;
  const waited = waitedMs === undefined ? "" : `, after ${waitText(waitedMs)} of waiting`;
  return `${held}, ${tokensText(limit, requested)} asked, ${fits}${waited}${requestId === undefined ? "" : ` (request ${requestId})`}`;
}

/** `2026-11-18 14:03`. */
export function minuteText(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 16).replace("T", " ");
}

/** `14:03:12.345`. */
export function secondText(atMs: number): string {
  return new Date(atMs).toISOString().slice(11, 23);
}
