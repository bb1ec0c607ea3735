import type { Claim, Held } from "../../src/ports/bucket-store.ts";
import type { Clause, ItemAnswer, ItemCall, ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import type { Clock } from "../../src/ports/system.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { namesOf, RF, TTL, UH } from "../../src/protocol/item/attributes.ts";
import { createForm, formFor } from "../../src/protocol/take/forms.ts";
import { type Intent, NO_USAGE } from "../../src/protocol/take/intent.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import type { ConditionalProcess } from "../kit/conditional-store.ts";
import { ENV, imageOf } from "./kit.ts";

// Clients that lack one rule of the protocol each. Most are the client as it is, with its writes changed on their way to the
// store: the rule is a clause or an effect that is left out there.

/** How a process is opened that lacks a rule. A store of its own for each process: nothing is kept between two of them. */
export type Faulty = () => Partial<ConditionalProcess>;

/** A client as it is. */
export const FAULTLESS: Faulty = () => ({});

/** Rebases without saying of the limits that it does not take from on which side of the capacity they stand. */
export const bindsOnlyTakenLimits: Faulty = rewriting((write) => {
  if (write.trace?.form !== "rebase") return write;
  const taken = namesInTrace(write).map((name) => namesOf(name).tk);
  return { ...write, when: dropping(write.when, (name) => TOKENS.test(name) && !taken.includes(name)) };
});

/** Lets an item expire a minute after it was made, full or not. */
export const expiresAfterAMinute: Faulty = rewriting((write) => {
  const { [TTL]: _, ...set } = write.set;
  if (write.kind === "put") {
    return { ...write, set: { ...set, [TTL]: Math.ceil((write.trace?.readingMs ?? 0) / 1000) + 60 } };
  }
  const remove = write.remove.filter((name) => name !== TTL);
  return { ...write, set, remove, when: dropping(write.when, (name) => name === TTL) };
});

/** Gives back into whatever period the quota is in now. */
export const givesBackIntoAnyPeriod: Faulty = rewriting((write) => {
  if (write.trace?.form !== "credit") return write;
  const add = { ...write.add };
  let { when } = write;
  for (const { limit, milli } of write.trace.parts.flatMap(({ amounts }) => amounts)) {
    const { tk, ra, rn, ws } = namesOf(limit);
    add[tk] = milli;
    when = dropping(when, (name) => [ra, rn, ws, RF].includes(name));
  }
  return { ...write, when, add };
});

/** Moves the epoch to the reading, also where that is the epoch it had. */
export const repeatsEpochs: Faulty = rewriting((write) => {
  const pinned = write.when.flat().find(({ name, is }) => name === RF && is === "=");
  const epochMs = pinned !== undefined && "value" in pinned ? Number(pinned.value) : undefined;
  if (write.trace?.form !== "rebase" || epochMs === undefined || write.set[RF] !== epochMs + 1) return write;
  return { ...write, set: { ...write.set, [RF]: epochMs } };
});

/** Joins shards without looking whether the one that goes still holds what it counts on. */
export const removesShardsUnseen: Faulty = rewriting((write) => {
  if (write.trace?.form !== "share" || write.kind !== "delete") return write;
  return { ...write, when: dropping(write.when, (name) => TOKENS.test(name) || COUNTERS.test(name)) };
});

/** Makes a shard that it finds missing, full, without asking shard 0 how many there are. */
export const makesMissingShards: Faulty = () => ({
  through: (items) =>
    overriding<ItemStore>(items, {
      write: async (write, call) => {
        const answer = await items.write(write, call);
        const [part] = write.trace?.parts ?? [];
        if (answer.kind !== "failed" || answer.item !== undefined || write.key.shard === 0 || part === undefined)
          return answer;
        const { set, origin } = part.of as Claim | Held;
        const intent = takeIntent(part.of as Claim, write.trace?.readingMs ?? 0);
        const step = createForm(write.key, { set, origin }, intent, ENV);
        return step.kind === "write" ? items.write(step.write, call) : answer;
      },
    }),
});

/** Closes an hour without making sure that the one before it is on its sheet. */
export const skipsSheets: Faulty = () => ({
  through: (items) =>
    overriding<ItemStore>(items, {
      write: (write, call) =>
        write.key.sheet === undefined ? items.write(write, call) : { kind: "applied", item: {} },
    }),
});

/** Gives back into whatever hour is open, also one that is over. */
export const givesBackIntoPastHours: Faulty = rewriting((write) =>
  write.trace?.form === "credit"
    ? { ...write, when: dropping(write.when, (name) => name === UH || name === TTL) }
    : write,
);

/** Drops what was counted of a limit together with the limit. */
export const forgetsCounters: Faulty = rewriting((write) => {
  const gone = write.remove.filter((name) => TOKENS.test(name)).map((name) => name.replace(/_tk$/, "_tc"));
  return gone.length === 0 ? write : { ...write, remove: [...write.remove, ...gone] };
});

/** Joins shards without looking whether the one that goes has counted something since. */
export const joinsUncounted: Faulty = rewriting((write) => {
  if (write.trace?.form !== "share" || write.kind !== "delete") return write;
  return { ...write, when: dropping(write.when, (name) => COUNTERS.test(name)) };
});

/** Keeps an item only until its tokens are full again. */
export const expiresWhenFull: Faulty = () => ({ usageKeptS: () => -365 * 24 * 3_600 });

/** Brings whatever it has in its cache: nothing that a bucket says makes it read configuration again. */
export const trustsItsCache: Faulty = () => {
  class Trusting extends ConfigReadings {
    override doubtOf(): "none" {
      return "none";
    }
  }
  return { readings: new Trusting() };
};

/**
 * Takes in as many rounds as the protocol has for one limit. `readings` says whether they all go by the reading of the first,
 * or each reads the clock again.
 */
export async function takeInRounds(
  items: ItemStore,
  clock: Clock,
  claim: Claim,
  readings: "one" | "each round its own",
): Promise<"taken" | "contended"> {
  const call: ItemCall = { timeoutMs: 10_000 };
  const key = { bucket: claim.bucket, shard: 0 };
  let readingMs = clock.now();
  let [item] = await items.read([key], { consistent: true }, call);
  for (let round = 0; round < ROUNDS && item !== undefined; round++) {
    if (readings === "each round its own") readingMs = clock.now();
    const step = formFor(imageOf(item), takeIntent(claim, readingMs), ENV);
    if (step.kind === "short") break;
    const answer: ItemAnswer = await items.write(step.write, call);
    if (answer.kind === "applied") return "taken";
    if (answer.kind === "failed") item = answer.item;
  }
  return "contended";
}

const ROUNDS = 6;
const TOKENS = /^b_.*_tk$/;
const COUNTERS = /^b_(.*_(tc|by|od)|rq)$/;

function rewriting(rewritten: (write: ItemWrite) => ItemWrite): Faulty {
  return () => ({
    through: (items) =>
      overriding<ItemStore>(items, {
        write: (write, call) => items.write(rewritten(write), call),
        transact: (writes, options, call) => items.transact(writes.map(rewritten), options, call),
      }),
  });
}

/** The clauses but those with a test of such an attribute. */
function dropping(when: readonly Clause[], isDropped: (name: string) => boolean): readonly Clause[] {
  return when.filter((clause) => !clause.some(({ name }) => isDropped(name)));
}

function namesInTrace({ trace }: ItemWrite): string[] {
  return (trace?.parts ?? []).flatMap(({ amounts }) => amounts.map(({ limit }) => limit));
}

/** What a claim alone wants of a shard. */
export function takeIntent(claim: Claim, readingMs: number): Intent {
  return {
    readingMs,
    install: { set: claim.set, origin: claim.origin },
    configConfirmed: false,
    checksAccess: false,
    isOff: false,
    moves: claim.take.map(({ limit, milli }) => ({ limit, milli, whenShort: "refuse" })),
    usage: { ...NO_USAGE, requests: 1, counters: claim.take },
    parts: [{ of: claim, kind: "take", amounts: claim.take }],
    nonce: undefined,
    birth: undefined,
    ignoreImageShortage: false,
    guesses: undefined,
  };
}
