import type { Clause, ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { LW, RF, TTL } from "../../src/protocol/item/attributes.ts";
import { HOLDS_MORE, type Mutant } from "./mutants.ts";
import { overriding } from "./port.ts";

const TOKENS = /^b_.*_tk$/;
const COUNT = /^b_.*_rn$/;
const NONCE = /^n[0-9a-f]$/;
const REMEMBERED = /^b_.*_ru$/;
const HOUR = /^(uh|ttl)$/;
const USED = /^b_((?!wcu).*_tc|rq)$/;
const PERIOD = /^(rf|b_.*_(ra|rn|ws))$/;

/** Deliberate bugs between the protocol and its items. */
export const CONDITIONAL_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a write that is applied twice": {
    layer: "items",
    caughtAs: /with a nonce that was there already|gave back \d+ of \w+ more than it took/,
    spoil: (items) =>
      overriding(items, {
        write: async (write, call) => {
          const answer = await items.write(write, call);
          if (answer.kind !== "applied" || write.item === "missing") return answer;
          const again = await items.write({ ...write, when: without(write.when, NONCE) }, call);
          return again.kind === "applied" ? again : answer;
        },
      }),
  },
  "a take that does not look at what is there": {
    layer: "items",
    caughtAs: /holds \d+ millitokens more than the model|holds -\d+ millitokens more|granted above/,
    spoil: rewriting((write) =>
      write.trace?.form === "take" ? { ...write, when: without(write.when, TOKENS) } : write,
    ),
  },
  "a take that does not say when it was made": {
    layer: "items",
    caughtAs: /lw is \d+ after a take/,
    spoil: rewriting((write) => {
      const { [LW]: _, ...set } = write.set;
      return { ...write, set };
    }),
  },
  "a give-back that counts double": {
    layer: "items",
    caughtAs: HOLDS_MORE,
    spoil: rewriting((write) => (write.trace?.form === "credit" ? { ...write, add: doubled(write.add) } : write)),
  },
  "an item that expires too early": {
    layer: "items",
    caughtAs: /vanished while it was not full/,
    spoil: rewriting((write) => {
      const { set, trace } = write;
      if (!(TTL in set) || trace === undefined) return write;
      return { ...write, set: { ...set, [TTL]: Math.ceil(trace.readingMs / 1000) + 1 } };
    }),
  },
  "a lost write that is repeated without its nonce": {
    layer: "items",
    caughtAs: /with a nonce that was there already|granted \d+ of \w+ but charged \d+/,
    spoil: rewriting((write) => ({ ...write, when: without(write.when, NONCE) })),
  },
  "a split that mints": {
    layer: "items",
    caughtAs: /were minted/,
    spoil: rewriting((write) => {
      const { trace, kind, set } = write;
      if (trace?.form !== "share" || kind !== "put") return write;
      const more = Object.entries(set).filter(([name]) => TOKENS.test(name) && name !== "b_wcu_tk");
      return {
        ...write,
        set: { ...set, ...Object.fromEntries(more.map(([name, milli]) => [name, Number(milli) + 50])) },
      };
    }),
  },
  "a count of resets that goes back with the shards": {
    layer: "items",
    caughtAs: /counts \d+, and was at \d+/,
    spoil: rewriting((write) => {
      if (write.trace?.form !== "share") return write;
      const counts = Object.entries(write.set).filter(([name]) => COUNT.test(name));
      return {
        ...write,
        set: { ...write.set, ...Object.fromEntries(counts.map(([name, is]) => [name, Number(is) - 1])) },
      };
    }),
  },
  "a limit that is forgotten too early": {
    layer: "items",
    caughtAs: /was forgotten while -?\d+ of it were missing, or spent in its period/,
    spoil: rewriting((write) => ({ ...write, set: withoutNames(write.set, REMEMBERED) })),
  },
  "a give-back that does not look at the period": {
    layer: "items",
    caughtAs: HOLDS_MORE,
    spoil: rewriting((write) =>
      write.trace?.form === "credit" ? { ...write, when: without(write.when, PERIOD) } : write,
    ),
  },
  "an hour that is closed before the one beside it is on its sheet": {
    layer: "items",
    caughtAs: /usage of .* is -?\d+, not -?\d+/,
    spoil: (items) =>
      overriding(items, {
        write: (write, call) =>
          write.key.sheet === undefined ? items.write(write, call) : { kind: "applied", item: {} },
      }),
  },
  "a give-back into an hour that is over": {
    layer: "items",
    caughtAs: /it counts in the hour \d+ with the reading/,
    spoil: rewriting((write) =>
      write.trace?.form === "credit" ? { ...write, when: without(write.when, HOUR) } : write,
    ),
  },
  "shards that are joined without what they counted": {
    layer: "items",
    caughtAs: /usage of .* is -?\d+, not -?\d+/,
    spoil: rewriting((write) => {
      if (write.trace?.form !== "share") return write;
      return { ...write, add: Object.fromEntries(Object.entries(write.add).filter(([name]) => !USED.test(name))) };
    }),
  },
  "an epoch that goes back": {
    layer: "items",
    caughtAs: /the epoch went (back )?from \d+ to \d+|the epoch went to \d+ with the reading/,
    spoil: rewriting((write) => {
      const { trace, set } = write;
      if (trace?.form !== "rebase" || typeof set[RF] !== "number") return write;
      return { ...write, set: { ...set, [RF]: set[RF] - 1_000 } };
    }),
  },
};

/** Every write, alone or in a transaction, becomes another one. */
function rewriting(spoiled: (write: ItemWrite) => ItemWrite): (items: ItemStore) => ItemStore {
  return (items) =>
    overriding(items, {
      write: (write, call) => items.write(spoiled(write), call),
      transact: (writes, options, call) => items.transact(writes.map(spoiled), options, call),
    });
}

function without(when: readonly Clause[], name: RegExp): readonly Clause[] {
  return when.filter((clause) => !clause.some((test) => name.test(test.name)));
}

function withoutNames(set: ItemWrite["set"], name: RegExp): ItemWrite["set"] {
  return Object.fromEntries(Object.entries(set).filter(([attribute]) => !name.test(attribute)));
}

function doubled(add: ItemWrite["add"]): ItemWrite["add"] {
  return Object.fromEntries(
    Object.entries(add).map(([name, milli]) => [name, TOKENS.test(name) ? Number(milli) * 2 : milli]),
  );
}
