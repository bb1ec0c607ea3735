import { refilledMilli } from "../../bucket/level.ts";
import { type BucketState, bucketFor, findLimit } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { opensWindow } from "../../domain/limits/limit-kinds.ts";
import type { Item } from "../../ports/item-store.ts";
import { BYPASS, DISABLED, LW, namesOf, TTL, VU, WCU } from "../item/attributes.ts";
import { type Image, withCallersLimitObjects } from "../item/codec.ts";
import { boundDebts } from "../shared/debts.ts";
import { count, signWrite } from "../usage/count-usage.ts";
import { rollTo } from "../usage/hours.ts";
import { keepFor } from "./expiry.ts";
import { clearsAccess, type Env, type Intent, type Step } from "./intent.ts";
import { relativeTo, traceOf } from "./moves.ts";
import { cutAt, raised } from "./piece.ts";
import { rebaseWrite } from "./rebase.ts";
import { countedBy, tracedParts } from "./sides.ts";
import { opensSlices } from "./slots.ts";
import { writtenOf } from "./write-limit.ts";
import { writeLimit } from "./write-slots.ts";

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
  if (clearsAccess(intent) && (DISABLED in item || BYPASS in item)) return true;
  // An item that has expired may be removed at any moment, so every write to it renews it.
  const ttl = item[TTL];
  if (typeof ttl === "number" && ttl <= Math.floor(readingMs / 1000)) return true;
  if (!state.plain && moves.some(({ limit, milli }) => opens(state, limit, milli))) return true;
  if (!state.plain && opensSlices(state, moves, readingMs)) return true;
  return dialect.needsRebase(image, { readingMs, moves, configConfirmed });
}

const UNSTAMPED: Item = Object.freeze({});

/** The epoch stays. Whether a limit is below its capacity or at it is taken from the image, or from a guess. */
function plainForm(image: Image, intent: Intent, env: Env): Step {
  const { state, key, item } = image;
  const { readingMs, moves, guesses } = intent;
  const builder = relativeTo(image).whereUnless(VU, ">", readingMs);
  if (intent.checksAccess) builder.asSeen(DISABLED, intent.configConfirmed ? item : UNSTAMPED);
  env.dialect.pinTerms(builder, image, moves);
  const written = writtenOf(intent, boundDebts(builder, image, intent, env));
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
    // What is free of slots is never cut: there is no side to be on.
    const piece = rulesOf(held.limit).holdsSlots ? raised(0) : isOver ? over : below;
    const fold = { name: held.name, before: kept, after: kept, piece };
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
  keepFor(builder, { item, shardCount, readingMs, install, state, low: written.low, hourEndMs }, env);
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
