import { advanced, assembled, type BucketState, bucketFor, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { timeOfEnded } from "../../domain/bucket/slot-time.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import { unmetChanges } from "../../domain/limits/limit-set.ts";
import { BYPASS, DISABLED, LW, RF, VU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { parameterNames, parametersOf, shardCountOf } from "../item/encode-item.ts";
import { count, signWrite } from "../usage/count-usage.ts";
import { rollTo } from "../usage/hours.ts";
import { keepFor } from "./expiry.ts";
import { foldsOf } from "./fold.ts";
import { foldsAround } from "./fold-around.ts";
import { clearsAccess, type Env, type Intent, type Step } from "./intent.ts";
import { relativeTo, traceOf } from "./moves.ts";
import type { Fold } from "./piece.ts";
import { countedBy, tracedParts } from "./sides.ts";
import { writeWcu } from "./write-counter.ts";
import { writtenOf } from "./write-limit.ts";
import { writeLimit } from "./write-slots.ts";

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
  return writeRebased(image, rebase(image.state, becomes, { readingMs, atMs, install }), intent, env);
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
): Rebased {
  const fromMs = Math.max(readingMs, state.epochMs);
  const unmet = install === undefined ? [] : unmetChanges(install.origin, state.origin);
  const [first] = unmet;
  const sinceMs = Math.min(fromMs, Math.max(first?.fromMs ?? fromMs, writtenMs(state)));
  const isEarlier = sinceMs < fromMs;
  // What was changed and changed back is told by no signature.
  const folds = isEarlier || unmet.length > 1 ? foldsAround(state, becomes) : foldsOf(state, becomes);
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
  const written = writtenOf(intent, []);
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
  builder
    .diffAttributes(item, parameterNames(item, state, after, env.dialect), parametersOf(next, env, vu))
    .set(RF, atMs);
  if (clearsAccess(intent)) builder.diffAttributes(item, [DISABLED, BYPASS], {});
  // The bucket is disabled, or was meanwhile: a caller that can read configuration again has to, before it takes anything.
  if (intent.checksAccess) builder.asSeen(DISABLED, configConfirmed ? item : {});
  const hour = rollTo(image, intent);
  const hourEndMs = hour === undefined ? image.hourEndMs : (hour + 1) * HOUR_MS;
  keepFor(builder, { ...intent, item, shardCount: shardCountOf(next), state: next, low: written.low, hourEndMs }, env);
  writeWcu(builder, image, atMs, env);
  const heldMs = [...written.heldMs, ...timeOfEnded(state, next)];
  count(builder, image, { usage: countedBy(intent.usage, { ...written, heldMs }), limits: after, hour }, env);
  signWrite(builder, intent.nonce);
  const fromMs = Math.max(intent.readingMs, state.epochMs);
  const parts = tracedParts(intent, written);
  const trace = { ...traceOf("rebase", parts, atMs, []), changedMs: fromMs, heldMs: writtenMs(state) };
  return { kind: "write", write: builder.update(key, "exists", trace), state: next, sides: written };
}
