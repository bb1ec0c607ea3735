import { advanced, assembled, type BucketState, bucketFor, type LimitState } from "../domain/bucket-state.ts";
import { NO_MARKS } from "../domain/limit-state.ts";
import type { Item, ItemValue } from "../ports/item-store.ts";
import {
  BYPASS,
  CFA,
  CFL,
  DISABLED,
  FRF,
  namesOf,
  RF,
  RSCHED,
  SCHED,
  SCHED_TZ,
  SHARD_COUNT,
  VU,
  WCU,
} from "./attributes.ts";
import { encodedLimit, type Image, numberOf, ownAttributes, zoneOf } from "./codec.ts";
import { cutAt, type Fold, foldsOf, type Piece, pieceFor } from "./fold.ts";
import type { Env, Intent, Move, Step } from "./intent.ts";
import {
  addCountersAndNonce,
  debtMaxMilli,
  fitting,
  keepFor,
  type Low,
  leastMilli,
  moveTokens,
  opensWindow,
  TOP_MILLI,
  traceOf,
} from "./moves.ts";
import { WriteBuilder } from "./write-builder.ts";

/** The most that the counter of writes holds for other readers, and its refill a second. */
export const WCU_MILLI = 1_000_000;

/**
 * Tells the item from a later epoch and does what is intended in the same write: time, boundaries, resets and changed
 * limits have acted. For every limit on the item, also those that are not taken from, the condition says on which side of
 * its brim it stands.
 */
export function rebaseWrite(image: Image, intent: Intent, env: Env): Step {
  const { install, readingMs } = intent;
  const atMs = epochAfter(image.state, readingMs);
  const anew = (state: BucketState) => withLimitsAt(state, install, readingMs, atMs, env);
  return writeRebased(image, rebase(image.state, anew, readingMs, atMs, env), intent, env);
}

/** The epoch that an item is told from next. It only grows, and strictly: so it pins all that is told from it. */
export function epochAfter({ epochMs }: BucketState, readingMs: number): number {
  return Math.max(readingMs, epochMs + 1);
}

/**
 * The bucket told from `atMs`, with limits brought to it at the reading if they are newer than its own. A reading behind the
 * epoch counts as the epoch; the moment from there to the new epoch goes by the new limits.
 */
export function withLimitsAt(
  state: BucketState,
  install: Intent["install"],
  readingMs: number,
  atMs: number,
  { calendar }: Env,
): BucketState {
  const brought =
    install === undefined ? state : bucketFor(state, install, Math.max(readingMs, state.epochMs), calendar);
  return advanced(brought, atMs, calendar);
}

/** A bucket told anew, limit by limit. */
export interface Rebased {
  readonly atMs: number;
  readonly folds: readonly Fold[];
  /** As it is then, if the image was right. */
  readonly state: BucketState;
}

export function rebase(
  state: BucketState,
  anew: (state: BucketState) => BucketState,
  readingMs: number,
  atMs: number,
  { calendar }: Env,
): Rebased {
  return { atMs, folds: foldsOf(state, anew, Math.max(readingMs, state.epochMs), calendar), state: anew(state) };
}

/** The write that tells an item anew and moves what is intended. */
export function writeRebased(image: Image, { atMs, folds, state: told }: Rebased, intent: Intent, env: Env): Step {
  const { key, state, item } = image;
  const { moves } = intent;
  const builder = new WriteBuilder().where(RF, "=", state.epochMs).asSeen(VU, item);
  const every = state.limits.map(({ name }) => ({ limit: name }));
  env.dialect.pinTerms(builder, image, every);
  const after: LimitState[] = [];
  const low: Low[] = [];
  for (const fold of folds) {
    const move = moves.find(({ limit }) => limit === fold.name);
    const written = writeFold(builder, item, fold, move, atMs, intent, env);
    if (written === "short") return { kind: "short", state: told };
    if (written === undefined) continue;
    after.push(written.limit);
    if (written.lowMilli !== undefined) low.push({ limit: written.limit, lowMilli: written.lowMilli });
  }
  const { signature, origin } = told;
  const limits = told.limits.flatMap(({ name }) => after.find((limit) => limit.name === name) ?? []);
  const next = assembled({ epochMs: atMs, limits, signature, origin }, env.calendar);
  const isMarked = env.dialect.marksRebased(next, item, intent.configConfirmed);
  const wanted = { ...wantedOf(next, env, isMarked ? 0 : undefined), ...env.dialect.grantsOf(next) };
  builder.diffAttributes(item, attributesOf(item, state, after), wanted).set(RF, atMs);
  if (intent.configConfirmed) builder.diffAttributes(item, [DISABLED, BYPASS], {});
  // Stamped, or stamped meanwhile: whoever can read configuration again has to, before anything is taken.
  if (intent.checksAccess) builder.asSeen(DISABLED, intent.configConfirmed ? item : {});
  keepFor(builder, { item, shardCount: shardCountOf(next) }, next, low, intent, env);
  writeWcu(builder, image, atMs, env);
  addCountersAndNonce(builder, after, intent);
  const trace = { ...traceOf("rebase", intent, atMs, []), changedMs: Math.max(intent.readingMs, state.epochMs) };
  return { kind: "write", write: builder.update(key, "exists", trace), state: next };
}

