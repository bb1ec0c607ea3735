import { wholeTokens } from "../../bucket/level.ts";
import { type BucketKey, TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import type { LimitState } from "../bucket/limit-state.ts";
import type { Demanded } from "../bucket/search.ts";
import type { LimitSource } from "../config/config-scope.ts";
import { capacityMaxMilli, type Limit } from "../limits/limit.ts";
import { TOKENS_MAX } from "../limits/limit-numbers.ts";
import type { LimitSet } from "../limits/limit-set.ts";
import { ValidationError } from "../names/errors.ts";
import { nearestName } from "../names/known-names.ts";
import { plainText } from "../names/shown.ts";
import { type Amount, measureOf, measuresOf, REQUESTS } from "./amounts.ts";
import { levelName } from "./status.ts";

/** Levels of a request, the entity that asks first. */
type Chain = readonly (OnBucket & { readonly charged: LimitSet; readonly source?: LimitSource })[];

interface OnBucket {
  readonly bucket: BucketKey;
}

/** A measure that no limit of a chain counts; perhaps it is the name of a limit that counts another. */
export function measureUnknown(name: string, chain: Chain): ValidationError {
  if (chain.every(({ charged }) => charged.limits.length === 0)) return noLimits(chain);
  const { asker, resource } = aboutOf(chain);
  for (const { bucket, charged } of chain) {
    const limit = charged.limits.find((one) => one.name === name);
    if (limit === undefined) continue;
    const measure = measureOf(limit);
    const whose = bucket.entityId === asker ? asker : `${bucket.entityId}, a parent of ${asker},`;
    const isNone = `on ${resource}, not a measure: ${name} counts ${measure}; name ${measure}.`;
    const publicDetail = `"${name}" is a limit ${isNone}`;
    return new ValidationError("limit_unknown", `"${name}" is a limit of ${whose} ${isNone}`, { publicDetail });
  }
  const near = nearestName(name, [...new Set(chain.flatMap(({ charged }) => measuresOf(charged.limits))), REQUESTS]);
  const hint = near === undefined ? "" : ` Did you mean \`${near}\`?`;
  const what = `No limit "${name}" applies to ${asker} on ${resource}, and none counts it`;
  return new ValidationError(
    "limit_unknown",
    (ways) =>
      `${what}; measures: ${measuresText(chain)}.${hint}${placeTakenText(chain)} ` +
      `Set a limit that counts it with ${ways.setSomeLimits}${ways.limitsInRequest}.`,
    // The holder of a key must not read who is above it.
    { publicDetail: `${what}; measures: ${publicMeasures(chain)}.${hint}` },
  );
}

/** A hint where limits of the entity's own, or of its plan, hide those of the resource. */
function placeTakenText(chain: Chain): string {
  const source = chain[0]?.source ?? "none";
  if (!/^(entity|plan)/.test(source)) return "";
  const whose = source.startsWith("entity") ? "limits of its own" : "the limits of its plan";
  const { asker, resource } = aboutOf(chain);
  return ` ${asker} has ${whose} instead of those of ${resource}, unless they inherit.`;
}

/** A total counts the resources of a request as one amount, and together they are more than one may be. */
export function sumTooLarge(measure: string, milli: number, { entityId }: BucketKey): ValidationError {
  const what = `consume of "${measure}" is ${milli / 1000} on all resources of the request together`;
  const remedy = `ask for at most ${TOKENS_MAX} in one request`;
  return new ValidationError("amount_invalid", `${what}, and a total of ${entityId} counts their sum; ${remedy}.`, {
    // A parent may have the total: it is not named.
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

/** The warning in place of `measureMissing`. */
export function unnamedWarning(unnamed: Unnamed): string {
  return `${unnamedText(unnamed)}. Until then the limit does not bind (unnamedLimits is "warn").`;
}

/** The warning for a measure that an adapter uses, and no limit of the chain counts. */
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
    measuresOf(charged.limits).map((measure) => levelName(measure, level)),
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
    // A parent may owe so much: it is not named.
    {
      publicDetail: `A debit of ${asked} on ${resource} would leave a debt that cannot be counted exactly. Check the amount.`,
    },
  );
}

/** The error for an amount that a limit of a bucket, the asker's own or a parent's, can never grant. */
export function aboveCapacity(
  held: LimitState,
  { milli, leavePercent }: Demanded,
  bucket: BucketKey,
  askedBy: string,
): ValidationError {
  const whose = bucket.entityId === askedBy ? "the capacity is" : `its parent ${bucket.entityId} has a capacity of`;
  const boughtMilli = held.quota?.topUpMilli ?? 0;
  const bought = boughtMilli === 0 ? "" : ` and was topped up by ${wholeTokens(boughtMilli)}`;
  const leaving = leavePercent === 0 ? "" : ` with ${leavePercent} % to be left`;
  const never = (entityId: string, resource: string) =>
    `${milli / 1000} of "${held.name}"${leaving} for ${entityId} on ${resource} can never be granted`;
  const leaveLess = leavePercent === 0 ? "" : ", or leave less";
  const most = `${whose} ${wholeTokens(capacityMaxMilli(held.limit))}${bought}`;
  const told = never(plainText(askedBy), plainText(bucket.resource));
  return new ValidationError(
    "amount_above_capacity",
    `${never(askedBy, bucket.resource)}: ${most}. Ask for less${leaveLess}, or raise the limit.`,
    // The holder of a key must not read the capacity of its organisation.
    { publicDetail: `${told}${bucket.entityId === askedBy ? `: ${most}` : ""}. Ask for less${leaveLess}.` },
  );
}

/** Throws where a request that must be taken all at once asks for more than the store can write in one transaction. */
export function checkAtomic(
  request: { readonly entityId: string; readonly resource: string },
  { items, itemsMax }: { readonly items: number; readonly itemsMax: number },
): void {
  if (items <= itemsMax) return;
  throw new ValidationError(
    "atomic_too_many",
    `The request of ${request.entityId} for ${request.resource} needs ${items} items in one transaction, one for each bucket of each level ` +
      `and shard; this store allows ${itemsMax}. ` +
      "Name fewer resources in `also`, or leave `atomic` out.",
    // The holder of a key must not read how many parents it has.
    {
      publicDetail:
        "The request names more resources than one transaction allows; name fewer in `also`, or leave `atomic` out.",
    },
  );
}
