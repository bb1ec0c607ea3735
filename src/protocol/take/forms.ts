import { refilledMilli } from "../../bucket/level.ts";
import type { Amount } from "../../domain/amounts.ts";
import { assembled, type BucketState, bornAs, bucketFor, findLimit, freshBucket } from "../../domain/bucket-state.ts";
import { opensWindow } from "../../domain/limit-kinds.ts";
import type { ItemKey } from "../../ports/item-store.ts";
import { BYPASS, DISABLED, LW, namesOf, TTL, VU, WCU } from "../item/attributes.ts";
import { type Image, withCallersLimitObjects } from "../item/codec.ts";
import { markUnread, newItem } from "../item/encode-item.ts";
import { birthOf } from "../item/nonces.ts";
import { SPARE_S } from "../item/ttl.ts";
import { putNew, WriteBuilder } from "../item/write-builder.ts";
import { boundDebts } from "../shared/debts.ts";
import { count, eachCounter, signWrite } from "../usage/count-usage.ts";
import { hourEndFor, rollTo } from "../usage/hours.ts";
import { keepFor, keptUntil } from "./expiry.ts";
import { always, cutAt } from "./fold.ts";
import type { Env, Intent, Step } from "./intent.ts";
import { relativeTo, traceOf, withLimit } from "./moves.ts";
import { rebaseWrite } from "./rebase.ts";
import { countedBy, tracedParts } from "./sides.ts";
import { type Written, writeLimit } from "./write-limit.ts";

/**
 * The write that does what is intended to the item in the image, or `short` where it does not fit. Pure. The write is right
 * for every item that meets its condition, not only for the one in the image.
 */
export function formFor(seen: Image, asked: Intent, env: Env): Step {
  const image = asked.install === undefined ? seen : withCallersLimitObjects(seen, asked.install.set);
  const install = env.dialect.installable(asked.install, asked.configConfirmed);
  const intent = install === asked.install ? asked : { ...asked, install };
  return needsRebase(image, intent, env) ? rebaseWrite(image, intent, env) : plainForm(image, intent, env);
}

/** Whether the epoch has to be moved: the level since it is no longer tokens plus a constant refill, or limits change. */
export function needsRebase(image: Image, intent: Intent, { calendar, dialect }: Env): boolean {
  const { item, state } = image;
  const { readingMs, install, moves, configConfirmed } = intent;
  if (readingMs >= state.renewAtMs) return true;
  if (rollTo(image, intent) !== undefined) return true;
  if (install !== undefined && bucketFor(state, install, readingMs, calendar) !== state) return true;
  const vu = item[VU];
  if (typeof vu === "number" && vu <= readingMs) return true;
  if (configConfirmed && (DISABLED in item || BYPASS in item)) return true;
  // An item that has expired may be removed at any moment, so every write to it renews it.
  const ttl = item[TTL];
  if (typeof ttl === "number" && ttl <= Math.floor(readingMs / 1000)) return true;
  if (!state.plain && moves.some(({ limit, milli }) => opens(state, limit, milli))) return true;
  return dialect.needsRebase(image, { readingMs, moves, configConfirmed });
}

