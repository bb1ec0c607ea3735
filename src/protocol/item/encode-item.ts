import type { BucketState, LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import type { Env } from "../take/intent.ts";
import { hourNumber } from "../usage/hours.ts";
import {
  BN,
  CFA,
  CFC,
  CFG,
  CFL,
  FRF,
  namesOf,
  RF,
  RQ,
  RSCHED,
  SCHED,
  SCHED_TZ,
  SHARD_COUNT,
  UH,
  VU,
  WCU,
  WCU_MILLI,
} from "./attributes.ts";
import type { Dialect } from "./dialect.ts";
import { encodedLimit, ownAttributes, storeHeld, zoneOfLimits } from "./limit-words.ts";

/**
 * A new item: its tokens are the state's, and only the write that creates it is counted. `birth`: the number of the bucket;
 * undefined if none was drawn.
 */
export function newItem(state: BucketState, birth: ItemValue | undefined, env: Env): Record<string, ItemValue> {
  const item: Record<string, ItemValue> = { ...parametersOf(state, env, undefined), [RF]: state.epochMs, [RQ]: 0 };
  for (const { name, tokensMilli, slices } of state.limits) {
    item[namesOf(name).tk] = tokensMilli;
    item[namesOf(name).tc] = 0;
    storeHeld(item, name, slices);
  }
  if (birth !== undefined) item[BN] = birth;
  if (env.dialect.countsByHour) item[UH] = hourNumber(state.epochMs);
  const { tk, cp, ra, rp, tc } = namesOf(WCU);
  return Object.assign(item, { [tk]: WCU_MILLI - 1000, [cp]: WCU_MILLI, [ra]: WCU_MILLI, [rp]: 1000, [tc]: 1000 });
}

/**
 * Makes a new item say "read configuration": the creating request did not read it for this bucket, so a change of access may have
 * been announced before there was an item.
 */
export function markUnread(item: Record<string, ItemValue>, { dialect }: Env): void {
  if (dialect.announcesConfig({ [VU]: 0 })) item[VU] = 0;
}

/** The attributes of a bucket and of each limit, without tokens and counters. `vu` replaces the state's own. */
export function parametersOf(state: BucketState, { softUntilMs, dialect }: Env, vu: 0 | undefined): Item {
  const item: Record<string, ItemValue> = { ...dialect.grantsOf(state) };
  const softMs = softUntilMs(state.epochMs);
  const zone = zoneOfLimits(state.limits);
  for (const limit of state.limits) {
    Object.assign(item, encodedLimit(limit, softMs, zone));
    // The original begins periods without updating it: it would belong to a period before.
    if (!dialect.notesTakes) delete item[namesOf(limit.name).cf];
  }
  if (state.limits.some(({ remainder }) => remainder !== 0)) item[FRF] = state.epochMs;
  if (zone !== undefined) item[SCHED_TZ] = zone;
  if (vu !== undefined) item[VU] = vu;
  else if (Number.isFinite(state.validUntilMs)) item[VU] = state.validUntilMs;
  item[CFA] = state.origin.asOfMs;
  if (state.origin.changeNumber !== undefined) item[CFC] = state.origin.changeNumber;
  if (state.origin.given && dialect.notesTakes) item[CFG] = 1;
  item[CFL] = state.limits.flatMap(({ name, configured }) => (configured ? [name] : [])).join(",");
  item[SHARD_COUNT] = shardCountOf(state);
  return item;
}

/** The attributes that a rebase from one state to another may change. */
export function parameterNames(
  item: Item,
  before: BucketState,
  after: readonly LimitState[],
  { countsByHour }: Pick<Dialect, "countsByHour">,
): Set<string> {
  const names = new Set<string>([FRF, SCHED, RSCHED, SCHED_TZ, VU, CFA, CFC, CFG, CFL, SHARD_COUNT]);
  for (const { name } of [...before.limits, ...after]) for (const own of ownAttributes(namesOf(name))) names.add(own);
  // A forgotten limit takes its tokens and marks with it. Its counters of the open hour stay until that is closed.
  for (const { name } of before.limits) {
    if (after.some((limit) => limit.name === name)) continue;
    const { tk, tc, th, tb, held } = namesOf(name);
    for (const own of countsByHour ? [tk, th, tb, ...held] : [tk, tc, ...held]) if (own in item) names.add(own);
  }
  return names;
}

export function shardCountOf({ limits }: BucketState): number {
  return limits[0]?.part?.count ?? 1;
}
