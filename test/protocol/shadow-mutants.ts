import type { ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { namesOf } from "../../src/protocol/item/attributes.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import type { Spoiled } from "./shadow-world.ts";

// Deliberate bugs in the writes of shadows. Each must be found by the judge of shadow-world.ts.

const { tk, wr, tc } = namesOf("tpm");

export const SHADOW_MUTANTS: Readonly<Record<string, Spoiled>> = {
  "a shadow that debits": rewriting((write) =>
    hasPassed(write) && write.trace?.form === "take"
      ? { ...write, add: { ...write.add, [tk]: Number(write.add[tk] ?? 0) - passedMilli(write) } }
      : write,
  ),
  "a shadow that is not bounded from above": rewriting((write) =>
    hasPassed(write) ? { ...write, when: without(write, "<") } : write,
  ),
  "a shadow that takes what is not there": rewriting((write) =>
    isTake(write) && !hasPassed(write) ? { ...write, when: without(write, ">=") } : write,
  ),
  "a shadow that counts nothing": rewriting((write) => (hasPassed(write) ? leftOut(write, wr) : write)),
  "a count that an undone request keeps": rewriting((write) =>
    write.trace?.parts.some(({ undoes }) => undoes !== undefined) ? leftOut(write, wr) : write,
  ),
  "a shadow that counts with the tokens of others": rewriting((write) =>
    hasPassed(write) && write.kind === "update"
      ? { ...write, add: { ...write.add, [wr]: Number(write.add[wr] ?? 0) + Number(write.add[tc] ?? 0) + 1_000 } }
      : write,
  ),
};

function rewriting(change: (write: ItemWrite) => ItemWrite): Spoiled {
  return (items) =>
    overriding<ItemStore>(items, {
      write: (write, call) => items.write(change(write), call),
      transact: (writes, options, call) => items.transact(writes.map(change), options, call),
    });
}

function isTake({ trace }: ItemWrite): boolean {
  return trace?.parts.some(({ kind }) => kind === "take") ?? false;
}

function hasPassed({ trace }: ItemWrite): boolean {
  return trace?.parts.some(({ kind, shadowed }) => kind === "take" && shadowed?.includes("tpm")) ?? false;
}

function passedMilli({ trace }: ItemWrite): number {
  const passed = (trace?.parts ?? []).filter(({ shadowed }) => shadowed?.includes("tpm"));
  return passed
    .flatMap(({ amounts }) => amounts)
    .reduce((sum, { limit, milli }) => (limit === "tpm" ? sum + milli : sum), 0);
}

function without({ when }: ItemWrite, comparison: string): ItemWrite["when"] {
  return when.filter((clause) => !clause.some((one) => one.name === tk && one.is === comparison));
}

function leftOut(write: ItemWrite, name: string): ItemWrite {
  const { [name]: _, ...add } = write.add;
  const { [name]: __, ...set } = write.set;
  return { ...write, add, set };
}
