import { everyText, isMoney, waitText } from "../domain/limits/durations.ts";
import type {
  Explanation,
  LevelExplanation,
  LimitExplanation,
  LoggedRefusal,
  PastExplanation,
  PastLevel,
  PastLimit,
} from "../entry/index.ts";
import { limitEndText, limitText, tokensText } from "./limit-text.ts";
import { endText } from "./until.ts";

/** Says what a caller gets, in sentences that can be read aloud. */
export function explainText(explanation: Explanation, consume: Readonly<Record<string, number>> | undefined): string {
  const { entityId, resource, outcome, levels } = explanation;
  if (outcome === "disabled") return `${entityId} may take nothing from ${resource}: ${disabledText(explanation)}.`;
  const bypass = levels[0]?.access === "bypass" ? ` ${entityId} bypasses its limits${bypassEnd(levels[0])}.` : "";
  if (consume === undefined) return `${entityId} may take ${mostText(levels)} from ${resource} now.${bypass}`;
  const asked = listOf(Object.entries(consume).map(([measure, tokens]) => amountText(measure, tokens)));
  switch (outcome) {
    case "granted":
      return `${entityId} may take ${asked} from ${resource} now.${bypass}`;
    case "never":
      return `${entityId} will never get ${asked} from ${resource} at once: ${explanation.reason}`;
    case "refused":
      return refusedText(explanation);
  }
}

function refusedText({ entityId, retryAfterMs, primary, levels }: Explanation): string {
  if (primary === undefined) return `${entityId} is refused for ${waitText(retryAfterMs)}.`;
  const { limit, counts, requested, resource, floor = 0 } = primary;
  const now = tokensText(counts, Math.max(0, (mostOf(levels, counts) ?? 0) - floor));
  const asked = tokensText(counts, requested);
  const when =
    retryAfterMs === Number.POSITIVE_INFINITY ? `${asked} never fit` : `${asked} fit in ${waitText(retryAfterMs)}`;
  const held = levels.find((level) => level.entityId === primary.entityId);
  const terms = (resource === "*" ? held?.totals : held?.limits)?.find((each) => each.limit === limit);
  const isOwn = primary.entityId === entityId;
  const other = `${primary.entityId}, which is charged too,`;
  // A limit that counts what it is called need not be named twice.
  const called = isOwn ? `its ${limit}` : `${limit} of ${other}`;
  const whose = limit !== counts ? called : isOwn ? "it" : other;
  const left = floor === 0 ? "" : `, and the request must leave ${tokensText(limit, floor)}`;
  return `${entityId} may take ${now} more${isMoney(counts) ? " of" : ""} ${counts} now; ${when}, because ${whose} ${holdsText(limit, primary.available, terms)}${left}.`;
}

/** `holds 300 of 20000 and gains 10000 a minute`. */
function holdsText(limit: string, available: number, terms: LimitExplanation | undefined): string {
  const held = available < 0 ? `is ${tokensText(limit, -available)} in debt` : `holds ${tokensText(limit, available)}`;
  if (terms === undefined) return held;
  const { kind, capacity, definition, resetsAtMs, freesAtMs } = terms;
  if (kind === "concurrent") {
    const next = freesAtMs === undefined ? "" : `, the next free by ${clockText(freesAtMs)} at the latest`;
    return `has ${Math.max(0, available)} of ${capacity} free${next}`;
  }
  const of = available < 0 ? "" : ` of ${tokensText(limit, capacity)}`;
  if (kind === "drip")
    return `${held}${of} and gains ${tokensText(limit, definition.refillAmount)} ${everyText(definition.refillPeriodMs)}`;
  if (resetsAtMs === undefined) return `${held}${of}`;
  return `${held}${of} and is full again at ${minuteText(resetsAtMs)} UTC`;
}

/** The amount of each measure that is still granted, by the scarcest limit of the chain that counts it. */
function mostText(levels: readonly LevelExplanation[]): string {
  const measures = [
    ...new Set(levels.flatMap(({ limits, totals }) => [...limits, ...totals].map(({ counts }) => counts))),
  ];
  return listOf(
    measures.map((measure) => {
      const most = mostOf(levels, measure);
      return most === undefined ? `any ${measure} (only measured)` : `up to ${amountText(measure, Math.max(0, most))}`;
    }),
  );
}

