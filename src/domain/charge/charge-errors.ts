import { type BucketKey, TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import type { LimitSource } from "../config/config-scope.ts";
import type { Limit } from "../limits/limit.ts";
import { TOKENS_MAX } from "../limits/limit-numbers.ts";
import type { LimitSet } from "../limits/limit-set.ts";
import { ValidationError } from "../names/errors.ts";
import { nearestName } from "../names/known-names.ts";
import type { Amount } from "./amounts.ts";
import { measureOf, measuresOf, REQUESTS } from "./measures.ts";

/** Of the entity that asks first. */
type Chain = readonly (OnBucket & { readonly charged: LimitSet; readonly source?: LimitSource })[];

interface OnBucket {
  readonly bucket: BucketKey;
}

/** A measure that no limit of a chain counts; perhaps it is the name of a limit that counts another. */
export function measureUnknown(name: string, chain: Chain): ValidationError {
  if (chain.every(({ charged }) => charged.limits.length === 0)) return noLimits(chain);
  const found = chain.flatMap(({ bucket, charged }) =>
    charged.limits.filter((limit) => limit.name === name).map((limit) => ({ bucket, measure: measureOf(limit) })),
  )[0];
  const { asker, resource } = aboutOf(chain);
  if (found !== undefined) {
    const { bucket, measure } = found;
    const whose = bucket.entityId === asker ? asker : `${bucket.entityId}, a parent of ${asker},`;
    const what = `${name} counts ${measure}; name ${measure}`;
    return new ValidationError(
      "limit_unknown",
      `"${name}" is a limit of ${whose} on ${resource}, not a measure: ${what}.`,
      { publicDetail: `"${name}" is a limit on ${resource}, not a measure: ${what}.` },
    );
  }
  const near = nearestName(name, [...new Set(chain.flatMap(({ charged }) => measuresOf(charged.limits))), REQUESTS]);
  const hint = near === undefined ? "" : ` Did you mean \`${near}\`?`;
  const what = `No limit "${name}" applies to ${asker} on ${resource}, and none counts it`;
  return new ValidationError(
    "limit_unknown",
    (ways) =>
      `${what}; measures: ${measuresText(chain)}.${hint}${placeTakenText(chain)} ` +
      `Set a limit that counts it with ${ways.setSomeLimits}${ways.limitsInRequest}.`,
    // Who is above the holder of a key is not for it to read.
    { publicDetail: `${what}; measures: ${publicMeasures(chain)}.${hint}` },
  );
}

/** Limits of one's own, or of a plan, hide those of the resource: whoever misses one of these is told. */
function placeTakenText(chain: Chain): string {
  const source = chain[0]?.source ?? "none";
  const whose = source.startsWith("entity")
    ? "limits of its own"
    : source.startsWith("plan")
      ? "the limits of its plan"
      : undefined;
  if (whose === undefined) return "";
  const { asker, resource } = aboutOf(chain);
  return ` ${asker} has ${whose} instead of those of ${resource}, unless they inherit.`;
}

/** A total counts the resources of a request as one amount, and together they are more than one may be. */
export function sumTooLarge(measure: string, milli: number, { entityId }: BucketKey): ValidationError {
  const what = `consume of "${measure}" is ${milli / 1000} on all resources of the request together`;
  const remedy = `ask for at most ${TOKENS_MAX} in one request`;
  return new ValidationError("amount_invalid", `${what}, and a total of ${entityId} counts their sum; ${remedy}.`, {
    // It may be a parent that has the total.
    publicDetail: `${what}; ${remedy}.`,
  });
}

/** No level of a chain has a limit. */
export function noLimits(chain: readonly OnBucket[]): ValidationError {
  const { asker, resource } = aboutOf(chain);
  return new ValidationError(
    "limits_missing",
    (ways) => `No limits apply to ${asker} on ${resource}. Set some with ${ways.setSomeLimits}${ways.limitsInRequest}.`,
  );
}

/** A request would take nothing of any limit. */
export function nothingCounted(chain: Chain): ValidationError {
  const { asker, resource } = aboutOf(chain);
  const what = `consume for ${asker} on ${resource} names no measure that a limit counts`;
  const remedy = "Name at least one; 0 asks only whether it is in debt.";
  return new ValidationError("consume_empty", `${what}; measures: ${measuresText(chain)}. ${remedy}`, {
    publicDetail: `${what}; measures: ${publicMeasures(chain)}. Name at least one.`,
  });
}

/** A hard limit whose measure a request leaves out, where that is not allowed. */
export function measureMissing(unnamed: Unnamed): ValidationError {
  const measure = measureOf(unnamed.limit);
  return new ValidationError("measure_missing", `${unnamedText(unnamed)} (unnamedLimits is "refuse").`, {
    publicDetail: `${notSaid(unnamed)}. Name ${measure} in consume, 0 if it uses none.`,
  });
}

/** The same where it is only told. */
export function unnamedWarning(unnamed: Unnamed): string {
  return `${unnamedText(unnamed)}. Until then the limit does not bind (unnamedLimits is "warn").`;
}

/** What an adapter uses, and no limit of the chain counts. */
export function uncountedWarning(measure: string, chain: Chain): string {
  return `${measureUnknown(measure, chain).message} Until then it is used without limit (unnamedLimits is "warn").`;
}

interface Unnamed {
  readonly limit: Limit;
  readonly level: OnBucket;
  readonly chain: Chain;
  readonly uncounted: readonly string[];
}

function unnamedText(unnamed: Unnamed): string {
  const { limit, level, uncounted } = unnamed;
  const measure = measureOf(limit);
  const whose = level.bucket.resource === TOTAL_RESOURCE ? "total" : "limit";
  const counted = `${notSaid(unnamed)}: the ${whose} ${limit.name} of ${level.bucket.entityId} counts it.`;
  const [used] = uncounted;
  const meant =
    used === undefined
      ? ""
      : ` ${uncounted.join(", ")} is used, and nothing counts it: if ${limit.name} is meant to, set it with counts: "${used}".`;
  return `${counted}${meant} Name ${measure} in consume, 0 if it uses none`;
}

function notSaid({ limit, chain }: Unnamed): string {
  const { asker, resource } = aboutOf(chain);
  return `The request of ${asker} for ${resource} does not say how much ${measureOf(limit)} it uses`;
}

/** `key-1: rpm, tpm; proj-1: month`. */
function measuresText(chain: Chain): string {
  const levels = chain.filter(({ charged }) => charged.limits.length > 0);
  const [only] = levels;
  // Nearly always it is the limits of the asker alone.
  if (levels.length === 1 && only === chain[0] && only !== undefined) return measuresOf(only.charged.limits).join(", ");
  return levels.map(({ bucket, charged }) => `${bucket.entityId}: ${measuresOf(charged.limits).join(", ")}`).join("; ");
}

/** `rpm, tpm, month^1`, as refusals call limits of levels above. */
function publicMeasures(chain: Chain): string {
  const all = chain.flatMap(({ charged }, level) =>
    measuresOf(charged.limits).map((measure) => (level === 0 ? measure : `${measure}^${level}`)),
  );
  return all.join(", ");
}

function aboutOf(chain: readonly OnBucket[]) {
  const bucket = chain[0]?.bucket;
  return { asker: bucket?.entityId ?? "", resource: bucket?.resource ?? "" };
}

/** A debit after which more would be owed than can be counted exactly. */
export function debtTooLarge({ entityId, resource }: BucketKey, amounts: readonly Amount[]): ValidationError {
  const asked = amounts.map(({ limit, milli }) => `${milli / 1000} of "${limit}"`).join(", ");
  return new ValidationError(
    "debt_too_large",
    `A debit of ${asked} from ${entityId} on ${resource} would leave a debt of more than ${TOKENS_MAX} tokens, which cannot be ` +
      "counted exactly. Check the amount, or reset the bucket first.",
    // It may be a parent that owes so much.
    {
      publicDetail: `A debit of ${asked} on ${resource} would leave a debt that cannot be counted exactly. Check the amount.`,
    },
  );
}
