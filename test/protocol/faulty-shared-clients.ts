import { refilledMilli } from "../../src/bucket/level.ts";
import { type BucketState, findLimit } from "../../src/domain/bucket/bucket-state.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { ItemStore } from "../../src/ports/item-store.ts";
import type { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { TTL } from "../../src/protocol/item/attributes.ts";
import { type Dialect, OWN } from "../../src/protocol/item/dialect.ts";
import { SHARED } from "../../src/protocol/shared/dialect.ts";
import { createForm } from "../../src/protocol/take/forms.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { type Faulty, takeIntent, trustsItsCache } from "./faulty-clients.ts";
import { ENV } from "./kit.ts";

// Clients that lack one rule of a table which the original writes too: each goes by a dialect that is wrong in one point.

/** How a process is opened on a shared table that lacks a rule. */
export type SharedFaulty = () => { readonly dialect: Dialect; readonly readings?: ConfigReadings };

/** A client as it is. */
export const SHARED_FAULTLESS: SharedFaulty = () => ({ dialect: SHARED });

/** Cuts what stands over the capacity without moving the epoch, as on a table of our own. */
export const cutsWithoutRebase: SharedFaulty = () => ({
  dialect: {
    ...SHARED,
    needsRebase: (seen, { moves, ...wanted }) => {
      const below = moves.filter((move) => !isOver(seen.state, move, wanted.readingMs));
      return SHARED.needsRebase(seen, { ...wanted, moves: below });
    },
  },
});

/** Takes what was refilled from the stored tokens, which fall below zero by it. */
export const storesBelowZero: SharedFaulty = () => ({
  dialect: {
    ...SHARED,
    spendsRefill: OWN.spendsRefill,
    needsRebase: (seen, { moves, ...wanted }) => {
      const over = moves.filter((move) => isOver(seen.state, move, wanted.readingMs));
      return SHARED.needsRebase(seen, { ...wanted, moves: over });
    },
  },
});

/** Gives back over the capacity without a mark. */
export const givesBackUnmarked: SharedFaulty = () => ({
  dialect: {
    ...SHARED,
    capCredit: OWN.capCredit,
    capRebasedCredit: OWN.capRebasedCredit,
    marksRebased: () => false,
  },
});

/** Installs limits from its cache, whenever they were read. */
export const installsFromCache: SharedFaulty = () => ({
  ...trustsItsCache(),
  dialect: { ...SHARED, installable: OWN.installable },
});

/** Changes the number of shards. */
export const reshards: SharedFaulty = () => ({ dialect: { ...SHARED, mayReshard: OWN.mayReshard } });

/** Takes it that terms are what they were as long as the epoch is. */
export const trustsTheEpoch: SharedFaulty = () => ({ dialect: { ...SHARED, pinTerms: OWN.pinTerms } });

/** Replaces an item that has expired and is still there by a new one. */
export const replacesExpired: Faulty = () => ({
  dialect: SHARED,
  through: (items) =>
    overriding<ItemStore>(items, {
      write: async (write, call) => {
        const { trace, key } = write;
        const [part] = trace?.parts ?? [];
        const [item] = await items.read([key], { consistent: true }, call);
        if (part === undefined || Number(item?.[TTL]) * 1000 > (trace?.readingMs ?? 0)) return items.write(write, call);
        const claim = part.of as Claim;
        const intent = takeIntent({ ...claim, take: part.amounts }, trace?.readingMs ?? 0);
        const step = createForm(key, claim, intent, { ...ENV, dialect: SHARED });
        return step.kind === "write" ? items.write({ ...step.write, item: "either" }, call) : items.write(write, call);
      },
    }),
});

function isOver(state: BucketState, { limit }: Amount, readingMs: number): boolean {
  const held = findLimit(state, limit);
  if (held === undefined) return false;
  const refilled = refilledMilli(held.remainder, held.terms, readingMs - state.epochMs);
  return held.tokensMilli >= held.terms.capacityMilli - refilled;
}
