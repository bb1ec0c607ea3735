import { counting } from "../../domain/charge/amounts.ts";
import type { LoggedRefusal } from "../../domain/charge/refusal-log.ts";
import { type LevelThen, levelThen } from "../../domain/config/config-past.ts";
import { kindOf } from "../../domain/limits/kinds/table.ts";
import { LimiterError, ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { checkInstant } from "../../domain/names/instant.ts";
import { shown } from "../../domain/names/names.ts";
import type { ChainLink } from "../acquire/chain-link.ts";
import { type Explanation, explain, type LevelExplanation, type LimitExplanation } from "./explanation.ts";
import type { LimiterParts } from "./limiter-parts.ts";
import type { Question, RequestQuestion } from "./question.ts";

/** A question about an instant: which limits were in force then, or will be. */
export interface PastQuestion extends Pick<Question, "entityId" | "resource"> {
  /** The instant, in ms since 1970; at most a year ahead. */
  readonly atMs: number;
}

/** One limit of one level as it was in force at an instant. */
export interface PastLimit
  extends Pick<LimitExplanation, "limit" | "counts" | "source" | "kind" | "soft" | "shadow" | "definition"> {
  /** Since when it was so, in ms since 1970. Absent: since before the changes that are known. */
  readonly sinceMs?: number;
  /** Until when it was so, in ms since 1970. Absent: no change of it is known. */
  readonly untilMs?: number;
}

/** One entity of the chain, with its limits at an instant. */
export interface PastLevel extends Omit<LevelExplanation, "limits" | "totals"> {
  /** Its limits then. */
  readonly limits: readonly PastLimit[];
  /** Its limits over all resources then. */
  readonly totals: readonly PastLimit[];
}

/** Which limits applied to an entity on a resource at an instant, and what they refused. */
export interface PastExplanation {
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for. */
  readonly resource: string;
  /** `ahead`: the instant is yet to come. */
  readonly outcome: "past" | "ahead";
  /** The instant. */
  readonly atMs: number;
  /** Where the instant lies before the eight changes that are kept: the oldest of them. What is shown was there right before it. */
  readonly knownFromMs?: number;
  /**
   * The entity itself, then the parents that are charged with it: the chain and cascade are those of now. So is access; but access that has
   * an end is shown until then, and what was set before from then on.
   */
  readonly levels: readonly PastLevel[];
  /** The refusals of the entity on the resource in that minute that are kept, newest first. Absent: this limiter keeps or reads none. */
  readonly refusals?: readonly LoggedRefusal[];
}

const AHEAD_MAX_MS = 366 * 86_400_000;
const MINUTE_MS = 60_000;

/** Of now, or of the instant that is asked for. */
export function explainAt(
  parts: LimiterParts,
  question: RequestQuestion | PastQuestion,
): Promise<Explanation | PastExplanation> {
  const isPast = typeof question === "object" && question !== null && "atMs" in question;
  if (!isPast) return explain(parts, question);
  if (question.atMs !== undefined) return explainPast(parts, question);
  const { atMs: _, ...rest } = question;
  return explain(parts, rest);
}

async function explainPast(parts: LimiterParts, question: PastQuestion): Promise<PastExplanation> {
  const { acquirer, deps } = parts;
  const { entityId, resource, atMs, ...others } = question;
  const nowMs = deps.clock.now();
  checkAt(atMs, nowMs, others);
  const chain = await acquirer.planner.chain({ entityId, resource }, nowMs, "question");
  const past = await Promise.all(
    chain.map(async ({ bucket }, i) => {
      const stored = await deps.scope.config.history(bucket.entityId, bucket.resource);
      return levelThen(bucket, stored, { atMs, isCaller: i === 0 });
    }),
  );
  const knownFromMs = Math.max(...past.map((each) => each.knownFromMs ?? 0));
  return {
    ...{ entityId, resource, outcome: atMs > nowMs ? "ahead" : "past", atMs },
    ...given({ knownFromMs: knownFromMs === 0 ? undefined : knownFromMs }),
    levels: chain.map((link, i) => levelOf(link, past[i] as LevelThen)),
    ...given({ refusals: await refusalsIn(parts, { entityId, resource }, atMs) }),
  };
}

function checkAt(atMs: number, nowMs: number, others: object): void {
  const [other] = Object.entries(others).find(([, value]) => value !== undefined) ?? [];
  if (other !== undefined) {
    throw new ValidationError(
      "option_invalid",
      `${other} is given with atMs: of another time it is only known which limits applied; leave out ${other}, or atMs.`,
    );
  }
  checkInstant("atMs", atMs, nowMs);
  if (!Number.isSafeInteger(atMs) || atMs < 0) {
    throw new ValidationError("instant_invalid", `atMs is ${shown(atMs)}; give whole milliseconds since 1970.`);
  }
  if (atMs - nowMs > AHEAD_MAX_MS) {
    throw new ValidationError("instant_invalid", `atMs is ${atMs}, more than 366 days ahead; give an earlier instant.`);
  }
}

function levelOf(link: ChainLink, { config, accessUntilMs, limits, totals }: LevelThen): PastLevel {
  const { entityId, resource } = link.bucket;
  const { cascade, cascadeSource, parentId } = link;
  const { planId, source, access, accessSource } = config;
  const none = limits.length > 0 ? undefined : `No limits applied to ${entityId} on ${resource}.`;
  return {
    ...{ entityId, source, ...given({ planId, reason: none }) },
    ...{ access, accessSource, ...given({ accessUntilMs }), cascade, cascadeSource, ...given({ parentId }) },
    ...{ limits: limits.map(limitOf), totals: totals.map(limitOf) },
  };
}

function limitOf({ limit: definition, source, ...span }: LevelThen["limits"][number]): PastLimit {
  const { soft, shadow } = definition;
  return {
    ...counting(definition),
    ...{ source, kind: kindOf(definition), soft: soft === true, shadow: shadow === true, definition },
    ...span,
  };
}

/** Who keeps no log, or may not list it, explains without. */
const WITHOUT_LOG: readonly string[] = ["refusal_log_not_kept", "refusals_not_kept", "access_denied"];

async function refusalsIn(
  { acquirer }: LimiterParts,
  of: Pick<Question, "entityId" | "resource">,
  atMs: number,
): Promise<readonly LoggedRefusal[] | undefined> {
  const fromMs = Math.floor(atMs / MINUTE_MS) * MINUTE_MS;
  try {
    return [...(await acquirer.refusals.log({ ...of, fromMs, toMs: fromMs + MINUTE_MS, pageSize: 1_000 }))];
  } catch (error) {
    if (error instanceof LimiterError && WITHOUT_LOG.includes(error.code)) return undefined;
    throw error;
  }
}
