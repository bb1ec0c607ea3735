import { assembled, type BucketState, bornAs, findLimit, freshBucket } from "../../domain/bucket/bucket-state.ts";
import type { ItemKey } from "../../ports/item-store.ts";
import { DISABLED, TTL } from "../item/attributes.ts";
import { markUnread, newItem } from "../item/encode-item.ts";
import { birthOf } from "../item/nonces.ts";
import { SPARE_S } from "../item/ttl.ts";
import { putNew, WriteBuilder } from "../item/write-builder.ts";
import { eachCounter } from "../usage/count-usage.ts";
import { hourEndFor } from "../usage/hours.ts";
import { keptUntil } from "./expiry.ts";
import type { Env, Intent, Step } from "./intent.ts";
import { traceOf, withLimit } from "./moves.ts";
import { always } from "./piece.ts";
import { countedBy, tracedParts } from "./sides.ts";
import { writtenOf } from "./write-limit.ts";
import { writeLimit } from "./write-slots.ts";

/** Creates the item, full but for what is moved; `short` where not even a full bucket has enough. */
export function createForm(key: ItemKey, install: NonNullable<Intent["install"]>, intent: Intent, env: Env): Step {
  const { readingMs, moves, usage, nonce, birth } = intent;
  const made = freshBucket(install.set, install.origin, readingMs, env.calendar);
  const fresh = birth === undefined ? made : bornAs(made, birthOf(birth));
  const written = writtenOf(intent, []);
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
  if (intent.isOff) item[DISABLED] = true;
  // A debit is not refused, whatever configuration says by now.
  if (install.origin.reading !== undefined && !intent.checksAccess) markUnread(item, env);
  const at = { readingMs, hourEndMs: hourEndFor(readingMs, env.dialect) };
  const untilS = install.origin.own ? undefined : keptUntil(state.limits, written.low, at, env);
  if (untilS !== undefined) item[TTL] = untilS + SPARE_S;
  const write = putNew(key, item, traceOf("create", tracedParts(intent, written), readingMs, []));
  return { kind: "write", write, state, sides: written };
}
