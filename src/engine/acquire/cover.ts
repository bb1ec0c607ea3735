import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { type ChainLink, isJustRead } from "./config-cache.ts";
import type { Demand } from "./request.ts";

/**
 * The demands on a chain, each with what is known of the configuration that it stands for: of its own level, and of the levels
 * above it that are not asked for anything. Those have no bucket by which a change of their access could be noticed, so the next
 * level below that is asked stands for them (docs/adr/0020-switches-reach-what-is-below.md).
 *
 * `sinceRead`: the number of the last read of configuration when the request came; later ones were begun for it, or beside it.
 */
export function covering(
  demands: readonly Demand[],
  chain: readonly ChainLink[],
  sinceRead: number,
): readonly Demand[] {
  const [only] = chain;
  // Where the store tells by a number that configuration changed, it need not be told by buckets.
  if (only?.generation !== undefined) return demands;
  if (chain.length === 1 && only !== undefined) {
    return isJustRead(only, sinceRead) ? demands.map((demand) => ({ ...demand, isConfigJustRead: true })) : demands;
  }
  const asked = new Map(demands.flatMap((demand) => (demand.take.length > 0 ? [[demand.bucket.id, demand]] : [])));
  const covers = new Map<string, Demand>();
  let above: ChainLink[] = [];
  for (const link of chain.toReversed()) {
    above.push(link);
    const demand = asked.get(link.bucket.id);
    if (demand === undefined) continue;
    covers.set(link.bucket.id, covered(demand, above, sinceRead));
    above = [];
  }
  return demands.map((demand) => {
    if (demand.bucket.resource === TOTAL_RESOURCE) {
      return { ...demand, isConfigJustRead: isJustRead(demand.link, sinceRead) };
    }
    return covers.get(demand.bucket.id) ?? demand;
  });
}

/**
 * The levels at the beginning of a chain that no bucket tells of, because nothing is asked of them or below them, and whose
 * configuration was not read for this request: a switch that turned one of them off would not be noticed.
 */
export function untoldLevels(
  demands: readonly Demand[],
  chain: readonly ChainLink[],
  sinceRead: number,
): readonly ChainLink[] {
  if (chain[0]?.generation !== undefined) return NONE;
  const untold: ChainLink[] = [];
  for (const link of chain) {
    if (demands.some(({ bucket, take }) => take.length > 0 && bucket.id === link.bucket.id)) break;
    if (!isJustRead(link, sinceRead)) untold.push(link);
  }
  return untold;
}

const NONE: readonly ChainLink[] = [];

function covered(demand: Demand, levels: readonly ChainLink[], sinceRead: number): Demand {
  const isConfigJustRead = levels.every((link) => isJustRead(link, sinceRead));
  const { origin, link } = demand;
  const isOff = link.access === "disabled";
  if (origin.reading === undefined) return { ...demand, isConfigJustRead, isOff };
  // The oldest of them: a doubt that the bucket casts is answered only where all of them were read after it.
  const reading = Math.min(...levels.map((link) => link.origin.reading ?? 0));
  return { ...demand, isConfigJustRead, isOff, origin: reading === origin.reading ? origin : { ...origin, reading } };
}
