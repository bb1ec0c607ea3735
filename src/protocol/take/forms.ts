import { refilledMilli } from "../../bucket/level.ts";
import {
  advanced,
  assembled,
  type BucketState,
  bornAs,
  bucketFor,
  countFrom,
  findLimit,
  freshBucket,
  type LimitState,
} from "../../domain/bucket/bucket-state.ts";
import { timeOfEnded } from "../../domain/bucket/slot-time.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import { opensWindow, rewound, withResets } from "../../domain/limits/changed-limit.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { unmetChanges } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { Item, ItemKey } from "../../ports/item-store.ts";
import { BN, BYPASS, birthOf, DISABLED, LW, namesOf, RF, TTL, VU, WCU } from "../item/attributes.ts";
import { type Image, withCallersLimitObjects } from "../item/codec.ts";
import { markUnread, newItem, parameterNames, parametersOf, shardCountOf } from "../item/encode-item.ts";
import { putNew, WriteBuilder } from "../item/write-builder.ts";
import { count, eachCounter, rollTo, signWrite } from "../usage/hours.ts";
import { boundDebt, boundDebts, keepFor, setExpiry } from "./expiry.ts";
import { always, cutAt, type Fold, foldsAround, foldsOf, raised } from "./fold.ts";
import { clearsAccess, type Env, type Intent, NO_SIDES, NO_USAGE, type Step } from "./intent.ts";
import { relativeTo, traceOf, withLimit, writeWcu } from "./moves.ts";
import { opensSlices, writeSlices } from "./slots.ts";
import { partsWith, startWritten, usageWith, writeLimit } from "./write-limit.ts";

/**
 * Moves the item to a later epoch and carries out the intent in the same write, after time, boundaries, resets and changed
 * limits. The condition says of every limit on the item whether it stands below its capacity or above: the rebase is different
 * for the two.
 */
export function rebaseWrite(image: Image, intent: Intent, env: Env): Step {
  const { install, readingMs } = intent;
  const { calendar } = env;
  const atMs = epochAfter(image.state, readingMs);
  const becomes = (state: BucketState) => withLimitsAt(state, { install, readingMs, atMs }, calendar);
  return writeRebased(image, rebase(image.state, becomes, { readingMs, atMs, install }), intent, env);
}

/** The next epoch of an item. It grows strictly, so that an epoch pins everything that is stored relative to it. */
export function epochAfter({ epochMs }: BucketState, readingMs: number): number {
  return Math.max(readingMs, epochMs + 1);
}

/**
 * The bucket at the epoch `atMs`, with limits installed if they are newer than its own: changes of stored limits from their
 * instants on, others from the reading on. A reading behind the epoch counts as the epoch; the time from there to the new epoch
 * goes by the new limits.
 */
export function withLimitsAt(
  state: BucketState,
  { install, readingMs, atMs }: Pick<Intent, "install" | "readingMs"> & { readonly atMs: number },
  calendar: Calendar,
): BucketState {
  const from = Math.max(readingMs, state.epochMs);
  const installed = install === undefined ? state : bucketFor(state, install, from, calendar);
  return advanced(installed, atMs, calendar);
}

interface Rebased {
  readonly atMs: number;
  readonly folds: readonly Fold[];
  readonly state: BucketState;
  /** The first instant from which changed limits count, if it is before the reading. */
  readonly changedSinceMs: number | undefined;
}

/** `becomes` maps any state of the bucket to the epoch `atMs`; it must treat each limit by itself. */
export function rebase(
  state: BucketState,
  becomes: (state: BucketState) => BucketState,
  { readingMs, atMs, install }: Pick<Intent, "readingMs" | "install"> & { readonly atMs: number },
): Rebased {
  const fromMs = Math.max(readingMs, state.epochMs);
  const unmet = install === undefined ? [] : unmetChanges(install.origin, state.origin);
  const [first] = unmet;
  const sinceMs = Math.min(fromMs, Math.max(first?.fromMs ?? fromMs, writtenMs(state)));
  const isEarlier = sinceMs < fromMs;
  // The signature does not show limits that were changed and changed back.
  const folds = isEarlier || unmet.length > 1 ? foldsAround(state, becomes) : foldsOf(state, becomes);
  return { atMs, folds, state: becomes(state), changedSinceMs: isEarlier ? sinceMs : undefined };
}