/** The least that a limit holds that counts a measure. Those that only measure, and levels that are bypassed, do not count. */
function mostOf(levels: readonly LevelExplanation[], measure: string): number | undefined {
  const held = levels
    .filter(({ access }) => access !== "bypass")
    .flatMap(({ limits, totals }) =>
      [...limits, ...totals].filter((each) => each.counts === measure && !each.soft && !each.shadow),
    )
    .map(({ available }) => available);
  return held.length === 0 ? undefined : Math.min(...held);
}

/** `500 tpm`; `$0.25 of usd`. */
function amountText(measure: string, tokens: number): string {
  return `${tokensText(measure, tokens)}${isMoney(measure) ? " of" : ""} ${measure}`;
}

function disabledText({ levels, frozen }: Explanation): string {
  if (frozen !== undefined) return `the namespace is frozen${frozen.reason === undefined ? "" : ` (${frozen.reason})`}`;
  const level = levels.find(({ access }) => access === "disabled");
  if (level === undefined) return "it is disabled";
  const { entityId, accessSource, accessUntilMs } = level;
  const end = accessUntilMs === undefined ? "" : ` until ${endText(accessUntilMs)}`;
  if (accessSource === "resource") return `the resource is disabled for every entity${end}`;
  return `${entityId} is disabled on ${accessSource === "entity" ? "it" : "everything"}${end}`;
}

function bypassEnd({ accessUntilMs }: LevelExplanation): string {
  return accessUntilMs === undefined ? "" : ` until ${endText(accessUntilMs)}`;
}

function listOf(parts: readonly string[]): string {
  return parts.length < 2 ? (parts[0] ?? "nothing") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

/** Where a level's limits came from, in words. */
export const SOURCE_TEXTS: Readonly<Record<LevelExplanation["source"], string>> = {
  entity: "its own",
  entityDefault: "its own default",
  plan: "its plan on the resource",
  planDefault: "its plan",
  resource: "the resource",
  system: "the system",
  entityTotal: "its own total",
  planTotal: "the total of its plan",
  systemTotal: "the total of the system",
  request: "the request",
  none: "nowhere",
};

/** One row of the table under the sentence. */
export interface ExplainedRow {
  readonly entityId: string;
  /** Over all resources. */
  readonly isTotal: boolean;
  readonly explained: LimitExplanation;
  readonly source: LevelExplanation["source"];
}

export function rowsOf(levels: readonly LevelExplanation[]): readonly ExplainedRow[] {
  return levels.flatMap(({ entityId, limits, totals }) => [
    ...limits.map((explained) => ({ entityId, isTotal: false, explained, source: explained.source })),
    ...totals.map((explained) => ({ entityId, isTotal: true, explained, source: explained.source })),
  ]);
}

/** Says of each parent without limits that it has none, and why. */
export function reasonsOf([, ...parents]: readonly LevelExplanation[]): string {
  return parents.flatMap(({ reason }) => (reason === undefined ? [] : [`${reason}\n`])).join("");
}

/** A line for each concurrent limit: `parallel  concurrent  3 of 10 free, 7 held, next free by 12:03:15 UTC`. */
export function slotLines([own, ...parents]: readonly LevelExplanation[]): string {
  const lines = [own, ...parents].flatMap((level) =>
    rowsOf(level === undefined ? [] : [level]).flatMap(({ entityId, isTotal, explained }) => {
      const { limit, kind, available, capacity, freesAtMs } = explained;
      if (kind !== "concurrent") return [];
      const name = `${isTotal ? "*/" : ""}${limit}${level === own ? "" : ` of ${entityId}`}`;
      const next = freesAtMs === undefined ? "" : `, next free by ${clockText(freesAtMs)}`;
      return [`${name}  ${kind}  ${available} of ${capacity} free, ${capacity - available} held${next}\n`];
    }),
  );
  return lines.length === 0 ? "" : `\n${lines.join("")}`;
}

function clockText(ms: number): string {
  return `${new Date(ms).toISOString().slice(11, 19)} UTC`;
}

export function definitionText(explained: LimitExplanation): string {
  const { definition, inWindow, toppedUp, notified = [], neverCharged = false } = explained;
  const told = `${notified.length === 0 ? "" : ` (${toldText(notified)})`}${neverCharged ? " (nothing ever charged)" : ""}`;
  const ends = explained.untilMs === undefined ? "" : ` (${limitEndText(explained)})`;
  const window = inWindow ? " (a window is open)" : "";
  return `${limitText(definition)}${ends}${window}${toppedUp > 0 ? ` (${tokensText(definition.name, toppedUp)} topped up)` : ""}${told}`;
}

/** `80 % told`, `80, 95 % told`. */
export function toldText(percents: readonly number[]): string {
  return `${percents.join(", ")} % told`;
}

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
