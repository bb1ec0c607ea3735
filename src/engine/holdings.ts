import type { Amount } from "../domain/amounts.ts";
import type { Held, Ticket } from "../ports/bucket-store.ts";
import type { ChainLink } from "./config-cache.ts";

/** What was taken from one bucket at one time, and how much of it is still held. */
export interface Holding {
  readonly link: ChainLink;
  readonly ticket: Ticket | undefined;
  readonly milli: Map<string, number>;
}

export function holdingOf(link: ChainLink, take: readonly Amount[], ticket: Ticket | undefined): Holding {
  return { link, ticket, milli: new Map(take.map(({ limit, milli }) => [limit, milli])) };
}

/** A holding as a store needs to see it. */
export function heldOf({ link, ticket }: Holding): Held {
  return { bucket: link.bucket, set: link.set, origin: link.origin, ticket, bypass: link.access === "bypass" };
}

export function add(map: Map<string, number>, limit: string, milli: number): void {
  map.set(limit, (map.get(limit) ?? 0) + milli);
}

/** One entry a holding, so that each bucket is written once. */
export function mergeByHolding(
  returns: readonly { readonly holding: Holding; readonly amounts: readonly Amount[] }[],
): { readonly holding: Holding; readonly amounts: readonly Amount[] }[] {
  const merged = new Map<Holding, Amount[]>();
  for (const { holding, amounts } of returns) merged.set(holding, [...(merged.get(holding) ?? []), ...amounts]);
  return [...merged].map(([holding, amounts]) => ({ holding, amounts }));
}
