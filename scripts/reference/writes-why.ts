import type { WriteText } from "./writes-text.ts";

/** A pattern of a clause or an effect, with its values put in, and the reason for it. */
export type Reason = readonly [RegExp, string];

/** Why a clause or an effect is there: the form's own reason, or that of all forms. Throws where there are no words for it. */
export function whyOf(text: string, own: readonly Reason[], write: WriteText): string {
  const found = [...WRITES, ...own, ...generalOf(text, write)].find(([pattern]) => pattern.test(text));
  if (found === undefined) throw new Error(`scripts/reference/writes-why.ts has no reason for: ${text}`);
  return found[1];
}

function generalOf(text: string, { what, effects }: WriteText): readonly Reason[] {
  if (what === "sheet") return SHEET;
  if (what === "record") return RECORD;
  if (!effects.some((effect) => effect.startsWith("SET rf = "))) return ANY;
  const [, limit] = /b_(.+)_tk/.exec(text) ?? [];
  const isCut = effects.some((effect) => effect.startsWith(`SET b_${limit}_tk = `));
  return [...(isCut ? CUT : DRIPPED), ...ANY];
}

const EXPIRY = "the item is kept until every limit is full again, and as long as its usage";

/** The count of writes, which has the form of a limit. */
const WRITES: readonly Reason[] = [
  [/^b_wcu_tc = /, "no write has come meanwhile: each is counted"],
  [/^b_wcu_tk >= /, "the count of writes, which the original goes by, stands over its brim, too"],
  [/^SET b_wcu_tk = /, "the count of writes is full again, less this one: only the original goes by it"],
  [/^ADD b_wcu_tc /, "this write is counted"],
  [/^ADD b_wcu_tk /, "the same for the original"],
];

/** Of a rebase: a limit that is cut at its capacity, or filled. */
const CUT: readonly Reason[] = [
  [/_tk >= /, "the limit is full at the new epoch: with fewer tokens it would not be cut"],
  [/^SET b_.+_tk = /, "full at the new epoch, less what is taken"],
];

/** Of a rebase: a limit that is not. */
const DRIPPED: readonly Reason[] = [
  [/_tk >= /, "what is taken is there at the new epoch"],
  [/_tk <=? /, "the limit is not full at the new epoch: nothing is cut off"],
  [/^ADD b_.+_tk /, "what drips in up to the new epoch, less what is taken"],
];

