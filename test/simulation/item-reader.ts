import type { Item } from "../../src/ports/item-store.ts";
import type { Rule } from "./promised-limit.ts";

// What an item says, read by its attributes alone: cp, ra and rp are capacity, refill and its period, rsched and rsa say
// when a quota is full again.

const CAPACITY = /^b_(.+)_cp$/;
const WRITES = "wcu";

/** How many minutes are between the resets, as they are written on an item. */
const EVERY: Readonly<Record<string, number>> = { "1m*/15": 15, "1m0": 60, "1m0h0": 1440 };

/** The limits on an item, or on one shard of a bucket: those of the whole. */
export function ruleIn(item: Item): Rule[] {
  return Object.keys(item).flatMap((attribute) => {
    const name = CAPACITY.exec(attribute)?.[1];
    if (name === undefined || name === WRITES) return [];
    const [cp, ra, rp, rsa] = ["cp", "ra", "rp", "rsa"].map((what) => item[`b_${name}_${what}`] as number | undefined);
    const rsched = item[`b_${name}_rsched`] ?? item.rsched;
    const isCalendar = ra === 0 && rsa === undefined && typeof rsched === "string" && rsched !== "-";
    return [
      {
        name,
        capacity: Number(cp) / 1000,
        refill: Number(ra) / 1000,
        periodMs: Number(rp),
        ...(isCalendar ? { everyMs: (EVERY[rsched] ?? Number.NaN) * 60_000 } : {}),
        ...(rsa === undefined ? {} : { sessionMs: rsa * 1000 }),
      },
    ];
  });
}
