import { divided, type Part } from "../../bucket/balance.ts";
import { hasRoomFor, resetLimits, type TooLarge, tooLarge, toppedUp } from "../../domain/bucket/bucket-operations.ts";
import { type BucketState, bornAs, findLimit, freshBucket } from "../../domain/bucket/bucket-state.ts";
import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { type LimitSet, limitSet, type SetOrigin, type SourcedLimits } from "../../domain/limits/limit-set.ts";
import type { Operation, OperationReply } from "../../ports/bucket-store.ts";
import type { ItemWrite, TracePart } from "../../ports/item-store.ts";
import { installWrite } from "../config/apply.ts";
import type { ProtocolContext } from "../context.ts";
import type { Plan } from "../decide/transact.ts";
import { birthOf, namesOf } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { markUnread, newItem } from "../item/encode-item.ts";
import { canonicalOfSet } from "../item/limit-words.ts";
import { putNew } from "../item/write-builder.ts";
import { RETRY } from "../process/retry-policy.ts";
import { roomIn } from "../shards/split.ts";
import { transactPlan } from "../shards/whole.ts";
import { setExpiry } from "../take/expiry.ts";
import { epochAfter, rebase, withLimitsAt, writeRebased } from "../take/forms.ts";
import { blankIntent } from "../take/intent.ts";
import { replaceAll } from "./mend.ts";
import { partsOf } from "./operation-parts.ts";

/** Instants of different clocks that are closer than this have no known order. */
const CLOCKS_DISAGREE_MS = 5_000;

/** The origin of limits that replace none. */
const OLDER: SetOrigin = { asOfMs: Number.NEGATIVE_INFINITY, generation: null };

/** The effect of an operation on one shard; `amounts` is the shard's part of the purchase. */
type Change = (state: BucketState, amounts: readonly Amount[], atMs: number) => BucketState;

export function topUpAll(
  context: ProtocolContext,
  operation: Operation,
  amounts: readonly Amount[],
): Promise<OperationReply> {
  const { calendar } = context.env;
  // The room of all shards together was checked before.
  const change: Change = (state, own, atMs) => {
    const topped = toppedUp(state, own, atMs, calendar);
    return topped.kind === "tooLarge" ? state : topped.state;
  };
  return operate(context, operation, { change, amounts, kind: "topUp", limits: undefined });
}

export function resetAll(
  context: ProtocolContext,
  operation: Operation,
  limits: readonly string[] | undefined,
): Promise<OperationReply> {
  const { calendar } = context.env;
  const change: Change = (state, _, atMs) => resetLimits(state, limits, atMs, calendar);
  const reply = operate(context, operation, { change, amounts: [], kind: "reset", limits });
  return reply.catch((error: unknown) => {
    // A reset of everything ignores the balance; a reset of some limits must not give the others anything.
    const isDamaged = error instanceof ItemUnreadable && error.part === "balance";
    if (!isDamaged || limits !== undefined) throw error;
    return replaceAll(context, partsOf(context, operation));
  });
}

interface Wanted {
  readonly change: Change;
  readonly amounts: readonly Amount[];
  readonly kind: "topUp" | "reset";
  readonly limits: readonly string[] | undefined;
}

// This is money: one transaction over all shards, with the record that makes it happen once, and the audit event.
async function operate(context: ProtocolContext, operation: Operation, wanted: Wanted): Promise<OperationReply> {
  const { clock } = context;
  const { bucket, nowMs, event } = operation;
  const { key, done, recordOf, gaveUp, unknown } = partsOf(context, operation);
  const policy = RETRY.operation;
  const plan: Plan<OperationReply> = {
    buckets: [bucket],
    readingMs: nowMs,
    untilMs: clock.now() + policy.timeoutMs,
    policy,
    record: { key, done },
    draw: ([whole]) => {
      const images = whole?.images ?? [];
      // A bucket that is being split is not whole: wait until it has all shards.
      if (images.some(({ shardCount }) => shardCount !== images.length)) return { kind: "wait" };
      // Some shards may have newer limits than others, and a purchase would be worth something else on each.
      const disagree = shardsDisagreeOnLimits(context, operation, images);
      const agreed = disagree ? limitsOfAll(images) : operation;
      const installs = agreed === undefined ? agreedLimits(context, operation, images) : undefined;
      if (installs !== undefined) return installs.length === 0 ? { kind: "wait" } : { kind: "install", installs };
      const drawn = drawnFor(context, operation, images, { ...wanted, by: agreed ?? operation });
      if (drawn.kind === "tooLarge") return { kind: "result", result: drawn, installs: [] };
      const writes = [...drawn.writes, recordOf(drawn.gained)];
      return { kind: "transact", writes, event, result: { kind: "done", repeated: false, amounts: drawn.gained } };
    },
    gaveUp: (_, cause) => gaveUp(cause),
    unknown,
  };
  return transactPlan(context, plan, "reading");
}