/** Changed limits do not count from before this instant. */
function writtenMs({ epochMs, writtenMs }: BucketState): number {
  return Math.max(epochMs, writtenMs ?? epochMs);
}

export function writeRebased(image: Image, from: Rebased, intent: Intent, env: Env): Step {
  const { atMs, folds, state: rebased, changedSinceMs } = from;
  const { key, state, item } = image;
  const { moves, configConfirmed } = intent;
  const builder = relativeTo(image).asSeen(VU, item);
  // Limits may count from before now only if no take went by the old ones since.
  if (changedSinceMs !== undefined) builder.whereUnless(LW, "<=", Math.max(changedSinceMs, writtenMs(state)));
  env.dialect.pinTerms(
    builder,
    image,
    folds.map(({ name }) => ({ limit: name })),
  );
  const after: LimitState[] = [];
  const written = startWritten(intent, []);
  for (const fold of folds) {
    const move = moves.find(({ limit }) => limit === fold.name);
    const limit = writeLimit(builder, { item, fold, move, atMs, refill: undefined, intent }, written, env);
    if (limit === "short") return { kind: "short", state: rebased };
    if (typeof limit === "object") after.push(limit);
  }
  const { signature, origin } = rebased;
  const limits = rebased.limits.flatMap(({ name }) => after.find((limit) => limit.name === name) ?? []);
  const next = assembled({ epochMs: atMs, limits, signature, origin }, env.calendar);
  const vu = env.dialect.marksRebased(next, item, configConfirmed) ? 0 : undefined;
  setState(builder, image, next, vu, env);
  if (clearsAccess(intent)) builder.diffAttributes(item, [DISABLED, BYPASS], {});
  // The bucket is disabled, or was meanwhile: a caller that can read configuration again must do so first.
  if (intent.checksAccess) builder.asSeen(DISABLED, configConfirmed ? item : {});
  const hour = rollTo(image, intent);
  const hourEndMs = hour === undefined ? image.hourEndMs : (hour + 1) * HOUR_MS;
  keepFor(builder, { ...intent, item, shardCount: shardCountOf(next), state: next, low: written.low, hourEndMs }, env);
  writeWcu(builder, image, atMs, env);
  const heldMs = [...written.heldMs, ...timeOfEnded(state, next)];
  count(builder, image, { usage: usageWith(intent.usage, { ...written, heldMs }), limits: after, hour }, env);
  signWrite(builder, intent.nonce);
  const fromMs = Math.max(intent.readingMs, state.epochMs);
  const parts = partsWith(intent, written);
  const trace = { ...traceOf("rebase", parts, atMs, []), changedMs: fromMs, heldMs: writtenMs(state) };
  return { kind: "write", write: builder.update(key, "exists", trace), state: next, sides: written };
}

/** Sets a later epoch and what belongs to it: everything but tokens and counters. */
function setState(builder: WriteBuilder, { item, state }: Image, next: BucketState, vu: 0 | undefined, env: Env): void {
  const names = parameterNames(item, state, next.limits, env.dialect);
  builder.diffAttributes(item, names, parametersOf(next, env, vu)).set(RF, next.epochMs);
}

/**
 * The write that carries out the intent on the item in the image, or `short` if it does not fit. Pure. The write is right for
 * every item that meets its condition, not only for the one in the image.
 */
export function formFor(seen: Image, asked: Intent, env: Env): Step {
  const image = asked.install === undefined ? seen : withCallersLimitObjects(seen, asked.install.set);
  const install = env.dialect.installable(asked.install, asked.configConfirmed);
  const intent = install === asked.install ? asked : { ...asked, install };
  return needsRebase(image, intent, env) ? rebaseWrite(image, intent, env) : plainForm(image, intent, env);
}

