import { SLICES_MAX } from "../../domain/bucket/holds.ts";
import type { UsageCounter } from "../../domain/charge/usage-counters.ts";
import { FIELDS_STORED, type FieldAttribute } from "../../domain/limits/limit-stored.ts";

/**
 * Names of the attributes of a bucket item, as in the table shared with the original. Numbers are millitokens and
 * milliseconds; `ttl` alone counts seconds.
 */
export const RF = "rf";
export const FRF = "frf";
/**
 * Which row of epochs it is in: a number drawn when the bucket was made, and drawn again when an epoch is set back. Within a row
 * epochs only grow, so no two states of an item have the same number and the same epoch.
 */
export const BN = "bn";
export const VU = "vu";
export const CFA = "cfa";
/** The instant of the newest change of stored limits that the item has gone through. */
export const CFC = "cfc";
/** 1: its limits came with a request, not from stored configuration. */
export const CFG = "cfg";
/** The reading of the last take or debit that left the epoch alone: it went by the limits that the item then had. */
export const LW = "lw";
/** Configured limits in their order; those on the item that it does not name are remembered only. */
export const CFL = "cfl";
export const TTL = "ttl";
export const SHARD_COUNT = "shard_count";
/** When the number of shards was last changed; on shard 0. */
export const SDA = "sda";
/** The open hour of usage, in hours since 1970. It only grows, and only together with the epoch. */
export const UH = "uh";
/** The hour before it, while that stands beside it. */
export const UP = "up";
/** Requests of the open hour, and of the hour before. */
export const RQ = "b_rq";
export const RQP = "b_rqp";
export const SCHED = "sched";
export const RSCHED = "rsched";
export const SCHED_TZ = "sched_tz";
export const DISABLED = "disabled";
export const BYPASS = "bypass";

/** The counter of writes: a limit of its own to other readers, one write each. */
export const WCU = "wcu";
/** The most that the counter of writes holds for other readers, and its refill a second. */
export const WCU_MILLI = 1_000_000;

export const NONCE_SLOTS = 16;

/** The attribute of one of the nonce slots, `n0` to `nf`. */
export function nonceSlot(slot: number): string {
  return SLOT_NAMES[slot] as string;
}

const SLOT_NAMES = Array.from({ length: NONCE_SLOTS }, (_, slot) => `n${slot.toString(16)}`);

/** The places of slices, `e0` to `e7`. */
export const PLACES = Array.from({ length: SLICES_MAX }, (_, place) => place);

/** The attributes of its fields (`domain/limits/limit-stored.ts`). */
type FieldNames = Readonly<Record<FieldAttribute, string>>;

/** The attributes of one limit. */
export interface LimitNames extends FieldNames {
  readonly tk: string;
  readonly cp: string;
  readonly ra: string;
  readonly rp: string;
  /** Used in the open hour, net; of that bypassed; overdrafts, what a shadow would have refused, 1000 each; and how long slots were held. */
  readonly tc: string;
  readonly by: string;
  readonly od: string;
  readonly wr: string;
  readonly hu: string;
  /** The same of the hour before. */
  readonly tp: string;
  readonly bp: string;
  readonly op: string;
  readonly wv: string;
  readonly hv: string;
  readonly fr: string;
  /** Of the open slices of a limit whose slots are held, by place: when each ends, and what is held in it. */
  readonly ends: readonly string[];
  readonly held: readonly string[];
  readonly ws: string;
  /** The window start that the balance belongs to; equals `ws` in what we write. */
  readonly wa: string;
  readonly tu: string;
  readonly rn: string;
  /** From which capacity what was used is counted, where that is not the one in force; see `QuotaMarks.countedFromMilli`. */
  readonly cf: string;
  readonly gc: string;
  /** The highest that was told and in which period, `80@PERIOD`; and the number by which its writer knows it. On shard 0. */
  readonly th: string;
  readonly tb: string;
  /** The zone of a limit that is only remembered, where it differs from the item's. */
  readonly tz: string;
  /** Not forgotten, nor expired, before this instant; see `LimitState.rememberUntilMs`. */
  readonly ru: string;
}

/** The ends of the attributes of each counter, of the open hour and of the hour before. */
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
    const name = (what: string) => `b_${limit}_${what}`;
    names = {
      tk: name("tk"),
      cp: name("cp"),
      ra: name("ra"),
      rp: name("rp"),
      tc: name("tc"),
      by: name("by"),
      od: name("od"),
      wr: name("wr"),
      hu: name("hu"),
      tp: name("tp"),
      bp: name("bp"),
      op: name("op"),
      wv: name("wv"),
      hv: name("hv"),
      fr: name("fr"),
      ...(Object.fromEntries(FIELDS_STORED.map(({ attribute }) => [attribute, name(attribute)])) as FieldNames),
      ends: PLACES.map((place) => name(`e${place}`)),
      held: PLACES.map((place) => name(`h${place}`)),
      ws: name("ws"),
      wa: name("wa"),
      tu: name("tu"),
      cf: name("cf"),
      rn: name("rn"),
      gc: name("gc"),
      th: name("th"),
      tb: name("tb"),
      tz: name("tz"),
      ru: name("ru"),
    };
    // Names come from configuration: a few dozen. Where callers make up new ones without end, they are worked out again.
    if (known.size >= NAMES_MAX) known.clear();
    known.set(limit, names);
  }
  return names;
}

/** The limits on an item: what has tokens and a capacity, but for the counter of writes. In order. */
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
