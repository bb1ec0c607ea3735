import { SLICES_MAX } from "../../domain/bucket/holds.ts";
import type { UsageCounter } from "../../domain/charge/usage.ts";
import { FIELDS_STORED, type FieldAttribute } from "../../domain/limits/limit-stored.ts";

/**
 * Names of the attributes of a bucket item, as in the table shared with the original. Numbers are millitokens and milliseconds;
 * only `ttl` counts seconds.
 */
export const RF = "rf";
export const FRF = "frf";
/**
 * The row of epochs: a number drawn when the bucket is made, and again when an epoch is set back. Within a row epochs only grow,
 * so no two states of an item have the same number and the same epoch.
 */
export const BN = "bn";
export const VU = "vu";
export const CFA = "cfa";
/** The instant of the newest change of stored limits that the item has gone through. */
export const CFC = "cfc";
/** 1: the limits came with a request, not from stored configuration. */
export const CFG = "cfg";
/** The reading of the last take or debit that kept the epoch: it went by the limits that the item then had. */
export const LW = "lw";
/** Configured limits in their order; other limits on the item are only remembered. */
export const CFL = "cfl";
export const TTL = "ttl";
export const SHARD_COUNT = "shard_count";
/** When the number of shards was last changed; on shard 0. */
export const SDA = "sda";
/** The open hour of usage, in hours since 1970. It only grows, and only together with the epoch. */
export const UH = "uh";
/** The hour before it, while the item still has it. */
export const UP = "up";
/** Requests of the open hour, and of the hour before. */
export const RQ = "b_rq";
export const RQP = "b_rqp";
export const SCHED = "sched";
export const RSCHED = "rsched";
export const SCHED_TZ = "sched_tz";
export const DISABLED = "disabled";
export const BYPASS = "bypass";

/** The counter of writes: to other readers a limit of its own, one token a write. */
export const WCU = "wcu";
/** Capacity of the counter of writes for other readers, and its refill a second. */
export const WCU_MILLI = 1_000_000;

export const NONCE_SLOTS = 16;

/** The attribute of a nonce slot, `n0` to `nf`. */
export function nonceSlot(slot: number): string {
  return SLOT_NAMES[slot] as string;
}

const SLOT_NAMES = Array.from({ length: NONCE_SLOTS }, (_, slot) => `n${slot.toString(16)}`);

export const PLACES = Array.from({ length: SLICES_MAX }, (_, place) => place);

/** Suffixes of a limit's attributes: tokens, capacity, refill amount and period, and a fraction of a millitoken at the epoch. */
const BALANCE = ["tk", "cp", "ra", "rp", "fr"] as const;

/**
 * Suffixes of its marks: the start of its window (`ws`), and of the window that the balance belongs to (`wa`, the same in what we
 * write); what was topped up; the count of resets; the capacity from which usage is counted, if not the current one
 * (`QuotaMarks.countedFromMilli`); the number of parts at its last grant; the highest threshold that was told with its period,
 * `80@PERIOD`, and the number of the write that set it (`th`, `tb`, on shard 0); the zone of a limit that is only remembered, if it
 * differs from the item's; and until when it is remembered (`LimitState.rememberUntilMs`).
 */
export const MARKS = ["ws", "wa", "tu", "cf", "rn", "gc", "tz", "ru", "th", "tb"] as const;

type Suffix =
  | (typeof BALANCE | typeof MARKS)[number]
  | (typeof COUNTERS)[number]["open" | "closed"]
  /** The fields of `domain/limits/limit-stored.ts`. */
  | FieldAttribute;

/** The attributes of one limit. */
export interface LimitNames extends Readonly<Record<Suffix, string>> {
  /** Open slices of held slots, by place: when each ends, and how much it holds. */
  readonly ends: readonly string[];
  readonly held: readonly string[];
}

/**
 * The suffixes of each counter, for the open hour and for the hour before: net usage, overdrafts (1000 each), the bypassed part,
 * refusals of a shadow (1000 each), and how long slots were held.
 */
export const COUNTERS: readonly {
  readonly counter: UsageCounter;
  readonly open: "tc" | "od" | "by" | "wr" | "hu";
  readonly closed: "tp" | "op" | "bp" | "wv" | "hv";
}[] = [
  { counter: "counters", open: "tc", closed: "tp" },
  { counter: "overdrafts", open: "od", closed: "op" },
  { counter: "bypassed", open: "by", closed: "bp" },
  { counter: "wouldRefuse", open: "wr", closed: "wv" },
  { counter: "heldMs", open: "hu", closed: "hv" },
];

/** The names are cached: every write asks for them. */
export function namesOf(limit: string): LimitNames {
  let names = known.get(limit);
  if (names === undefined) {
    const named = (suffix: string) => `b_${limit}_${suffix}`;
    const all = Object.fromEntries(SUFFIXES.map((suffix) => [suffix, named(suffix)])) as Record<Suffix, string>;
    const ends = PLACES.map((place) => named(`e${place}`));
    names = { ...all, ends, held: PLACES.map((place) => named(`h${place}`)) };
    // Names come from configuration: a few dozen. If callers invent names without end, the cache starts over.
    if (known.size >= NAMES_MAX) known.clear();
    known.set(limit, names);
  }
  return names;
}

const SUFFIXES = [
  ...BALANCE,
  ...MARKS,
  ...COUNTERS.flatMap(({ open, closed }) => [open, closed]),
  ...FIELDS_STORED.map(({ attribute }) => attribute),
];

/** The limits on an item, sorted: names with tokens and a capacity, except the counter of writes. */
export function limitNamesIn(item: Readonly<Record<string, unknown>>): string[] {
  const found: string[] = [];
  for (const attribute of Object.keys(item)) {
    if (!attribute.startsWith("b_") || !attribute.endsWith("_tk")) continue;
    const limit = attribute.slice(2, -3);
    if (limit !== WCU && limit !== "" && namesOf(limit).cp in item) found.push(limit);
  }
  return found.sort();
}

const NAMES_MAX = 10_000;
const known = new Map<string, LimitNames>();

const COUNTER = 2 ** 20;

/** The number from which a bucket counts its resets: unique to the bucket, with room to count on. */
export function birthOf(birth: number): number {
  return (birth % 2 ** 46) * 64;
}

/** Numbers by which a process recognizes its own writes. Two processes share them with a chance of one in 2^33. */
export class Nonces {
  /** The slot of this process; other processes may use the same. */
  readonly slot: number;
  readonly #base: number;
  #count = 0;

  constructor(random: () => number) {
    const own = Math.floor(random() * 2 ** 33);
    this.slot = own % NONCE_SLOTS;
    this.#base = own * COUNTER;
  }

  next(): number {
    this.#count = (this.#count + 1) % COUNTER;
    return this.#base + this.#count;
  }

  /** A unique name for a transaction. */
  token(): string {
    return `t${this.next().toString(36)}`;
  }
}