/** The attributes of a bucket as a whole, and of each limit, but for tokens and counters; `vu` in place of its own. */
export function wantedOf(next: BucketState, { softUntilMs }: Env, vu: 0 | undefined): Item {
  const wanted: Record<string, ItemValue> = {};
  const softMs = softUntilMs(next.epochMs);
  const zone = zoneOf(next.limits);
  for (const limit of next.limits) Object.assign(wanted, encodedLimit(limit, softMs, zone));
  if (next.limits.some(({ remainder }) => remainder !== 0)) wanted[FRF] = next.epochMs;
  if (zone !== undefined) wanted[SCHED_TZ] = zone;
  if (vu !== undefined) wanted[VU] = vu;
  else if (Number.isFinite(next.validUntilMs)) wanted[VU] = next.validUntilMs;
  wanted[CFA] = next.origin.asOfMs;
  wanted[CFL] = next.limits.flatMap(({ name, configured }) => (configured ? [name] : [])).join(",");
  wanted[SHARD_COUNT] = shardCountOf(next);
  return wanted;
}

/** Of how many shards a state is one. */
export function shardCountOf({ limits }: BucketState): number {
  return limits[0]?.part?.count ?? 1;
}

/** All attributes that telling anew may change. */
export function attributesOf(item: Item, before: BucketState, after: readonly LimitState[]): Set<string> {
  const names = new Set<string>([FRF, SCHED, RSCHED, SCHED_TZ, VU, CFA, CFL, SHARD_COUNT]);
  for (const { name } of [...before.limits, ...after]) for (const own of ownAttributes(namesOf(name))) names.add(own);
  // What is forgotten goes with its counter.
  for (const { name } of before.limits) {
    if (after.some((limit) => limit.name === name)) continue;
    for (const own of [namesOf(name).tk, namesOf(name).tc]) if (own in item) names.add(own);
  }
  return names;
}

function writeFold(
  builder: WriteBuilder,
  item: Item,
  { name, before, after, piece }: Fold,
  move: Move | undefined,
  atMs: number,
  { ignoreImageShortage }: Intent,
  { dialect }: Env,
): { readonly limit: LimitState; readonly lowMilli: number | undefined } | "short" | undefined {
  const { tk, cp } = namesOf(name);
  if (after === undefined) {
    if (piece.from !== undefined) builder.where(tk, ">=", piece.from);
    if (piece.below !== undefined) builder.where(tk, "<", piece.below);
    return undefined;
  }
  const levelMilli =
    ignoreImageShortage && before !== undefined && piece.how === "add" ? Number.POSITIVE_INFINITY : after.tokensMilli;
  const fits = fitting(after, levelMilli, move ?? { limit: name, milli: 0, mustFit: false });
  if (fits === "short") return "short";
  const due = fits === "tooDeep" ? { limit: name, milli: 0, mustFit: false } : fits;
  // Left as it is because it owes too much: then it must.
  if (fits === "tooDeep" && before !== undefined && piece.how === "add") {
    builder.where(tk, "<", (move?.milli ?? 0) - piece.milli - debtMaxMilli(after));
  }
  const tokensMilli = after.tokensMilli - due.milli;
  const quota = opensWindow(after, due.milli) ? { ...NO_MARKS, ...after.quota, windowStartMs: atMs } : after.quota;
  const limit = { ...after, tokensMilli, quota };
  if (before === undefined) {
    // The original adjusts what is no longer there: tokens without a capacity are of no limit.
    builder.asSeen(tk, item).set(tk, tokensMilli);
    if (tk in item) builder.absent(cp);
    return { limit, lowMilli: tokensMilli < 0 ? tokensMilli : undefined };
  }
  moveTokens(builder, tk, exactly(piece, before, due), due, 0);
  if (due.milli < 0 && piece.how === "add") {
    dialect.capRebasedCredit(builder, before, after.terms.capacityMilli + due.milli - piece.milli);
  }
  if (due.mustFit || (due.milli <= 0 && tokensMilli >= 0)) return { limit, lowMilli: undefined };
  if (piece.how === "set") return { limit, lowMilli: tokensMilli };
  const { capacityMilli } = after.terms;
  const least = leastMilli(before.tokensMilli - capacityMilli, due.milli - piece.milli - debtMaxMilli(after));
  builder.where(tk, ">=", least);
  return { limit, lowMilli: least + piece.milli - due.milli };
}

// What comes back may stand so far over the brim that numbers would no longer be exact: it is cut off there.
function exactly(piece: Piece, { tokensMilli }: LimitState, { milli }: Move): Piece {
  if (piece.how === "set") return piece;
  const added = piece.milli - milli;
  // From the deepest debt to the fullest brim is more than can be added exactly: then nobody may have moved it.
  if (added > Number.MAX_SAFE_INTEGER) {
    return { from: tokensMilli, below: tokensMilli + 1, how: "set", milli: tokensMilli + piece.milli };
  }
  const mostMilli = TOP_MILLI - added;
  if (tokensMilli <= mostMilli) return piece;
  return { from: mostMilli + 1, below: piece.below, how: "set", milli: TOP_MILLI };
}

// Nobody of ours goes by it, so where nobody else does either it is simply full again.
function writeWcu(builder: WriteBuilder, { item, state }: Image, atMs: number, { dialect }: Env): void {
  const { tk, cp, ra, rp } = namesOf(WCU);
  const stored = numberOf(item, tk);
  if (!dialect.readsWriteCounter || stored === undefined || !(cp in item)) {
    builder
      .diffAttributes(item, [cp, ra, rp], { [cp]: WCU_MILLI, [ra]: WCU_MILLI, [rp]: 1000 })
      .set(tk, WCU_MILLI - 1000);
    return;
  }
  const rise = Math.min(WCU_MILLI * 2, (atMs - state.epochMs) * 1000);
  const [below, over] = cutAt(WCU_MILLI - rise);
  const piece = pieceFor(
    [
      { ...below, milli: rise },
      { ...over, milli: WCU_MILLI },
    ],
    stored,
  );
  moveTokens(builder, tk, piece, { limit: WCU, milli: 1000, mustFit: false }, 0);
}
