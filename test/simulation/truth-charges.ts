import type { AlsoPart } from "../../src/domain/charge/amounts.ts";
import { type Limit, TOKENS_MAX } from "../../src/domain/limits/limit.ts";
import type { AcquireRequest } from "../../src/engine/acquire/request.ts";
import type { CorrectionRequest } from "../../src/engine/acquire/without-lease.ts";
import { capacityMost } from "../kit/model-terms.ts";
import type { CorrectionUse, SentCorrection } from "./correction-checks.ts";
import type { Version } from "./truth-levels.ts";

// What a request is charged, worked out once more from the sentences of docs/promise.md.

/** What a request asks of one entity on one resource. */
export interface Part {
  readonly entityId: string;
  readonly resource: string;
  /** Another part of the same entity comes before it: its request is the one that that one counts. */
  readonly isFurther: boolean;
  /** By measure, the request itself included. */
  readonly asked: readonly (readonly [measure: string, tokens: number])[];
  /** Stand in for the limits of the entity itself. */
  readonly given: readonly Limit[] | undefined;
  readonly leavePercent: number;
}

/** What a bucket is asked for: by which limits it counts, and how much of each is taken. */
export interface Asked {
  readonly counting: readonly Limit[];
  readonly take: readonly (readonly [limit: string, tokens: number])[];
}

/** The claim that a request makes on one bucket. */
export interface Due extends Asked {
  readonly entityId: string;
  readonly resource: string;
  /** All that the bucket has. */
  readonly limits: readonly Limit[];
  readonly bypass: boolean;
}

export function partsOf(request: AcquireRequest): Part[] {
  const { entityId, resource, consume, limits: given, also = {}, leavePercent = 0 } = request;
  // A request counts as one, unless it says otherwise.
  const asked = (tokens: object) => {
    const named = Object.entries(tokens as Record<string, number>);
    return "requests" in tokens ? named : [...named, ["requests", 1] as const];
  };
  const further = Array.isArray(also)
    ? (also as readonly AlsoPart[])
    : Object.entries(also).map(([name, tokens]) => ({ entityId, resource: name, consume: tokens }));
  const parts = [
    { entityId, resource, consume, given },
    ...further.map((part) => ({ entityId, ...part, given: undefined })),
  ];
  return parts.map((part, i) => ({
    entityId: part.entityId,
    resource: part.resource,
    isFurther: parts.slice(0, i).some((before) => before.entityId === part.entityId),
    asked: asked(part.consume ?? {}),
    given: part.given,
    leavePercent,
  }));
}

/** The parts of what is charged or given back without a lease: it is no request, unless it says so. */
export function correctionParts({ amounts, also, ...of }: CorrectionRequest): Part[] {
  const { idempotencyKey: _, keyOwner: __, ...place } = of;
  const unasked = (tokens: AlsoPart["consume"]) => ({ requests: 0, ...tokens });
  const others = Array.isArray(also)
    ? (also as readonly AlsoPart[]).map((part) => ({ ...part, consume: unasked(part.consume) }))
    : Object.fromEntries(Object.entries(also ?? {}).map(([resource, tokens]) => [resource, unasked(tokens)]));
  return partsOf({ ...place, consume: unasked(amounts), also: others });
}

/** Whether exactly what is due was sent. No slots are charged or given back so, nor is anything given back that was let through by a bypass. */
export function isCorrected(due: readonly Due[], sent: readonly SentCorrection[], use: CorrectionUse): boolean {
  const places = new Map<string, { take: Map<string, number>; readonly all: Due[] }>();
  for (const one of due) {
    const { entityId, resource, limits, bypass } = one;
    if (bypass && use === "giveBack") continue;
    const isSlots = (name: string) => limits.some((limit) => limit.name === name && limit.holdMs !== undefined);
    const id = `${entityId}\n${resource}`;
    const place = places.get(id) ?? { take: new Map<string, number>(), all: [] };
    for (const [limit, tokens] of one.take) {
      if (!isSlots(limit)) place.take.set(limit, (place.take.get(limit) ?? 0) + tokens * 1000);
    }
    place.all.push(one);
    places.set(id, place);
  }
  const asked = [...places].filter(([, { take }]) => [...take.values()].some((milli) => milli > 0));
  return (
    asked.length === sent.length &&
    asked.every(([id, { take, all }]) => {
      const one = sent.find(({ bucket }) => `${bucket.entityId}\n${bucket.resource}` === id);
      const isAlike = all.some(
        ({ limits, bypass }) => one?.bypass === bypass && JSON.stringify(limits) === JSON.stringify(one.limits),
      );
      return isAlike && isSameSum(take, one?.amounts ?? []);
    })
  );
}

function isSameSum(take: ReadonlyMap<string, number>, amounts: SentCorrection["amounts"]): boolean {
  const due = [...take].filter(([, milli]) => milli > 0);
  const sent = amounts.filter(({ milli }) => milli > 0);
  return due.length === sent.length && sent.every(({ limit, milli }) => take.get(limit) === milli);
}

/** Whether a request is for more entities than one: then its claims come in an order of their own. */
export function isOfSeveral({ entityId, also = {} }: AcquireRequest): boolean {
  return Array.isArray(also) && also.some((part: AlsoPart) => (part.entityId ?? entityId) !== entityId);
}

/**
 * The claims of one resource of a request on one level: on the bucket there, and on that of the totals, which nothing that is
 * bypassed reaches. A request from below takes only of what is for everyone.
 */