const ANY: readonly Reason[] = [
  [/^attribute_exists\(PK\)$/, "the item is there: it is not made by this write"],
  [/^attribute_not_exists\(PK\)$/, "no other process has made the item meanwhile"],
  [/^rf = /, "the epoch as it was seen, and with it all terms, fractions and periods: they only change together"],
  [/^rf < /, "the period of the take has not ended: its end moves the epoch"],
  [/^bn = /, "the bucket that was seen, not one made anew; and no stamp has come since"],
  [
    /^\(attribute_not_exists\(vu\) OR vu > /,
    "no boundary was passed, and no change announced (`vu` = 0): the level is still a straight line",
  ],
  [/^vu = 0$/, "the announcement that configuration was read for; a later one has another `bn`"],
  [
    /^(?:vu = |attribute_not_exists\(vu\)$)/,
    "the boundary as it was seen: no change of configuration was announced meanwhile",
  ],
  [/^attribute_not_exists\(disabled\)$/, "the bucket was not switched off"],
  [
    /^\(attribute_not_exists\(lw\) OR lw <= /,
    "no process has taken by the old limits since the instant from which the new ones count",
  ],
  [/^\(attribute_not_exists\(ttl\) OR ttl >= /, EXPIRY],
  [/^attribute_not_exists\(ttl\)$/, "the item does not expire, and no process has set an expiry meanwhile"],
  [/^ttl = /, "the expiry as it was seen, because the write moves it"],
  [/^\(attribute_not_exists\(n[0-9a-f]\) OR /, "the write was not applied before: its answer may have been lost"],
  [/^\(attribute_not_exists\(shard_count\) OR /, "as many shards as were seen: each has its share of the capacity"],
  [/^shard_count = /, "the bucket was not split or joined meanwhile"],
  [/^uh >= /, "the hour of the give-back is open, or a later one: an hour that is over is final"],
  [/^uh = /, "no process has begun another hour"],
  [/^b_rq = /, "no request was counted meanwhile"],
  [/^b_.+_tc = /, "nothing was counted meanwhile"],
  [/^attribute_not_exists\(b_.+_(?:by|od)\)$/, "a counter that the item did not have, and that would be lost"],
  [/^attribute_exists\(b_.+_tk\)$/, "the limit is there: an addition would make it otherwise"],
  [/^b_.+_tk >= /, "what is taken is there, with what dripped in since the epoch"],
  [/^b_.+_tk < /, "the limit stands below its brim: nothing overflowed, so nothing has to be cut off"],
  [/^b_.+_tk <= /, "the shard has room for all of it: nothing is cut off later"],
  [/^b_.+_tk = /, "the tokens as they were seen: what is moved goes by them"],
  [/^b_.+_ra > 0$/, "the limit still drips: it is no quota with a period"],
  [/^b_.+_ra = 0$/, "the limit is still a quota"],
  [/^b_.+_rn = /, "no reset by hand, and no other rule, since the take"],
  [/^attribute_not_exists\(b_.+_rn\)$/, "no reset by hand, and no other rule, since the take"],
  [/^b_.+_ws = /, "the window is still that of the take"],
  [/^attribute_not_exists\(b_.+_ws\)$/, "the quota goes by the calendar, not by a session"],
  [/^b_.+_(?:cp|ra|rp) = /, "the original changes terms without moving the epoch"],

  [/^SET lw = /, "when it was taken: changed limits do not count from before"],
  [/^SET n[0-9a-f] = /, "the nonce by which the process knows its write again"],
  [/^SET bn = /, "another row of epochs: whatever was planned by the item before fails"],
  [/^SET rf = /, "the new epoch"],
  [/^SET vu = 0$/, "read configuration again"],
  [/^SET vu = /, "the next boundary"],
  [/^REMOVE vu$/, "no boundary is ahead, and nothing is announced any more"],
  [/^SET (?:cfa|cfc|cfl|cfg) = /, "which reading of configuration, and which change, the item goes by now"],
  [/^SET b_.+_(?:cp|ra|rp) = /, "the new terms"],
  [/^SET (?:b_.+_fr|frf) = /, "the fraction that is carried over to the new epoch"],
  [/^REMOVE (?:b_.+_fr|frf)$/, "no fraction is carried over"],
  [/^SET b_.+_ru = /, "until when the limit must be remembered: it would be full again too early"],
  [/^SET b_.+_(?:ws|wa) = /, "the window opens"],
  [/^REMOVE b_.+_(?:ws|wa)$/, "the window is closed, as if it had never been open"],
  [/^SET b_.+_tu = /, "what was bought: part of the capacity until the next reset"],
  [/^SET b_.+_rn = /, "a new beginning: leases of before give nothing back"],
  [/^SET ttl = /, EXPIRY],
  [/^REMOVE ttl$/, "a split bucket does not expire"],
  [/^SET shard_count = /, "of how many shards the bucket is now"],
  [/^SET sda = /, "when the number of shards was last changed"],
  [/^SET disabled = /, "the next take fails, and its caller reads configuration"],
  [/^REMOVE disabled$/, "the mark of a bucket that is switched off goes"],
  [/^SET bypass = /, "the original lets requests through until then; to us it says: read configuration"],
  [/^REMOVE bypass$/, "the mark of a bypass goes"],
  [/^SET up = /, "the hour that is closed"],
  [/^SET uh = /, "the open hour"],
  [
    /^SET (?:b_.+_(?:tp|bp|op)|b_rqp) = if_not_exists/,
    "the count of the closed hour, as it stands when the write is applied",
  ],
  [/^REMOVE (?:up|b_rqp|b_.+_(?:tp|bp|op))$/, "the closed hour is on its sheet"],
  [/^SET b_.+_tc = /, "the new hour begins with what this write counts"],
  [/^SET b_rq = /, "the new hour begins with the requests of this write"],
  [/^ADD b_.+_tc -/, "it was not used after all"],
  [/^ADD b_.+_tc /, "usage of the open hour"],
  [/^ADD b_.+_by -/, "it was not let through after all"],
  [/^ADD b_.+_by /, "of that, what was let through by a bypass"],
  [/^ADD b_.+_od /, "an overdraft, counted as 1,000"],
  [/^ADD b_rq -/, "the request was never made"],
  [/^ADD b_rq /, "a request of the open hour"],
  [/^ADD b_.+_tk -/, "what is taken"],
  [/^ADD b_.+_tk /, "what comes back"],
];

const SHEET: readonly Reason[] = [
  [/^attribute_not_exists\(h\d\d\)$/, "the hour is not on the sheet yet: what is there is final"],
  [/^SET h\d\d = /, "requests, then the millitokens of each limit"],
  [/^SET ttl = /, "usage is kept so long after its day"],
];

const RECORD: readonly Reason[] = [
  [
    /^\(attribute_not_exists\(ttl\) OR ttl <= /,
    "the operation was not done before under this key; a record that is over does not count",
  ],
];
