import type { Held } from "../../src/ports/bucket-store.ts";
import type { ItemWrite } from "../../src/ports/item-store.ts";
import type { Mutant } from "./mutants.ts";
import { overriding } from "./port.ts";

const PINNED = /^(rf|bn|b_.*_tk)$/;

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
};

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
