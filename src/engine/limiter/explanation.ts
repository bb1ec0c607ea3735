import { wholeTokens } from "../../bucket/level.ts";
import { resetsAtMs } from "../../domain/bucket/bucket-operations.ts";
import { fits } from "../../domain/bucket/bucket-questions.ts";
import { availableMilli, type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { freesAtMs } from "../../domain/bucket/holds.ts";
import { boundaryAfter, windowChangeAfter } from "../../domain/bucket/limit-state.ts";
import { amountsOf } from "../../domain/charge/amounts.ts";
import { noLimits } from "../../domain/charge/charge-errors.ts";
import { counting } from "../../domain/charge/measures.ts";
import { type Status, shortfallText } from "../../domain/charge/status.ts";
import type { Access, LimitSource } from "../../domain/config/config.ts";
import { kindOf, rulesOf } from "../../domain/limits/kinds/table.ts";
import { type Limit, termsOf } from "../../domain/limits/limit.ts";
import type { LimitKind } from "../../domain/limits/limit-kind.ts";
import { sourceOf } from "../../domain/limits/merged-limits.ts";
import { notifiedOf } from "../../domain/limits/thresholds.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import type { Acquirer } from "../acquire/acquirer.ts";
import type { ChainLink } from "../acquire/config-cache.ts";
import { disabledIn } from "../acquire/plan.ts";
import { checkRefusal, demandOf, withTotals } from "../acquire/request.ts";
import { type ObservedBucket, refusalOf } from "../refusal/refusal.ts";
import { neverCharged } from "./never-charged.ts";
import type { RequestQuestion } from "./question.ts";
import type { EngineDeps } from "./settings.ts";

/** One limit of one level: what it is, what it holds, and what happens next. */
export interface LimitExplanation {
  /** The limit's name. */
  readonly limit: string;
  /** The measure that it counts. */
  readonly counts: string;
  /** The level that it came from. */
  readonly source: LimitSource | "request";
  /** How it fills again. */
  readonly kind: LimitKind;
  /** Whether it only measures and never refuses. */
  readonly soft: boolean;
  /** Whether it only decides, to be counted, and never refuses. */
  readonly shadow: boolean;
  /** The limit as it was set. */
  readonly definition: Limit;
  /**
   * Whole tokens: the most it holds now. A window of its schedule, or a top-up, can make it differ from the
   * definition's.
   */
  readonly capacity: number;
  /** Whole tokens, rounded down; negative in debt. */
  readonly available: number;
  /** Whether a window of the schedule is open. */
  readonly inWindow: boolean;
  /** Whole tokens that were topped up in this period. */
  readonly toppedUp: number;
  /** When a quota is full again, in ms since 1970. */
  readonly resetsAtMs?: number;
  /** Of a limit on how many are at once: when the next slots are free at the latest, in ms since 1970. Absent: none are held. */
  readonly freesAtMs?: number;
  /** When its terms change next: a window opens or ends, or the quota resets. */
  readonly changesAtMs?: number;
  /** The percentages of `notifyAt` that were told: in this period, or since they were reached. Absent: it tells none. */
  readonly notified?: readonly number[];
  /** Nothing was ever charged to it, as far as usage is kept: perhaps no request names what it counts. Absent: something was, or usage cannot be read. */
  readonly neverCharged?: true;
}

/** One entity of the chain. */
export interface LevelExplanation {
  /** The entity, or a parent of it. */
  readonly entityId: string;
  /** Where its limits came from: the first level that has limits. */
  readonly source: LimitSource | "request";
  /** Its plan. Absent: it has none. */
  readonly planId?: string;
  /** Why no limits apply here. Absent: some do. */
  readonly reason?: string;
  /** Whether its limits apply, are bypassed, or it is disabled. */
  readonly access: Access;
  /** The level at which that was set. */
  readonly accessSource: LimitSource;
  /** Whether its parent is charged too. */
  readonly cascade: boolean;
  /** The level at which that was set; `none`: the entity's own `cascade`. */
  readonly cascadeSource: LimitSource;
  /** Its parent. Absent: it has none. */
  readonly parentId?: string;
  /** Its limits, and what they hold. */
  readonly limits: readonly LimitExplanation[];
  /** Its limits over all resources, and what they hold; empty if it has none, or is bypassed. */
  readonly totals: readonly LimitExplanation[];
}

/** Which limits apply to an entity on a resource, and why. */
export interface Explanation {
  /** The entity that would ask. */
  readonly entityId: string;
  /** The resource that it would ask for. */
  readonly resource: string;
  /** What an acquire of the amounts would get now. `never`: the amount is above what a limit can hold, top-ups included. */
  readonly outcome: "granted" | "refused" | "disabled" | "never";
  /** Milliseconds until it would be granted: 0 if now, `Infinity` if never. */
  readonly retryAfterMs: number;
  /** Why it would not be granted. Absent: it would be. */
  readonly reason?: string;
  /** The limit with the longest wait. Absent: no limit would refuse. */
  readonly primary?: Status;
  /** The entity itself, then the parents that are charged with it. */
  readonly levels: readonly LevelExplanation[];
}

/** What applies to an entity on a resource, from which level, and what would happen. Takes nothing. */
export async function explain(acquirer: Acquirer, deps: EngineDeps, question: RequestQuestion): Promise<Explanation> {
  const { calendar } = deps;
  const chain = await acquirer.planner.chain(question, deps.clock.now(), "question");
  const { entityId, resource, consume } = question;
  // What is no amount is none, whatever is switched off.
  if (consume !== undefined) amountsOf(consume, "consume");
  const { observed, nowMs } = await acquirer.planner.observe(
    chain.map((link) => demandOf(link, [], link.access === "bypass")),
  );
  const totals = chain.flatMap((link) => (link.totals === undefined || link.access === "bypass" ? [] : [link.totals]));
  const total = await acquirer.planner.observe(totals.map((link) => demandOf(link, [], false)));
  const levels = chain.map((link, i) => ({
    ...levelOf(link, observed[i] as ObservedBucket, question.limits !== undefined && i === 0, nowMs, deps),
    totals: totals.flatMap((one, j) =>
      one.bucket.entityId === link.bucket.entityId
        ? limitsIn(one, total.observed[j] as ObservedBucket, false, total.nowMs, deps)
        : [],
    ),
  }));
  const base = { entityId, resource, levels: await withNeverCharged(levels, chain, deps) };
  const disabled = disabledIn(chain);
  if (disabled !== undefined) {
    return { ...base, outcome: "disabled", retryAfterMs: Number.POSITIVE_INFINITY, reason: disabled.message };
  }
  if (withTotals(chain).every(({ charged }) => charged.limits.length === 0)) throw noLimits(chain);
  if (consume === undefined) return { ...base, outcome: "granted", retryAfterMs: 0 };
  try {
    const demands = acquirer.planner.demands(question, chain);
    const asked = await acquirer.planner.observe(demands);
    const { observed: buckets, nowMs: askedMs } = asked;
    if (buckets.every(({ state, take, leavePercent, bypass }) => bypass || fits(state, take, askedMs, leavePercent))) {
      return { ...base, outcome: "granted", retryAfterMs: 0 };
    }
    const refusal = refusalOf(buckets, demands, { askedMs, toldMs: askedMs }, calendar);
    checkRefusal(refusal);
    const { primary, retryAfterMs } = refusal;
    return { ...base, outcome: "refused", retryAfterMs, reason: shortfallText(primary), primary };
  } catch (error) {
    if (!(error instanceof ValidationError) || error.code !== "amount_above_capacity") throw error;
    return { ...base, outcome: "never", retryAfterMs: Number.POSITIVE_INFINITY, reason: error.message };
  }
}

/** The levels with what is said of limits to which nothing was ever charged; those of a request have no usage before it. */
async function withNeverCharged(
  levels: readonly LevelExplanation[],
  chain: readonly ChainLink[],
  { scope }: EngineDeps,
): Promise<readonly LevelExplanation[]> {
  const told = async (limits: readonly LimitExplanation[], link: ChainLink | undefined) => {
    if (link === undefined) return limits;
    const full = limits.filter(({ available, capacity }) => available === capacity).map(({ limit }) => limit);
    const never = await neverCharged(scope, link.bucket, full);
    return limits.map((one) => (never.has(one.limit) ? { ...one, neverCharged: true as const } : one));
  };
  return Promise.all(
    levels.map(async (level, i) => ({
      ...level,
      limits: await told(level.limits, chain[i]),
      totals: await told(level.totals, chain[i]?.totals),
    })),
  );
}

function levelOf(
  link: ChainLink,
  observed: ObservedBucket,
  given: boolean,
  nowMs: number,
  deps: EngineDeps,
): Omit<LevelExplanation, "totals"> {
  const { bucket, limits, source, planId, access, accessSource, cascade, cascadeSource, parentId } = link;
  return {
    entityId: bucket.entityId,
    source: given ? "request" : source,
    ...(planId === undefined ? {} : { planId }),
    ...(limits.length > 0 ? {} : { reason: reasonOf(link) }),
    access,
    accessSource,
    cascade,
    cascadeSource,
    ...(parentId === undefined ? {} : { parentId }),
    limits: limitsIn(link, observed, given, nowMs, deps),
  };
}

function limitsIn(
  link: ChainLink,
  { state }: ObservedBucket,
  given: boolean,
  nowMs: number,
  deps: EngineDeps,
): LimitExplanation[] {
  return link.limits.flatMap((limit) =>
    limitOf(limit, given ? "request" : sourceOf(link, limit.name), { state, nowMs }, deps),
  );
}

/** Why a level has no limits. */
function reasonOf({ bucket: { entityId, resource }, set, source }: ChainLink): string {
  if (set.limits.length === 0) return `No limits apply to ${entityId} on ${resource}.`;
  const names = set.limits.map(({ name }) => name).join(", ");
  return (
    `The limits of ${entityId} on ${resource} (${names}, from the level ${source}) are for callers only: ` +
    "they do not apply to requests of its children."
  );
}

function limitOf(
  definition: Limit,
  source: LimitExplanation["source"],
  { state, nowMs }: { readonly state: BucketState; readonly nowMs: number },
  { calendar }: EngineDeps,
): LimitExplanation[] {
  const held = findLimit(state, definition.name);
  if (held === undefined) return [];
  const atMs = Math.max(nowMs, state.epochMs);
  const topUpMilli = held.quota?.topUpMilli ?? 0;
  const resetMs = resetsAtMs(held, atMs, calendar);
  const { holdsSlots } = rulesOf(held.limit);
  const freeMs = holdsSlots ? freesAtMs(held.slices) : undefined;
  const changesMs = holdsSlots ? windowChangeAfter(held.limit, atMs, calendar) : boundaryAfter(held, atMs, calendar);
  const base = termsOf(held.limit);
  const notified = notifiedOf(state, held, nowMs);
  return [
    {
      ...counting(definition),
      source,
      kind: kindOf(held.limit),
      soft: held.limit.soft === true,
      shadow: held.limit.shadow === true,
      definition,
      capacity: wholeTokens(held.terms.capacityMilli),
      available: wholeTokens(availableMilli(state, held, nowMs)),
      inWindow:
        held.terms.capacityMilli - topUpMilli !== base.capacityMilli ||
        held.terms.refillAmountMilli !== base.refillAmountMilli ||
        held.terms.refillPeriodMs !== base.refillPeriodMs,
      toppedUp: wholeTokens(topUpMilli),
      ...(resetMs === undefined ? {} : { resetsAtMs: resetMs }),
      ...(freeMs === undefined ? {} : { freesAtMs: freeMs }),
      ...(changesMs === Number.POSITIVE_INFINITY ? {} : { changesAtMs: changesMs }),
      ...(notified === undefined ? {} : { notified }),
    },
  ];
}
