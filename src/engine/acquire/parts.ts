import { measureIn, sumByLimit } from "../../domain/charge/amounts.ts";
import { sumTooLarge } from "../../domain/charge/charge-errors.ts";
import type { Among, ChargeRules } from "../../domain/charge/charges.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { MILLI_MAX } from "../../domain/limits/limit-numbers.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { FurtherPart } from "./also.ts";
import type { ChainLink } from "./chain-link.ts";
import type { Demand } from "./request.ts";

// A request for several parts: resources of its entity, and other entities. Parts may reach the same bucket.

/** A further part of a request, with its chain. */
export interface PartChain extends FurtherPart {
  readonly chain: readonly ChainLink[];
  /** Absent: those of the request. */
  readonly rules?: ChargeRules;
}

/**
 * Joins claims on the same bucket: a total, or a common parent, is charged the sum over all parts, and the sum is bounded as one amount.
 */
export function summed<One extends Claim>(claims: readonly One[]): readonly One[] {
  const sums = new Map<string, One>();
  for (const claim of claims) {
    const before = sums.get(claim.bucket.id);
    sums.set(claim.bucket.id, before === undefined ? claim : together(before, claim));
  }
  if (sums.size === claims.length) return claims;
  for (const { bucket, set, take } of sums.values()) {
    const vast = take.find(({ milli }) => milli > MILLI_MAX);
    if (vast !== undefined) throw sumTooLarge(measureIn(set.limits, vast.limit), vast.milli, bucket);
  }
  return [...sums.values()];
}

/** Two claims on one bucket: of the limits that either may take of, and with the doubts of both. */
function together<One extends Claim>(one: One, other: One): One {
  const { limits: _, isConfigJustRead: __, ...rest }: Claim = one;
  const names = [one, other].flatMap(({ limits }) => limits?.map(({ name }) => name) ?? []);
  const isAll = one.limits === undefined || other.limits === undefined;
  const joined: Claim = {
    ...rest,
    take: sumByLimit([...one.take, ...other.take]),
    ...(isAll ? {} : { limits: one.set.limits.filter(({ name }) => names.includes(name)) }),
    ...(one.isConfigJustRead && other.isConfigJustRead ? { isConfigJustRead: true } : {}),
    ...(one.isOff || other.isOff ? { isOff: true } : {}),
  };
  return joined as One;
}

/** The place of a part among those of its entity, which are charged as a request of its own. */
export function amongOf(parts: readonly Pick<FurtherPart, "entityId" | "consume">[], place: number): Among {
  const { entityId } = parts[place] as (typeof parts)[number];
  const isOwn = (part: { readonly entityId: string }) => part.entityId === entityId;
  if (parts.slice(0, place).some(isOwn)) return FURTHER;
  const others = parts.slice(place + 1).filter(isOwn);
  return { isFurther: false, alsoNamed: others.flatMap(({ consume = {} }) => Object.keys(consume)) };
}

const FURTHER: Among = { isFurther: true, alsoNamed: [] };

/**
 * Claims of several entities in one order for everybody, children before their parents as in every chain. A store that takes them one by one
 * lets the request go on that holds the first of them: two requests that name the same entities in another order would hold each other up.
 */
export function inLockOrder(
  claims: readonly Demand[],
  parts: readonly Pick<PartChain, "entityId" | "chain">[],
): readonly Demand[] {
  if (parts.every(({ entityId }) => entityId === parts[0]?.entityId)) return claims;
  const above = new Map<string, number>();
  for (const { chain } of parts) {
    for (const [i, { bucket, totals }] of chain.entries()) {
      above.set(bucket.id, chain.length - i);
      if (totals !== undefined) above.set(totals.bucket.id, chain.length - i);
    }
  }
  const levelsAbove = ({ bucket }: Demand) => above.get(bucket.id) ?? 0;
  // Totals come after the resources of their level, as in a chain.
  const textOf = ({ bucket: { entityId, resource } }: Demand) =>
    `${entityId}\n${resource === TOTAL_RESOURCE ? "~" : resource}`;
  return claims.toSorted((a, b) => levelsAbove(b) - levelsAbove(a) || (textOf(a) < textOf(b) ? -1 : 1));
}

/** All parts charge the one bucket of a total, or of a common parent, so they must agree about its limits. */
export function disagreeing(chains: readonly (readonly ChainLink[])[]): readonly ChainLink[] {
  const links = chains.flatMap((chain) => chain.map((link, level) => ({ link, isCaller: level === 0 })));
  const isOther = (a: (typeof links)[number], b: (typeof links)[number]): boolean => {
    if (a.link.bucket.entityId !== b.link.bucket.entityId) return false;
    const [one, other] = [a.link.totals, b.link.totals];
    if (one?.set.signature !== other?.set.signature) return true;
    if (a.link.bucket.id === b.link.bucket.id && a.link.set.signature !== b.link.set.signature) return true;
    // A caller may be charged to limits that do not apply to a parent.
    return a.isCaller === b.isCaller && one?.charged.signature !== other?.charged.signature;
  };
  return links.flatMap((one) => (links.some((other) => isOther(one, other)) ? [one.link] : []));
}
