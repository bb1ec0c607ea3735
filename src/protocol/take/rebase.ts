import type { Amount } from "../../domain/amounts.ts";
import { advanced, assembled, type BucketState, bucketFor, type LimitState } from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import { marksAfterUse } from "../../domain/limit-kinds.ts";
import { unmetChanges } from "../../domain/limit-set.ts";
import { HOUR_MS } from "../../domain/usage.ts";
import type { Item } from "../../ports/item-store.ts";
import { BYPASS, DISABLED, LW, namesOf, RF, VU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { parameterNames, parametersOf, shardCountOf } from "../item/encode-item.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import { boundDebt } from "../shared/debts.ts";
import {
  boundOverdrafts,
  count,
  noteOverdrafts,
  type OverdraftCount,
  overdraftsBy,
  signWrite,
} from "../usage/count-usage.ts";
import { rollTo } from "../usage/hours.ts";
import { keepFor, type Low } from "./expiry.ts";
import { type Fold, foldsOf, type Piece } from "./fold.ts";
import { foldsAround } from "./fold-around.ts";
import type { Env, Intent, Move, Step } from "./intent.ts";
import { debtMaxMilli, fitting, leastMilli, moveTokens, relativeTo, STORED_MAX_MILLI, traceOf } from "./moves.ts";
import { writeWcu } from "./write-counter.ts";

/**
 * Moves the item to a later epoch and does what is intended in the same write. Time, boundaries, resets and changed limits
 * have acted by then. The condition says of every limit on the item, also of those that nothing is taken from, whether it
 * stands below its capacity or above: the rebase is different for the two.
 */
export function rebaseWrite(image: Image, intent: Intent, env: Env): Step {
  const { install, readingMs } = intent;
  const { calendar } = env;
  const atMs = epochAfter(image.state, readingMs);
  const becomes = (state: BucketState) => withLimitsAt(state, { install, readingMs, atMs }, calendar);
  return writeRebased(image, rebase(image.state, becomes, { readingMs, atMs, install }, calendar), intent, env);
}

/** The next epoch of an item. It only grows, and strictly, so that an epoch pins everything that is stored relative to it. */
export function epochAfter({ epochMs }: BucketState, readingMs: number): number {
  return Math.max(readingMs, epochMs + 1);
}

/**
 * The bucket as of the epoch `atMs`, with limits installed if they are newer than its own: changes of stored limits from their
 * instants on, others from the reading on. A reading behind the epoch counts as the epoch; the moment from there to the new
 * epoch goes by the new limits.
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

/** A bucket moved to a later epoch, limit by limit. */
interface Rebased {
  readonly atMs: number;
  readonly folds: readonly Fold[];
  /** As it is then, if the image was right. */
  readonly state: BucketState;
  /** The first instant from which limits count that were changed before the reading; undefined: none count from before it. */
  readonly changedSinceMs: number | undefined;
}

/** `becomes` says what becomes of any state of the bucket at the epoch `atMs`; it must treat each limit by itself. */
export function rebase(
  state: BucketState,
  becomes: (state: BucketState) => BucketState,
  { readingMs, atMs, install }: Pick<Intent, "readingMs" | "install"> & { readonly atMs: number },
  calendar: Calendar,
): Rebased {
  const fromMs = Math.max(readingMs, state.epochMs);
  const unmet = install === undefined ? [] : unmetChanges(install.origin, state.origin);
  const [first] = unmet;
  const sinceMs = Math.min(fromMs, Math.max(first?.fromMs ?? fromMs, writtenMs(state)));
  const isEarlier = sinceMs < fromMs;
  const folds = isEarlier || unmet.length > 1 ? foldsAround(state, becomes) : foldsOf(state, becomes, fromMs, calendar);
  return { atMs, folds, state: becomes(state), changedSinceMs: isEarlier ? sinceMs : undefined };
}

/** Changed limits do not count from before this instant. */
function writtenMs({ epochMs, writtenMs }: BucketState): number {
  return Math.max(epochMs, writtenMs ?? epochMs);
}

/** The write that rebases an item and moves what is intended. */
export function writeRebased(image: Image, from: Rebased, intent: Intent, env: Env): Step {
  const { atMs, folds, state: rebased, changedSinceMs } = from;
  const { key, state, item } = image;
  const { moves, configConfirmed } = intent;
  const builder = relativeTo(image).asSeen(VU, item);
  // Limits count from before now, on the assumption that nobody has taken by the old ones since.
  if (changedSinceMs !== undefined) builder.whereUnless(LW, "<=", Math.max(changedSinceMs, writtenMs(state)));
  env.dialect.pinTerms(
    builder,
    image,
    folds.map(({ name }) => ({ limit: name })),
  );
  const after: LimitState[] = [];
  const low: Low[] = [];
  const overdrafts: Amount[] = [...intent.usage.overdrafts];
  for (const fold of folds) {
    const move = moves.find(({ limit }) => limit === fold.name);
    const written = writeFold(builder, { item, fold, move, atMs, intent }, env);
    if (written === "short") return { kind: "short", state: rebased };
    if (written === undefined) continue;
    after.push(written.limit);
    if (written.overdrafts !== undefined) noteOverdrafts(overdrafts, written.limit, written.overdrafts);
    if (written.lowMilli !== undefined) low.push({ limit: written.limit, lowMilli: written.lowMilli });
  }
  const { signature, origin } = rebased;
  const limits = rebased.limits.flatMap(({ name }) => after.find((limit) => limit.name === name) ?? []);
  const next = assembled({ epochMs: atMs, limits, signature, origin }, env.calendar);
  const vu = env.dialect.marksRebased(next, item, configConfirmed) ? 0 : undefined;
  builder
    .diffAttributes(item, parameterNames(item, state, after, env.dialect), parametersOf(next, env, vu))
    .set(RF, atMs);
  if (configConfirmed) builder.diffAttributes(item, [DISABLED, BYPASS], {});
  // The bucket is disabled, or was meanwhile: a caller that can read configuration again has to, before it takes anything.
  if (intent.checksAccess) builder.asSeen(DISABLED, configConfirmed ? item : {});
  const hour = rollTo(image, intent);
  const hourEndMs = hour === undefined ? image.hourEndMs : (hour + 1) * HOUR_MS;
  keepFor(builder, { ...intent, item, shardCount: shardCountOf(next), state: next, low, hourEndMs }, env);
  writeWcu(builder, image, atMs, env);
  count(builder, image, { usage: { ...intent.usage, overdrafts }, limits: after, hour }, env);
  signWrite(builder, intent.nonce);
  const fromMs = Math.max(intent.readingMs, state.epochMs);
  const trace = { ...traceOf("rebase", intent, atMs, []), changedMs: fromMs, heldMs: writtenMs(state) };
  return { kind: "write", write: builder.update(key, "exists", trace), state: next, overdrafts };
}

interface FoldToWrite {
  readonly item: Item;
  readonly fold: Fold;
  /** What is moved of this limit; undefined: nothing. */
  readonly move: Move | undefined;
  readonly atMs: number;
  readonly intent: Intent;
}

interface WrittenFold {
  readonly limit: LimitState;
  readonly lowMilli: number | undefined;
  readonly overdrafts: OverdraftCount | undefined;
}

/** The limit as it is then, and how low it may stand; `short` where it cannot pay, undefined where it is forgotten. */
function writeFold(
  builder: WriteBuilder,
  { item, fold, move, atMs, intent }: FoldToWrite,
  env: Env,
): WrittenFold | "short" | undefined {
  const { dialect } = env;
  const { name, before, after, piece } = fold;
  const { tk, cp } = namesOf(name);
  if (after === undefined) {
    if (piece.from !== undefined) builder.where(tk, ">=", piece.from);
    if (piece.below !== undefined) builder.where(tk, "<", piece.below);
    return undefined;
  }
  const mayHoldMore = intent.ignoreImageShortage && before !== undefined && piece.how === "add";
  const levelMilli = mayHoldMore ? Number.POSITIVE_INFINITY : after.tokensMilli;
  const fits = fitting(after, levelMilli, move ?? { limit: name, milli: 0, mustFit: false });
  if (fits === "short") return "short";
  const due = fits === "tooDeep" ? { limit: name, milli: 0, mustFit: false } : fits;
  // It is left as it is because it owes too much, so the condition says that it does.
  if (fits === "tooDeep" && before !== undefined && piece.how === "add") {
    builder.where(tk, "<", (move?.milli ?? 0) - piece.milli - debtMaxMilli(after));
  }
  const overdrafts =
    after.limit.soft && dialect.countsByHour
      ? overdraftsBy(intent, name, after.tokensMilli, fits === "tooDeep")
      : undefined;
  if (overdrafts !== undefined && before !== undefined && piece.how === "add") {
    boundOverdrafts(builder, tk, overdrafts, piece.milli);
  }
  const tokensMilli = after.tokensMilli - due.milli;
  const limit = { ...after, tokensMilli, quota: marksAfterUse(after, due.milli, atMs) };
  if (before === undefined) {
    // The original adjusts limits that are no longer there: tokens without a capacity belong to no limit.
    builder.asSeen(tk, item).set(tk, tokensMilli);
    if (tk in item) builder.absent(cp);
    return { limit, lowMilli: tokensMilli < 0 ? tokensMilli : undefined, overdrafts };
  }
  moveTokens(builder, tk, { piece: exactly(piece, before, due), move: due, refilledMilli: 0 });
  if (due.milli < 0 && piece.how === "add") {
    dialect.capRebasedCredit(builder, before, after.terms.capacityMilli + due.milli - piece.milli);
  }
  if (due.mustFit) return { limit, lowMilli: undefined, overdrafts };
  if (due.milli <= 0 && tokensMilli >= 0) {
    if (piece.how === "add") boundDebt(builder, after, due.milli - piece.milli, env);
    return { limit, lowMilli: undefined, overdrafts };
  }
  if (piece.how === "set") return { limit, lowMilli: tokensMilli, overdrafts };
  const { capacityMilli } = after.terms;
  const least = leastMilli(before.tokensMilli - capacityMilli, due.milli - piece.milli - debtMaxMilli(after));
  builder.where(tk, ">=", least);
  return { limit, lowMilli: least + piece.milli - due.milli, overdrafts };
}

// What is given back may stand so far above the capacity that numbers would no longer be exact: it is cut off there.
function exactly(piece: Piece, { tokensMilli }: LimitState, { milli }: Move): Piece {
  if (piece.how === "set") return piece;
  const added = piece.milli - milli;
  // From the deepest debt to the largest capacity is more than can be added exactly: then the tokens are pinned as seen.
  if (added > Number.MAX_SAFE_INTEGER) {
    return { from: tokensMilli, below: tokensMilli + 1, how: "set", milli: tokensMilli + piece.milli };
  }
  const mostMilli = STORED_MAX_MILLI - added;
  if (tokensMilli <= mostMilli) return piece;
  return { from: mostMilli + 1, below: piece.below, how: "set", milli: STORED_MAX_MILLI };
}