/** True if the shards would have different limits after those of the operation were installed. */
function shardsDisagreeOnLimits(
  { env }: ProtocolContext,
  { set, origin, nowMs }: Operation,
  images: readonly Image[],
): boolean {
  const signatures = images.map(({ state }) => {
    const at = { install: { set, origin }, readingMs: nowMs, atMs: epochAfter(state, nowMs) };
    return withLimitsAt(state, at, env.calendar).signature;
  });
  return new Set(signatures).size > 1;
}

/**
 * The limits that all shards share, as they were read last; undefined if they differ. An operation that was planned with older
 * limits goes by these: shards that know them from a later reading or change would not take the older ones.
 */
function limitsOfAll(images: readonly Image[]): SourcedLimits | undefined {
  const [first] = images;
  if (first === undefined || images.some(({ canonical }) => canonical !== first.canonical)) return undefined;
  const { limits, origin } = images.reduce((a, b) => (b.state.origin.asOfMs > a.state.origin.asOfMs ? b : a)).state;
  return { set: configuredIn(limits), origin };
}

function configuredIn(limits: BucketState["limits"]): LimitSet {
  return limitSet(limits.flatMap(({ limit, configured }) => (configured ? [limit] : [])));
}

/**
 * The writes that install the limits of one shard on the shards with other limits. Among limits read lately, within the time by
 * which clocks may disagree, those of the operation win; otherwise those read last. Empty: two were read at the same instant, and
 * the next request decides.
 */
function agreedLimits(
  context: ProtocolContext,
  { set, nowMs }: Pick<Operation, "set" | "nowMs">,
  images: readonly Image[],
): ItemWrite[] {
  const readMs = ({ state }: Image) => state.origin.asOfMs;
  const latestMs = Math.max(...images.map(readMs));
  const late = images.filter((image) => readMs(image) >= latestMs - CLOCKS_DISAGREE_MS);
  const last = late.filter((image) => readMs(image) === latestMs);
  const isClear = last.every(({ canonical }) => canonical === last[0]?.canonical);
  const chosen = late.find(({ canonical }) => canonical === canonicalOfSet(set)) ?? (isClear ? last[0] : undefined);
  if (chosen === undefined) return [];
  const origin = { ...chosen.state.origin, asOfMs: latestMs };
  // An earlier reading would apply them to the time before they were configured.
  const readingMs = Math.max(nowMs, latestMs);
  const limits = configuredIn(chosen.state.limits);
  const others = images.filter(({ canonical }) => canonical !== chosen.canonical);
  return others.flatMap((image) => {
    const { bucket } = image.key;
    const installation = { bucket, set: limits, origin, readingMs, configConfirmed: false };
    return installWrite(context, image, installation) ?? [];
  });
}

interface DrawnOperation {
  readonly kind: "drawn";
  readonly writes: readonly ItemWrite[];
  readonly gained: readonly Amount[];
}

function drawnFor(
  context: ProtocolContext,
  operation: Operation,
  images: readonly Image[],
  wanted: Wanted & { readonly by: SourcedLimits },
): DrawnOperation | TooLarge {
  const { env } = context;
  const { nowMs } = operation;
  const { set, origin } = wanted.by;
  const parts: TracePart[] = [{ of: operation, kind: wanted.kind, amounts: wanted.amounts }];
  if (images.length === 0) return onNothing(context, operation, wanted, parts);
  const atMs = Math.max(...images.map(({ state }) => epochAfter(state, nowMs)));
  const at = { readingMs: nowMs, atMs };
  // Limits of the operation that no shard has any more are kept beside the others, for what is bought of them. Its other limits
  // are installed on no shard: only some shards would take them.
  const installs = [wanted.by, { set: operation.set, origin: OLDER }];
  const installed = (state: BucketState) =>
    installs.reduce((held, install) => withLimitsAt(held, { ...at, install }, env.calendar), state);
  const states = images.map(({ state }) => installed(state));
  const full = withoutRoom(states, wanted.amounts);
  if (full !== undefined) return tooLarge(full);
  const { shares, gained } = sharedOut(states, wanted.amounts, atMs);
  const writes = images.map((image, i): ItemWrite => {
    const own = shares[i] ?? [];
    const ownParts = i === 0 ? parts : parts.map((part) => ({ ...part, amounts: [] }));
    const intent = { ...blankIntent(nowMs), install: { set, origin }, parts: ownParts };
    const becomes = (state: BucketState) => wanted.change(installed(state), own, atMs);
    const rebased = rebase(image.state, becomes, { ...at, install: { set, origin } });
    const step = writeRebased(image, rebased, intent, env);
    if (step.kind !== "write") throw new RangeError("Nothing is taken by an operation; nothing can be short.");
    // The room of a limit that refills steadily depends on its tokens, so they are pinned.
    const pinned = own.filter(({ limit }) => {
      const held = findLimit(states[i] as BucketState, limit);
      return held === undefined || rulesOf(held.limit).refillsSteadily;
    });
    const pins = pinned.flatMap(({ limit }) => {
      const { tk } = namesOf(limit);
      const value = image.item[tk];
      return value === undefined ? [] : [[{ name: tk, is: "=", value } as const]];
    });
    const trace = { form: "operation", readingMs: atMs, parts: ownParts, spare: [] } as const;
    return { ...step.write, when: [...step.write.when, ...pins], trace };
  });
  return { kind: "drawn", writes, gained: inOrder(gained, states[0] as BucketState) };
}

