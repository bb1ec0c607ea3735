import type { Held } from "../../src/ports/bucket-store.ts";
import type { Item, ItemValue, ItemWrite } from "../../src/ports/item-store.ts";
import { namesOf, SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import type { Mutant } from "./mutants.ts";
import { overriding } from "./port.ts";

const PINNED = /^(rf|bn|b_.*_tk)$/;
const CAPACITY = /^b_(.*)_cp$/;

/** Deliberate bugs of single kinds of limits that no shard by itself can tell: only what the whole bucket holds. */
export const WHOLE_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a give-back to a soft quota that always goes to the first shard": {
    layer: "items",
    caughtAs: /given back above a shard's brim|and its period leaves/,
    spoil: (items) =>
      overriding(items, {
        write: (write, call) =>
          items.write(
            isToSoftQuota(write) ? { ...write, key: { ...write.key, shard: 0 }, when: loose(write) } : write,
            call,
          ),
      }),
  },
  "a quota in shards that is given the whole difference on each": {
    layer: "items",
    caughtAs: /holds -?\d+ millitokens more than the model/,
    spoil: (items) =>
      overriding(items, {
        write: async (write, call) => {
          if (!Object.keys(write.set).some((name) => CAPACITY.test(name))) return items.write(write, call);
          const [item] = await items.read([write.key], { consistent: true }, call);
          return items.write(item === undefined ? write : withWholeGain(write, item), call);
        },
      }),
  },
};

/** A quota that is changed on a shard gains, besides the share of the shard, those of all others. */
function withWholeGain(write: ItemWrite, item: Item): ItemWrite {
  const set: Record<string, ItemValue> = { ...write.set };
  const add: Record<string, number | bigint> = { ...write.add };
  for (const [name, milli] of Object.entries(write.set)) {
    const limit = CAPACITY.exec(name)?.[1];
    const before = item[name];
    if (limit === undefined || typeof milli !== "number" || typeof before !== "number") continue;
    const { tk, ra } = namesOf(limit);
    if (item[ra] !== 0 || (set[ra] ?? 0) !== 0) continue;
    const shards = Number(item[SHARD_COUNT] ?? 1);
    const others = Math.trunc(((milli - before) / shards) * (shards - 1));
    const tokens = set[tk];
    if (typeof tokens === "number") set[tk] = tokens + others;
    else add[tk] = Number(add[tk] ?? 0) + others;
  }
  return { ...write, set, add };
}

function isToSoftQuota({ trace, key }: ItemWrite): boolean {
  if (trace?.form !== "credit" || key.shard === 0) return false;
  return trace.parts.every(({ of, amounts }) =>
    amounts.every(({ limit }) => {
      const { soft, reset } = (of as Held).set.limits.find(({ name }) => name === limit) ?? {};
      return soft && reset !== undefined;
    }),
  );
}

function loose({ when }: ItemWrite): ItemWrite["when"] {
  return when.filter((clause) => !clause.some(({ name }) => PINNED.test(name)));
}