/** True if the epoch must be moved: the level since it is no longer tokens plus a constant refill, or limits change. */
export function needsRebase(image: Image, intent: Intent, { calendar, dialect }: Env): boolean {
  const { item, state } = image;
  const { readingMs, install, moves, configConfirmed } = intent;
  if (readingMs >= state.renewAtMs) return true;
  if (rollTo(image, intent) !== undefined) return true;
  if (install !== undefined && bucketFor(state, install, readingMs, calendar) !== state) return true;
  const vu = item[VU];
  if (typeof vu === "number" && vu <= readingMs) return true;
  if (clearsAccess(intent) && (DISABLED in item || BYPASS in item)) return true;
  // An expired item may be removed at any moment, so every write to it renews it.
  const ttl = item[TTL];
  if (typeof ttl === "number" && ttl <= Math.floor(readingMs / 1000)) return true;
  if (!state.plain && moves.some(({ limit, milli }) => opens(state, limit, milli))) return true;
  if (!state.plain && opensSlices(state, moves, readingMs)) return true;
  return dialect.needsRebase(image, { readingMs, moves, configConfirmed });
}

const UNSTAMPED: Item = Object.freeze({});

/** The epoch stays. The image, or a guess, tells whether a limit is below its capacity or at it. */
function plainForm(image: Image, intent: Intent, env: Env): Step {
  const { state, key, item } = image;
  const { readingMs, moves, guesses } = intent;
  const builder = relativeTo(image).whereUnless(VU, ">", readingMs);
  if (intent.checksAccess) builder.asSeen(DISABLED, intent.configConfirmed ? item : UNSTAMPED);
  env.dialect.pinTerms(builder, image, moves);
  const written = startWritten(intent, boundDebts(builder, image, intent, env));
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
    // Free slots are never cut: there is no side.
    const piece = rulesOf(held.limit).holdsSlots ? raised(0) : isOver ? over : below;
    const fold = { name: held.name, before: kept, after: kept, piece };
    const of = { item, fold, move, atMs: readingMs, refill: { risenMilli, spendableMilli }, intent };
    const limit = writeLimit(builder, of, written, env);
    if (limit === "short") return { kind: "short", state };
    if (limit !== "left" && spareMilli > 0) spare.push({ limit: held.name, milli: spareMilli });
  }
  const { shardCount, hourEndMs } = image;
  const { install } = intent;
  // This is not a condition: it need not be exact among concurrent writes, as readings are not either.
  if (env.dialect.notesTakes && moves.some(({ milli }) => milli > 0)) {
    builder.set(LW, Math.max(readingMs, state.writtenMs ?? readingMs));
  }
  keepFor(builder, { item, shardCount, readingMs, install, state, low: written.low, hourEndMs }, env);
  count(builder, image, { usage: usageWith(intent.usage, written), limits: state.limits, hour: undefined }, env);
  signWrite(builder, intent.nonce);
  builder.add(namesOf(WCU).tk, -1000);
  const write = builder.update(key, "exists", traceOf("take", partsWith(intent, written), readingMs, spare));
  // Only tokens change, so the state is also that after the write.
  return { kind: "write", write, state, sides: written };
}

function opens(state: BucketState, limit: string, milli: number): boolean {
  const held = findLimit(state, limit);
  return held !== undefined && opensWindow(held, milli);
}