/**
 * The part of each shard: its share of a quota, its room in a limit that refills steadily. Shards may still have different rules
 * for a limit that was removed: what a refilling one has no room for, a quota gets.
 */
function sharedOut(
  states: readonly BucketState[],
  amounts: readonly Amount[],
  atMs: number,
): { readonly shares: readonly (readonly Amount[])[]; readonly gained: readonly Amount[] } {
  const shares = states.map((): Amount[] => []);
  const gained: Amount[] = [];
  for (const { limit, milli } of amounts) {
    if (milli === 0 || findLimit(states[0] as BucketState, limit) === undefined) continue;
    const held = states.map((state) => findLimit(state, limit));
    const quota = held.findIndex((one) => one !== undefined && !rulesOf(one.limit).refillsSteadily);
    const own = held.map((one) => (one === undefined ? 0 : divided(milli, one.part ?? WHOLE)));
    let left = milli;
    for (const [i, one] of held.entries()) {
      if (one === undefined) continue;
      if (rulesOf(one.limit).refillsSteadily) {
        const room = Math.max(0, one.terms.capacityMilli - roomIn(states[i] as BucketState, limit, atMs));
        own[i] = Math.min(quota < 0 ? left : (own[i] as number), room);
      }
      left -= own[i] as number;
    }
    if (quota >= 0) own[quota] = (own[quota] as number) + left;
    for (const [i, share] of own.entries()) {
      if (share > 0 || (quota < 0 && states.length === 1)) shares[i]?.push({ limit, milli: share });
    }
    gained.push({ limit, milli: quota >= 0 ? milli : milli - left });
  }
  return { shares, gained };
}

const WHOLE: Part = Object.freeze({ index: 0, count: 1, rounding: "exact" });

/** The first quota that would hold more than can be counted exactly, all shards together. */
function withoutRoom(states: readonly BucketState[], amounts: readonly Amount[]): string | undefined {
  const full = amounts.find(({ limit, milli }) => {
    const held = findLimit(states[0] as BucketState, limit);
    if (milli === 0 || held === undefined || rulesOf(held.limit).refillsSteadily) return false;
    const whole = states.reduce((all, state) => all + (findLimit(state, limit)?.terms.capacityMilli ?? 0), 0);
    return !hasRoomFor(whole, milli);
  });
  return full?.limit;
}

function onNothing(
  { env, nonces }: ProtocolContext,
  { bucket, set, origin, nowMs }: Operation,
  wanted: Wanted,
  parts: readonly TracePart[],
): DrawnOperation | TooLarge {
  const birth = nonces.next();
  const fresh = bornAs(freshBucket(set, origin, nowMs, env.calendar), birthOf(birth));
  const full = withoutRoom([fresh], wanted.amounts);
  if (full !== undefined) return tooLarge(full);
  const { shares, gained } = sharedOut([fresh], wanted.amounts, nowMs);
  const state = { ...wanted.change(fresh, shares[0] ?? [], nowMs), untouched: false };
  const item = newItem(state, birth, env);
  if (origin.reading !== undefined) markUnread(item, env);
  if (!origin.own) setExpiry(item, state.limits, [], nowMs, env);
  const trace = { form: "operation", readingMs: nowMs, parts, spare: [] } as const;
  return { kind: "drawn", writes: [putNew({ bucket, shard: 0 }, item, trace)], gained: inOrder(gained, state) };
}

// The order of the limits on the bucket, as other stores answer it.
function inOrder(gained: readonly Amount[], { limits }: BucketState): readonly Amount[] {
  return limits.flatMap(({ name }) => gained.filter(({ limit }) => limit === name));
}
