import { refilledMilli } from "../../bucket/level.ts";
import { type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { LEVELS_MAX } from "../../domain/config/entity.ts";
import { refuseLimitsShared } from "../../domain/limits/beyond-rates.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Floor } from "../../domain/limits/limit-numbers.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import type { ItemValue } from "../../ports/item-store.ts";
import { CFA, namesOf, SHARD_COUNT, VU, WCU } from "../item/attributes.ts";
import { type Dialect, TRANSACTION_ITEMS_MAX } from "../item/dialect.ts";
import { neededOf } from "../take/job.ts";

export const SHARED: Dialect = {
  checkLimits: ({ limits }) => {
    refuseLimitsShared(limits);
    const session = limits.find((limit) => rulesOf(limit).opensWindow);
    if (session === undefined) return;
    throw new ValidationError(
      "shared_session",
      `Limit "${session.name}" is a session quota; on a table shared with the Python zae-limiter its windows would open ` +
        "twice. Use a calendar quota, or open the table without sharedTable.",
    );
  },

  checkTopUp: ({ entityId, resource }) => {
    throw new ValidationError(
      "shared_top_up",
      `${entityId} on ${resource} cannot be topped up on a table shared with the Python zae-limiter, which would spend ` +
        "the tokens differently. Open it without sharedTable, or raise the limit.",
    );
  },

  sameParameters: (item, before) => {
    for (const name of Object.keys(item)) {
      if (item[name] === before[name]) continue;
      // The original writes the terms of a limit first, and its tokens later: only then it is a limit.
      if (!COUNTED.test(name) || !(name in before || name.startsWith("n"))) return false;
    }
    return Object.keys(before).every((name) => name in item);
  },

  partRounding: "floor",

  // A new item names its owner, which is checked in the same transaction: an item more for each level.
  atomicItemsMax: TRANSACTION_ITEMS_MAX - LEVELS_MAX,

  // Missing limits are pinned too: the original may leave, or write, terms without tokens.
  pinTerms: (builder, { item }, limits) => {
    builder.asSeen(SHARD_COUNT, item);
    for (const { limit } of limits) {
      const { cp, ra, rp } = namesOf(limit);
      builder.asSeen(cp, item).asSeen(ra, item).asSeen(rp, item);
    }
  },

  needsRebase: (seen, { readingMs, moves, configConfirmed }) => {
    const counter = seen.item[namesOf(WCU).tk];
    // Below this the original takes the item for too busy, and makes a slow pass with every request.
    if (typeof counter !== "number" || counter < 1000) return true;
    if (configConfirmed && SHARED.hasSoftStampOver(seen, readingMs)) return true;
    return moves.some((move) => outgrows(seen.state, move, readingMs));
  },

  spendsRefill: ({ limit }, elapsedMs) => limit.soft === true || elapsedMs <= 0,

  // The time of a change of limits is unknown there.
  notesTakes: false,
  readsWriteCounter: true,
  expiryIgnoresDebts: true,

  grantsOf: ({ limits }) => {
    const item: Record<string, ItemValue> = {};
    for (const { name, limit, part } of limits) {
      if (!rulesOf(limit).refillsSteadily) item[namesOf(name).gc] = part?.grantedAmong ?? part?.count ?? 1;
    }
    return item;
  },

  softUntilMs: (atMs, random) => atMs + Math.floor(STAMP_MS * (0.8 + random() / 5)),

  creditNeedsImage: true,

  capCredit: (builder, { item, state }, { limit, milli }) => {
    const held = findLimit(state, limit);
    if (held === undefined) return;
    const { tk, cp } = namesOf(limit);
    const mostMilli = held.terms.capacityMilli - milli;
    if (held.tokensMilli <= mostMilli) builder.asSeen(cp, item).asSeen(SHARD_COUNT, item).where(tk, "<=", mostMilli);
    else builder.set(VU, 0);
  },

  capRebasedCredit: (builder, { name, tokensMilli }, mostMilli) => {
    // An item that was seen above the capacity is marked; another must not be lifted there unseen.
    if (tokensMilli <= mostMilli) builder.where(namesOf(name).tk, "<=", mostMilli);
  },

  marksRebased: ({ limits }) => limits.some(({ tokensMilli, terms }) => tokensMilli > terms.capacityMilli),

  installable: (install, configConfirmed) => {
    if (configConfirmed || install === undefined || install.origin.given) return install;
    return { set: install.set, origin: { ...install.origin, asOfMs: Number.NEGATIVE_INFINITY } };
  },

  mayBeNewer: () => true,
  announcesConfig: () => false,

  hasSoftStampOver: ({ item, state }, readingMs) =>
    state.limits.some(({ name }) => {
      const stamp = item[namesOf(name).soft];
      return stamp !== undefined && (typeof stamp !== "number" || stamp <= readingMs);
    }),

  // Remembered limits count too: the original changes those in place. So does our last installation: what the original wrote
  // since may look like what it wrote before.
  doubtAbout: ({ canonical, item, state }, isStamped) => {
    const terms = state.limits.map(({ name }) => {
      const { cp, ra, rp } = namesOf(name);
      return `${name},${item[cp]},${item[ra]},${item[rp]}`;
    });
    return [canonical, ...terms, isStamped, item[VU] === 0, item[CFA]].join("/");
  },
  isReadTooOld: ({ asOfMs }, readingMs) => readingMs - asOfMs > READ_MS,
  installStopsOnDoubt: true,
  countsByHour: false,
  mayReshard: false,
  makesMissingShards: true,
};

/**
 * The original spends stored tokens without looking at the refill, and its own refill does not see what was cut: stored tokens
 * must not fall below zero, and nothing is cut without moving the epoch.
 */
function outgrows(
  state: BucketState,
  move: Amount & { readonly floors?: readonly Floor[] },
  readingMs: number,
): boolean {
  const { limit, milli } = move;
  const held = findLimit(state, limit);
  if (held === undefined || milli < 0) return false;
  const risen = refilledMilli(held.remainder, held.terms, readingMs - state.epochMs);
  const isOver = held.tokensMilli >= held.terms.capacityMilli - risen;
  if (isOver) return risen > 0 || held.tokensMilli > held.terms.capacityMilli;
  // An epoch that is not behind has no refill to add: moved by a moment with each request it would run ahead of all clocks.
  return !SHARED.spendsRefill(held, readingMs - state.epochMs) && held.tokensMilli < neededOf(move, held);
}

/** Attributes that a write may change without moving the epoch. */
const COUNTED = /^(b_.*_(tk|tc)|b_rq|ttl|vu|n[0-9a-f])$/;
const STAMP_MS = 60_000;
/** Configuration is installed only this soon after it was read. */
const READ_MS = 1_000;