/** Creates the item, full but for what is moved; `short` where not even a full bucket has enough. */
export function createForm(key: ItemKey, install: NonNullable<Intent["install"]>, intent: Intent, env: Env): Step {
  const { readingMs, moves, usage, nonce, birth } = intent;
  const made = freshBucket(install.set, install.origin, readingMs, env.calendar);
  const fresh = birth === undefined ? made : bornAs(made, birthOf(birth));
  const written: Written = { low: [], overdrafts: [...usage.overdrafts], passed: [] };
  let state: BucketState = { ...fresh, untouched: false };
  // What is not there yet has no tokens that a condition could be about: of these clauses none is sent.
  const unsent = new WriteBuilder();
  for (const move of moves) {
    const held = findLimit(state, move.limit);
    if (held === undefined) continue;
    const fold = { name: held.name, before: undefined, after: held, piece: always(held.tokensMilli) };
    const of = { item: {}, fold, move, atMs: readingMs, refill: undefined, intent };
    const limit = writeLimit(unsent, of, written, env);
    if (limit === "short") return { kind: "short", state: fresh };
    if (typeof limit === "object") state = withLimit(state, limit);
  }
  state = assembled(state, env.calendar);
  const item = newItem(state, birth, env);
  eachCounter(countedBy(usage, written), state.limits, env.dialect, (name, sum) => {
    item[name] = sum;
  });
  if (nonce !== undefined) item[nonce.name] = nonce.value;
  // A debit is not refused, whatever configuration says by now.
  if (install.origin.reading !== undefined && !intent.checksAccess) markUnread(item, env);
  const at = { readingMs, hourEndMs: hourEndFor(readingMs, env.dialect) };
  const untilS = install.origin.own ? undefined : keptUntil(state.limits, written.low, at, env);
  if (untilS !== undefined) item[TTL] = untilS + SPARE_S;
  const write = putNew(key, item, traceOf("create", tracedParts(intent, written), readingMs, []));
  return { kind: "write", write, state, sides: written };
}

/** The epoch stays. Whether a limit is below its capacity or at it is taken from the image, or from a guess. */
function plainForm(image: Image, intent: Intent, env: Env): Step {
  const { state, key, item } = image;
  const { readingMs, moves, guesses } = intent;
  const builder = relativeTo(image).whereUnless(VU, ">", readingMs);
  if (intent.checksAccess) builder.absent(DISABLED);
  env.dialect.pinTerms(builder, image, moves);
  const low = boundDebts(builder, image, intent, env);
  const written: Written = { low, overdrafts: [...intent.usage.overdrafts], passed: [] };
  const spare: Amount[] = [];
  for (const move of moves) {
    const held = findLimit(state, move.limit);
    if (held === undefined) continue;
    const risenMilli = refilledMilli(held.remainder, held.terms, readingMs - state.epochMs);
    const spendableMilli = env.dialect.spendsRefill(held, readingMs - state.epochMs) ? risenMilli : 0;
    const brimMilli = held.terms.capacityMilli - risenMilli;
    const guess = guesses?.get(move.limit);
    const spareMilli = guess?.side === "over" ? guess.spareMilli : 0;
    const isOver = guess === undefined ? held.tokensMilli >= brimMilli : guess.side === "over";
    const [below, over] = cutAt(brimMilli - spareMilli);
    const tokensMilli = Math.min(held.tokensMilli, brimMilli - spareMilli);
    const kept = tokensMilli === held.tokensMilli ? held : { ...held, tokensMilli };
    const fold = { name: held.name, before: kept, after: kept, piece: isOver ? over : below };
    const of = { item, fold, move, atMs: readingMs, refill: { risenMilli, spendableMilli }, intent };
    const limit = writeLimit(builder, of, written, env);
    if (limit === "short") return { kind: "short", state };
    if (limit !== "left" && spareMilli > 0) spare.push({ limit: held.name, milli: spareMilli });
  }
  const { shardCount, hourEndMs } = image;
  const { install } = intent;
  // Not a clause: it need not be exact among writes that cross each other, as readings are not either.
  if (env.dialect.notesTakes && moves.some(({ milli }) => milli > 0)) {
    builder.set(LW, Math.max(readingMs, state.writtenMs ?? readingMs));
  }
  keepFor(builder, { item, shardCount, readingMs, install, state, low, hourEndMs }, env);
  count(builder, image, { usage: countedBy(intent.usage, written), limits: state.limits, hour: undefined }, env);
  signWrite(builder, intent.nonce);
  builder.add(namesOf(WCU).tk, -1000);
  const write = builder.update(key, "exists", traceOf("take", tracedParts(intent, written), readingMs, spare));
  // Only tokens change, so the state stands for the item after the write, too.
  return { kind: "write", write, state, sides: written };
}

function opens(state: BucketState, limit: string, milli: number): boolean {
  const held = findLimit(state, limit);
  return held !== undefined && opensWindow(held, milli);
}