export function dueAt(part: Part, entityId: string, version: Version, isAbove: boolean): Due[] {
  const { onResource, totals } = version;
  const bypass = version.access === "bypass";
  const limits = isAbove ? onResource.limits : (part.given ?? onResource.limits);
  const own = { entityId, resource: part.resource, limits, bypass };
  const due: Due[] = [{ ...own, ...chargedBy(part.asked, isAbove ? onResource.forEveryone : limits) }];
  if (bypass) return due;
  const asked = askedOfTotals(part);
  const over = { entityId, resource: "*", limits: totals.limits, bypass };
  return [...due, { ...over, ...chargedBy(asked, isAbove ? totals.forEveryone : totals.limits) }];
}

/** A total is charged the sum over the resources of a request, and its requests once. */
function askedOfTotals({ asked, isFurther }: Part): Part["asked"] {
  return isFurther ? asked.filter(([measure]) => measure !== "requests") : asked;
}

/** Each limit that counts a measure takes all of it. */
function chargedBy(asked: Part["asked"], counting: readonly Limit[]): Asked {
  const take = asked.flatMap(([measure, tokens]) =>
    counting.filter((limit) => countedBy(limit) === measure).map(({ name }) => [name, tokens] as const),
  );
  return { counting, take };
}

/**
 * Claims with those that come to them: one for each bucket, in their order; of what takes nothing there is none. A total is the same
 * for all resources of a request: of two readings that differ there would be two, which no request makes.
 */
export function withDue(due: readonly Due[], more: readonly Due[]): readonly Due[] {
  const all = [...due];
  for (const one of more) {
    if (one.take.length === 0) continue;
    const at = all.findIndex((each) => isSameBucket(each, one));
    const before = all[at];
    if (before === undefined) all.push(one);
    else all[at] = { ...before, take: summed([...before.take, ...one.take]) };
  }
  return all;
}

function isSameBucket(one: Due, other: Due): boolean {
  const isSamePlace = one.entityId === other.entityId && one.resource === other.resource;
  return isSamePlace && JSON.stringify(one.limits) === JSON.stringify(other.limits);
}

function summed(take: Asked["take"]): Asked["take"] {
  const sums = new Map<string, number>();
  for (const [limit, tokens] of take) sums.set(limit, (sums.get(limit) ?? 0) + tokens);
  return [...sums];
}

/** Whether something is named that nothing counts, or nothing is charged at all; of a further resource its requests are, with the first. */
export function isUncounted({ asked, isFurther }: Part, chain: readonly Due[]): boolean {
  const counted = new Set(chain.flatMap(({ counting }) => counting.map(countedBy)));
  const unknown = asked.some(([measure]) => measure !== "requests" && !counted.has(measure));
  const isWithTheFirst = ({ resource, counting }: Due) => resource === "*" && countsIn(counting, "requests");
  return unknown || (chain.every(({ take }) => take.length === 0) && !(isFurther && chain.some(isWithTheFirst)));
}

/** Whether more is asked of a level than one of its limits holds in any window, or can be; of totals, by all resources together. */
export function isAbove(parts: readonly Part[], part: Part, version: Version, isParent: boolean): boolean {
  if (version.access === "bypass") return false;
  const { onResource, totals } = version;
  const together = askedTogether(parts);
  // A parent that several entities have is asked for the sum of what they ask on its resource.
  const here = parts.filter(({ resource, entityId }) => resource === part.resource && entityId !== part.entityId);
  const asked =
    isParent || here.length > 0 ? summed([...part.asked, ...here.flatMap((one) => [...one.asked])]) : part.asked;
  const own = isParent ? onResource.forEveryone : (part.given ?? onResource.limits);
  const over = isParent ? totals.forEveryone : totals.limits;
  const { leavePercent } = part;
  const isTooMuch = isMore(asked, own, leavePercent) || isMore(together, over, leavePercent);
  return (
    isTooMuch || beyondAmounts(parts).some((one) => countsIn(over, one) || (here.length > 0 && countsIn(own, one)))
  );
}

/** Whether something is taken of slots that a hard limit gives for a shorter time than they are to be held. */
export function isTooLong(holdMs: number, due: readonly Due[]): boolean {
  return due.some(({ counting, take, bypass }) => {
    if (bypass) return false;
    const short = counting.filter((limit) => !limit.soft && !limit.shadow && holdMs > (limit.holdMs ?? holdMs));
    return short.some(({ name }) => take.some(([limit, tokens]) => limit === name && tokens > 0));
  });
}

/** Measures of which a request asks for more on all its resources together than one amount may be: no total takes that, soft or not. */
export function beyondAmounts(parts: readonly Part[]): readonly string[] {
  return askedTogether(parts).flatMap(([measure, tokens]) => (tokens > TOKENS_MAX ? [measure] : []));
}

function askedTogether(parts: readonly Part[]): Part["asked"] {
  return summed(parts.flatMap((one) => [...askedOfTotals(one)]));
}

function countsIn(limits: readonly Limit[], measure: string): boolean {
  return limits.some((limit) => countedBy(limit) === measure);
}

function isMore(asked: Part["asked"], limits: readonly Limit[], leavePercent: number): boolean {
  return asked.some(([measure, tokens]) =>
    limits.some((limit) => {
      const most = capacityMost(limit);
      const floor = (most * BigInt(leavePercent) + 99n) / 100n;
      return countedBy(limit) === measure && !limit.soft && !limit.shadow && BigInt(tokens) * 1000n + floor > most;
    }),
  );
}

function countedBy({ name, counts = name }: Limit): string {
  return counts;
}