/** Creates the item, full except for what is moved; `short` if not even a full bucket has enough. */
export function createForm(key: ItemKey, install: NonNullable<Intent["install"]>, intent: Intent, env: Env): Step {
  const { readingMs, moves, usage, nonce, birth } = intent;
  const made = freshBucket(install.set, install.origin, readingMs, env.calendar);
  const fresh = birth === undefined ? made : bornAs(made, birthOf(birth));
  const written = startWritten(intent, []);
  let state: BucketState = { ...fresh, untouched: false };
  // A new item has no tokens to test: these clauses are not sent.
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
  eachCounter(usageWith(usage, written), state.limits, env.dialect, (name, sum) => {
    item[name] = sum;
  });
  if (nonce !== undefined) item[nonce.name] = nonce.value;
  if (intent.isOff) item[DISABLED] = true;
  // A debit is not refused, whatever configuration says by now.
  if (install.origin.reading !== undefined && !intent.checksAccess) markUnread(item, env);
  if (!install.origin.own) setExpiry(item, state.limits, written.low, readingMs, env);
  const write = putNew(key, item, traceOf("create", partsWith(intent, written), readingMs, []));
  return { kind: "write", write, state, sides: written };
}

/** An epoch this far ahead of the server's clock was written by a client with a wrong clock. */
const AHEAD_MS = 5_000;

/** True if the epoch of an item lies in the future; false if the server's time is unknown. */
export function isAhead({ state }: Image, { serverTime }: Env): boolean {
  return state.epochMs > serverTime.latestMs() + AHEAD_MS;
}

/**
 * Moves an epoch back that lies in the future; no other write does. Until that time the bucket would not refill. The refill of
 * the jump is taken off again, at most a capacity; a quota that the end of a future period filled is empty until that comes.
 */
export function repairFutureEpochWrite(image: Image, intent: Intent, env: Env): Step {
  const { item, state, key } = image;
  // An epoch pins everything stored relative to it, so none may be used again: another row of epochs begins. Items that the
  // original makes anew have no row, so the nonce also chooses the moment.
  const atMs = intent.readingMs - 1 - ((intent.nonce?.value ?? 0) % 1000);
  const builder = relativeTo(image).asSeen(VU, item);
  const limits: LimitState[] = [];
  for (const held of state.limits) {
    const { tk } = namesOf(held.name);
    const { limit, lostMilli } = rewound(held, { fromMs: state.epochMs, toMs: atMs }, env.calendar);
    // Tokens of the future period are not given back into this one: it gets a count of its own.
    const resets = Math.max(countFrom(atMs, 0), (held.quota?.resets ?? 0) + 1);
    if (rulesOf(held.limit).holdsSlots) {
      // By the clock that was ahead slices may have ended whose tickets are still out: they must not match a slice with the same
      // end.
      limits.push(withResets(limit, resets));
      builder.present(tk).add(tk, limit.tokensMilli - held.tokensMilli);
      writeSlices(builder, held, limit.slices, undefined);
      continue;
    }
    limits.push(lostMilli === "all" ? withResets(limit, resets) : limit);
    if (lostMilli === "all") {
      if (held.tokensMilli > 0) builder.where(tk, ">", 0).set(tk, 0);
      else builder.where(tk, "<=", 0);
    } else {
      builder.present(tk).add(tk, -lostMilli);
      boundDebt(builder, held, held.tokensMilli - limit.terms.capacityMilli, env);
    }
  }
  const { signature, origin } = state;
  const next = assembled({ epochMs: atMs, limits, signature, origin }, env.calendar);
  setState(builder, image, next, item[VU] === 0 ? 0 : undefined, env);
  if (intent.nonce !== undefined) builder.set(BN, intent.nonce.value);
  const low = limits.map((limit) => ({ limit, lowMilli: limit.tokensMilli - limit.terms.capacityMilli }));
  const { shardCount, hourEndMs } = image;
  const { install } = intent;
  keepFor(builder, { item, shardCount, readingMs: atMs, install, state: next, low, hourEndMs }, env);
  // The hour of usage stays: an hour that may be on a sheet is not opened again.
  const usage = { ...NO_USAGE, sheeted: intent.usage.sheeted };
  count(builder, image, { usage, limits, hour: undefined }, env);
  signWrite(builder, intent.nonce);
  const write = builder.update(key, "exists", traceOf("rebase", [], atMs, []));
  return { kind: "write", write, state: next, sides: NO_SIDES };
}
