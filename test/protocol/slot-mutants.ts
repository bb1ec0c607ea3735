import { isSlotPin, type SlotPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { Clause, Item, ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import { BN, namesOf, RF } from "../../src/protocol/item/attributes.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { ConditionalLine } from "../kit/conditional-line.ts";
import { without as replacing } from "../simulation/code-mutants.ts";
import type { Spoiled } from "./slot-world.ts";

// Deliberate bugs in the writes of slots. Each must be found by the judge of slot-world.ts.

const NONCE = /^n[0-9a-f]$/;

/** Those of one limit. */
export function slotMutants(limit: string): Readonly<Record<string, Spoiled>> {
  const { tk, rn } = namesOf(limit);
  const ENDS = new RegExp(`^b_${limit}_e\\d$`);
  const HELD = new RegExp(`^b_${limit}_h\\d$`);
  return {
    "an end that is rounded down": rewriting((write) => {
      const ends = Object.entries(write.set).filter(([name]) => ENDS.test(name));
      return {
        ...write,
        set: { ...write.set, ...Object.fromEntries(ends.map(([name, at]) => [name, Number(at) - 1_000])) },
      };
    }),

    "an ended slice that is not pinned": rewriting((write) => ({
      ...write,
      when: without(write.when, (name, is) => HELD.test(name) && is === "="),
    })),

    "what is free taken from the image when the epoch moves": (items) => {
      let seen: Item | undefined;
      return overriding<ItemStore>(items, {
        write: async (write, call) => {
          const answer = await items.write(write.trace?.form === "rebase" ? asSeen(write, seen, tk) : write, call);
          if (answer.kind === "applied" || answer.kind === "failed") seen = answer.item ?? seen;
          return answer;
        },
      });
    },

    "a take without the epoch": rewriting((write) =>
      write.trace?.form === "take"
        ? { ...write, when: without(write.when, (name) => name === RF || name === BN) }
        : write,
    ),

    "a take without a lower bound": rewriting((write) =>
      isFor(write, "take") ? { ...write, when: without(write.when, (name) => name === tk) } : write,
    ),

    "a give-back by its place alone": rewriting((write) =>
      write.trace?.form === "credit" ? { ...write, when: without(write.when, (name) => ENDS.test(name)) } : write,
    ),

    "a give-back without the beginning": rewriting((write) =>
      write.trace?.form === "credit" ? { ...write, when: without(write.when, (name) => name === rn) } : write,
    ),

    "a give-back that is repeated after a lost answer": (items) =>
      overriding<ItemStore>(items, {
        write: async (write, call) => {
          const answer = await items.write(write, call);
          return answer.kind === "unknown" && isFor(write, "credit") ? items.write(write, call) : answer;
        },
      }),

    "a give-back of more than the slice holds": rewriting((write) =>
      isFor(write, "credit")
        ? { ...write, when: without(write.when, (name, is) => HELD.test(name) && is === ">=") }
        : write,
    ),

    "a renewal of a slice that is empty": rewriting((write) =>
      isFor(write, "renew")
        ? { ...write, when: without(write.when, (name, is) => HELD.test(name) && is === ">=") }
        : write,
    ),

    "a renewal that is told and not written": (items) =>
      overriding<ItemStore>(items, {
        write: (write, call) =>
          isFor(write, "renew")
            ? items.write({ ...write, add: kept(write.add, (name) => !HELD.test(name)) }, call)
            : items.write(write, call),
      }),

    "a reset that keeps the beginning": (items) =>
      overriding<ItemStore>(items, {
        transact: (writes, options, call) =>
          items.transact(
            writes.map((write) => ({
              ...write,
              set: write.kind === "update" ? kept(write.set, (name) => name !== rn) : write.set,
            })),
            options,
            call,
          ),
      }),

    "an epoch that is set back and keeps the beginning": rewriting((write) => {
      const pinned = write.when.flat().find(({ name, is }) => name === RF && is === "=");
      const epochMs = pinned !== undefined && "value" in pinned ? Number(pinned.value) : 0;
      const isBack = Number(write.set[RF] ?? epochMs) < epochMs;
      return isBack ? { ...write, set: kept(write.set, (name) => name !== rn) } : write;
    }),

    "a create that is sent twice with one birth": rewriting((write) => {
      if (write.kind !== "put" || !(rn in write.set)) return write;
      return { ...write, set: { ...write.set, [rn]: 64, [BN]: 1 } };
    }),

    "what is free cut at N": rewriting((write) => {
      const added = write.add[tk];
      if (write.trace?.form !== "credit" || added === undefined || added <= 0) return write;
      return { ...write, add: kept(write.add, (name) => name !== tk) };
    }),

    "a write that is applied again": (items) =>
      overriding<ItemStore>(items, {
        write: async (write, call) => {
          const answer = await items.write(write, call);
          if (answer.kind !== "applied" || !isFor(write, "credit")) return answer;
          const again = await items.write({ ...write, when: without(write.when, (name) => NONCE.test(name)) }, call);
          return again.kind === "applied" ? again : answer;
        },
      }),
  };
}

function rewriting(change: (write: ItemWrite) => ItemWrite): Spoiled {
  return (items) => overriding<ItemStore>(items, { write: (write, call) => items.write(change(write), call) });
}

function isFor(write: ItemWrite, kind: string): boolean {
  return write.trace?.parts.some((part) => part.kind === kind) ?? false;
}

function without(when: readonly Clause[], drops: (name: string, is: string) => boolean): readonly Clause[] {
  return when.filter((clause) => !clause.some(({ name, is }) => drops(name, is)));
}

function kept<Value>(all: Readonly<Record<string, Value>>, keeps: (name: string) => boolean): Record<string, Value> {
  return Object.fromEntries(Object.entries(all).filter(([name]) => keeps(name)));
}

/** The write with what is free as it was seen last, and what is added to it, as a number. */
function asSeen(write: ItemWrite, seen: Item | undefined, tk: string): ItemWrite {
  const added = write.add[tk];
  if (added === undefined || typeof seen?.[tk] !== "number") return write;
  return {
    ...write,
    set: { ...write.set, [tk]: Number(seen[tk]) + Number(added) },
    add: kept(write.add, (name) => name !== tk),
  };
}

/** After a lost answer a take is told of the slice that ends last of those that it was sent for. */
export function laterOfTwo(): () => void {
  const sent = new WeakMap<object, { readonly slices: Omit<SlotPin, "resets" | "sinceMs">[]; isLost: boolean }>();
  const { write } = ConditionalLine.prototype;
  const { take } = ProtocolBuckets.prototype;
  const mends = [
    replacing(
      ConditionalLine.prototype,
      "write",
      async function (this: ConditionalLine, ...args: Parameters<typeof write>) {
        const [of] = args;
        const claims = (of.trace?.parts ?? []).filter(({ kind }) => kind === "take").map((part) => part.of);
        for (const claim of claims) {
          const known = sent.get(claim) ?? { slices: [], isLost: false };
          known.slices.push(...openedBy(of));
          sent.set(claim, known);
        }
        const answer = await write.apply(this, args);
        if (answer.kind === "unknown")
          for (const claim of claims) (sent.get(claim) as { isLost: boolean }).isLost = true;
        return answer;
      },
    ),
    replacing(
      ProtocolBuckets.prototype,
      "take",
      async function (this: ProtocolBuckets, ...args: Parameters<typeof take>) {
        const reply = await take.apply(this, args);
        if (reply === "stale") return reply;
        return reply.map((answer, i) => {
          const known = sent.get(args[0][i] as Claim);
          if (answer.kind !== "taken" || known === undefined || !known.isLost) return answer;
          return { ...answer, ticket: endingLast(answer.ticket, known.slices) };
        });
      },
    ),
  ];
  return () => {
    for (const mend of mends) mend();
  };
}

function endingLast(ticket: Ticket, slices: readonly Omit<SlotPin, "resets" | "sinceMs">[]): Ticket {
  const pins = ticket.pins.map((pin) => {
    if (!isSlotPin(pin)) return pin;
    const later = slices.filter(({ limit, endMs }) => limit === pin.limit && endMs > pin.endMs);
    const [last] = later.toSorted((a, b) => b.endMs - a.endMs);
    return last === undefined ? pin : { ...pin, ...last };
  });
  return { ...ticket, pins };
}

/** The slices that a write opens. */
function openedBy({ set }: ItemWrite): Omit<SlotPin, "resets" | "sinceMs">[] {
  return Object.entries(set).flatMap(([name, endMs]) => {
    const [, limit, place] = /^b_(.+)_e(\d)$/.exec(name) ?? [];
    return limit === undefined ? [] : [{ limit, place: Number(place), endMs: Number(endMs) }];
  });
}
