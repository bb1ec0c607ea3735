import { wholeTokens } from "../../bucket/level.ts";
import { resetsAtMs } from "../../domain/bucket/bucket-operations.ts";
import { fits } from "../../domain/bucket/bucket-questions.ts";
import { availableMilli, type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import { freesAtMs } from "../../domain/bucket/holds.ts";
import { boundaryAfter, windowChangeAfter } from "../../domain/bucket/limit-state.ts";
import { amountsOf, counting } from "../../domain/charge/amounts.ts";
import { noLimits } from "../../domain/charge/charge-errors.ts";
import { type Status, shortfallText } from "../../domain/charge/status.ts";
import type { Access, Frozen, LimitSource } from "../../domain/config/config.ts";
import { ending } from "../../domain/config/overrides.ts";
import { kindOf, rulesOf } from "../../domain/limits/kinds/table.ts";
import { type Limit, termsOf } from "../../domain/limits/limit.ts";
import type { LimitKind } from "../../domain/limits/limit-kind.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { sourceOf } from "../../domain/limits/merged-limits.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { notifiedOf } from "../../domain/limits/thresholds.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { type ChainLink, disabledIn } from "../acquire/chain-link.ts";
import { checkRefusal, demandOf, withTotals } from "../acquire/request.ts";
import { type ObservedBucket, refusalOf } from "../refusal/refusal.ts";
import type { LimiterParts } from "./limiter-parts.ts";
import { withNeverCharged } from "./never-charged.ts";
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
  /** When its terms change next: a window opens or ends, the quota resets, or the limit ends. */
  readonly changesAtMs?: number;
  /** It applies until then by itself, in ms since 1970. Absent: it has no end. */
  readonly untilMs?: number;
  /** The limit of that name from then on; `null`: none. Absent: it has no end. */
  readonly then?: Limit | null;
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
  /** The access counts until then by itself, in ms since 1970. Absent: it has no end. */
  readonly accessUntilMs?: number;
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
  /** The namespace is frozen: nothing is granted in it, whatever the levels say. Absent: it is not. */
  readonly frozen?: Frozen;
  /** Why it would not be granted. Absent: it would be. */
  readonly reason?: string;
  /** The limit with the longest wait. Absent: no limit would refuse. */
  readonly primary?: Status;
  /** The entity itself, then the parents that are charged with it. */
  readonly levels: readonly LevelExplanation[];
}

export async function explain({ acquirer, deps }: LimiterParts, question: RequestQuestion): Promise<Explanation> {
  const { calendar } = deps;
  const chain = await acquirer.planner.chain(question, deps.clock.now(), "question");
  const { entityId, resource, consume } = question;
  // Check the amounts even if access is disabled.
  if (consume !== undefined) amountsOf(consume, "consume");
  const { observed, nowMs } = await acquirer.planner.observe(
    chain.map((link) => demandOf(link, [], link.access === "bypass")),
  );
  const totals = chain.flatMap((link) => (link.totals === undefined || link.access === "bypass" ? [] : [link.totals]));
  const total = await acquirer.planner.observe(totals.map((link) => demandOf(link, [], false)));
  const levels = chain.map(async (link, i) => {
    const isGiven = question.limits !== undefined && i === 0;
    const j = totals.findIndex(({ bucket }) => bucket.entityId === link.bucket.entityId);
    return {
      ...(await levelOf(link, observed[i] as ObservedBucket, isGiven, nowMs, deps)),
      totals:
        j < 0
          ? []
          : await limitsIn(totals[j] as ChainLink, total.observed[j] as ObservedBucket, false, total.nowMs, deps),
    };
  });
  const base = { entityId, resource, ...given({ frozen: chain[0]?.frozen }), levels: await Promise.all(levels) };
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

async function levelOf(
  link: ChainLink,
  observed: ObservedBucket,
  isGiven: boolean,
  nowMs: number,
  deps: EngineDeps,
): Promise<Omit<LevelExplanation, "totals">> {
  const { bucket, source, planId, access, accessSource, cascade, cascadeSource, parentId } = link;
  return {
    entityId: bucket.entityId,
    source: isGiven ? "request" : source,
    ...given({ planId, reason: link.limits.length > 0 ? undefined : reasonOf(link) }),
    access,
    accessSource,
    ...given({ accessUntilMs: accessEndMs(link) }),
    cascade,
    cascadeSource,
    ...given({ parentId }),
    limits: await limitsIn(link, observed, isGiven, nowMs, deps),
  };
}

function limitsIn(
  link: ChainLink,
  { state }: ObservedBucket,
  isGiven: boolean,
  nowMs: number,
  { calendar, scope }: EngineDeps,
): Promise<readonly LimitExplanation[]> {
  const limits = link.limits.flatMap((limit) => {
    const found = { state, nowMs, ends: isGiven ? {} : endOf(link, limit) };
    return limitOf(limit, isGiven ? "request" : sourceOf(link, limit.name), found, calendar);
  });
  return withNeverCharged(scope, link.bucket, limits);
}

/** When a limit of a level becomes another one by itself, and which; nothing where it does not. */
function endOf({ after: ends, set, limits }: ChainLink, limit: Limit): Pick<LimitExplanation, "untilMs" | "then"> {
  const { signature } = limitSet([limit]);
  for (let end = ends; end !== undefined; end = end.level.next) {
    const { level, atMs } = end;
    // A parent shows only its limits for everyone.
    const after = limits === set.limits ? level.limits : (level.forEveryone ?? level.limits);
    const next = after.find(({ name }) => name === limit.name);
    if (next === undefined || limitSet([next]).signature !== signature) return ending(atMs, next ?? null);
  }
  return {};
}

/** When access becomes another one by itself. */
function accessEndMs({ after, access }: ChainLink): number | undefined {
  for (let end = after; end !== undefined; end = end.level.next) if (end.level.access !== access) return end.atMs;
  return undefined;
}

function reasonOf({ bucket: { entityId, resource }, set, source }: ChainLink): string {
  if (set.limits.length === 0) return `No limits apply to ${entityId} on ${resource}.`;
  const names = set.limits.map(({ name }) => name).join(", ");
  return (
    `The limits of ${entityId} on ${resource} (${names}, from the level ${source}) are for callers only: ` +
    "they do not apply to requests of its children."
  );
}

interface ExplainedBucket {
  readonly state: BucketState;
  readonly nowMs: number;
  readonly ends: Pick<LimitExplanation, "untilMs" | "then">;
}

function limitOf(
  definition: Limit,
  source: LimitExplanation["source"],
  { state, nowMs, ends }: ExplainedBucket,
  calendar: Calendar,
): LimitExplanation[] {
  const held = findLimit(state, definition.name);
  if (held === undefined) return [];
  const atMs = Math.max(nowMs, state.epochMs);
  const topUpMilli = held.quota?.topUpMilli ?? 0;
  const resetMs = resetsAtMs(held, atMs, calendar);
  const { holdsSlots } = rulesOf(held.limit);
  const freeMs = holdsSlots ? freesAtMs(held.slices) : undefined;
  const boundaryMs = holdsSlots ? windowChangeAfter(held.limit, atMs, calendar) : boundaryAfter(held, atMs, calendar);
  const changesMs = Math.min(boundaryMs, ends.untilMs ?? Number.POSITIVE_INFINITY);
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
      ...given({ resetsAtMs: resetMs, freesAtMs: freeMs }),
      ...(changesMs === Number.POSITIVE_INFINITY ? {} : { changesAtMs: changesMs }),
      ...ends,
      ...given({ notified }),
    },
  ];
}
