import type { Claim } from "../../src/ports/bucket-store.ts";
import type { ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import { Lane } from "../../src/protocol/process/lane.ts";
import { Looks } from "../../src/protocol/several/looks.ts";
import { LateWatch } from "../../src/protocol/take/shard-take.ts";
import { LONGER_MS, TOO_OLD, without } from "./code-mutants.ts";
import type { Mutant } from "./mutants.ts";
import { overriding } from "./port.ts";

const TOKENS = /^b_.*_tk$/;
const OVERDRAFT = /^b_.*_od$/;

const LOST = /above a shard's brim|and its period leaves/;

/** Deliberate bugs, most of give-backs, between the protocol and its items: no shard by itself can tell. */
export const GIVE_BACK_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a give-back that always goes to the first shard": {
    layer: "items",
    caughtAs: LOST,
    spoil: writing((write) => {
      const { key, trace, when } = write;
      if (trace?.form !== "credit" || key.shard === 0) return write;
      const pinned = when.filter(
        (clause) => !clause.some(({ name }) => TOKENS.test(name) || name === "rf" || name === "bn"),
      );
      return { ...write, key: { ...key, shard: 0 }, when: pinned };
    }),
  },
  "a give-back that does not look at the room there is": {
    layer: "items",
    caughtAs: LOST,
    spoil: writing((write) => {
      if (write.trace?.form !== "credit") return write;
      const most = (clause: ItemWrite["when"][number]) =>
        clause.some((test) => TOKENS.test(test.name) && test.is === "<=") || clause.some(({ name }) => name === "rf");
      return { ...write, key: { ...write.key, shard: 0 }, when: write.when.filter((clause) => !most(clause)) };
    }),
  },
  "a give-back that drops what the first shard has no room for": {
    layer: "items",
    caughtAs: /was rolled back, but|was not granted, but charged|was settled with/,
    spoil: (items) => {
      const seen = new WeakSet<object>();
      return overriding(items, {
        write: async (write, call) => {
          const of = write.trace?.form === "credit" ? write.trace.parts[0]?.of : undefined;
          if (of === undefined || !seen.has(of)) {
            const answer = await items.write(write, call);
            if (of !== undefined && answer.kind === "applied") seen.add(of);
            return answer;
          }
          const [item] = await items.read([write.key], { consistent: true }, call);
          return item === undefined ? { kind: "failed", item } : { kind: "applied", item };
        },
      });
    },
  },
  "a request that is undone without its overdrafts": {
    layer: "items",
    caughtAs: /usage of .*overdrawn is \d+, not \d+/,
    spoil: writing((write) => {
      if (write.trace?.form !== "credit") return write;
      return { ...write, add: Object.fromEntries(Object.entries(write.add).filter(([name]) => !OVERDRAFT.test(name))) };
    }),
  },
  "a request of nothing that stays counted": {
    layer: "items",
    caughtAs: /stays counted in the usage|usage of .*requests is/,
    spoil: (items) =>
      overriding(items, {
        write: async (write, call) => {
          const isNothing =
            write.trace?.parts.every(({ amounts }) => amounts.every(({ milli }) => milli === 0)) ?? false;
          if (write.trace?.form !== "credit" || !isNothing) return items.write(write, call);
          const [item] = await items.read([write.key], { consistent: true }, call);
          return item === undefined ? { kind: "failed", item } : { kind: "applied", item };
        },
      }),
  },
  "a take that landed late for nobody, and stays": {
    layer: "code",
    caughtAs: /for nobody, as it heard late, and never gave it back/,
    spoil: () => without(LateWatch.prototype, "on", () => {}),
  },
  "a shortage that a process remembers for twice as long as it may": {
    layer: "code",
    caughtAs: TOO_OLD,
    spoil: () => {
      const { isShort } = Looks.prototype;
      return without(Looks.prototype, "isShort", function (this: Looks, claim: Claim, nowMs: number) {
        return isShort.call(this, claim, nowMs) || isShort.call(this, claim, nowMs - LONGER_MS);
      });
    },
  },
  "a switch that is stamped on nothing": {
    layer: "code",
    caughtAs: /was answered by what is disabled/,
    spoil: () => without(ProtocolBuckets.prototype, "stampAccess", () => Promise.resolve(1)),
  },
  "a take that waits for the one before it, however long that takes": {
    layer: "code",
    caughtAs: /a (take|debit) of \w+ took \d+ ms, and had \d+/,
    spoil: () => without(Lane.prototype, "wakeBy", () => {}),
  },
  "shards that are joined to one, and the answer never comes": {
    layer: "items",
    caughtAs: /never ends|took \d+ ms, and had/,
    spoil: (items) =>
      overriding(items, {
        transact: (writes, options, call) => {
          const isJoin = writes.some(({ trace, set }) => trace?.form === "share" && set.shard_count === 1);
          return isJoin ? new Promise(() => {}) : items.transact(writes, options, call);
        },
      }),
  },
};

/** Every single write becomes another one. */
function writing(spoiled: (write: ItemWrite) => ItemWrite): (items: ItemStore) => ItemStore {
  return (items) => overriding(items, { write: (write, call) => items.write(spoiled(write), call) });
}
