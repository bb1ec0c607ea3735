import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { LimitedBucket } from "../../domain/bucket/limited-bucket.ts";
import type { Access } from "../../domain/config/config.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import {
  type Notified,
  type NotifyAction,
  type NotifyPlan,
  type NotifyProgress,
  nextNotify,
  notifyEnded,
  onNotify,
} from "../decide/notify.ts";
import { BN, BYPASS, DISABLED, VU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import { drive } from "../process/drive.ts";
import type { Machine } from "../process/machine.ts";
import { MOVES_MAX, RETRY } from "../process/retry-policy.ts";
import { readWhole, type WholeRead, withoutDeadline } from "../shards/whole.ts";
import { movesEpoch } from "../take/admission.ts";
import { formFor } from "../take/forms.ts";
import { installLimitsIntent } from "../take/install-limits.ts";
import { type Job, jobOfClaim } from "../take/job.ts";

const BYPASS_MS = 60_000;

/** What an item says that announces a change of configuration. */
const ANNOUNCED: Item = Object.freeze({ [VU]: 0 });

/** Marks every live shard with "configuration changed": the next request reads it again. How many shards were written. */
export function announce(context: ProtocolContext, bucket: BucketKey, readingMs: number): Promise<number> {
  return stampEveryShard(context, bucket, readingMs, (builder) => builder.set(VU, 0));
}

/** Stamps what is allowed on every live shard, so that it counts from the next request on. How many shards were written. */
export function stampAccess(
  context: ProtocolContext,
  bucket: BucketKey,
  access: Access,
  readingMs: number,
): Promise<number> {
  const { dialect } = context.env;
  return stampEveryShard(context, bucket, readingMs, (builder) => {
    if (access === "disabled") return builder.set(DISABLED, true).remove(BYPASS);
    builder.remove(DISABLED);
    if (access === "bypass") builder.set(BYPASS, readingMs + BYPASS_MS);
    else builder.remove(BYPASS);
    // A process that remembers a bypass goes on with it until it reads configuration again. And this stamp may arrive after that of
    // a later switch, which it writes over: what counts is in configuration.
    return dialect.announcesConfig(ANNOUNCED) ? builder.set(VU, 0) : builder;
  });
}

/** Limits to install on every shard of a bucket. */
interface Installation extends LimitedBucket {
  readonly readingMs: number;
  /** Whether they were read, or written, just now: then marks that say "read configuration again" are removed. */
  readonly configConfirmed: boolean;
  /** When somebody who waits for it must have an answer. Absent: nobody does. */
  readonly untilMs?: number;
}

/**
 * Installs limits on every live shard without taking anything, for changes that must not wait for the next request. True when
 * all shards go by them.
 */
export async function installLimits(context: ProtocolContext, installation: Installation): Promise<boolean> {
  const { env, readings, caches } = context;
  const { bucket, readingMs, untilMs = Number.POSITIVE_INFINITY } = installation;
  const cache = caches.of(bucket);
  const job = jobOf(installation);
  const planFor = (): NotifyPlan => ({
    readingMs,
    isIdempotent: false,
    writeFor: (seen) => {
      if (seen?.image === undefined) return "nothing";
      // What the original changed meanwhile is not undone: the caller reads configuration again.
      if (env.dialect.installStopsOnDoubt && readings.doubtOf(cache, seen, [job], env) === "configSuspect")
        return "not written";
      return installWrite(context, seen.image, installation) ?? "nothing";
    },
  });
  const results = await caches.holding([bucket], () =>
    notifyEveryShard(context, bucket, { readingMs, untilMs }, planFor),
  );
  return !results.includes("not written");
}

/** The write that installs limits on one shard; undefined when it goes by them already. */
export function installWrite(
  { env }: ProtocolContext,
  image: Image,
  installation: Installation,
): ItemWrite | undefined {
  const { readingMs, configConfirmed } = installation;
  // No nonce: it is not repeated, and a take under way beside it goes by the one in the slot.
  const how = { readingMs, nonce: undefined, configConfirmed, sheeted: undefined };
  const intent = installLimitsIntent(jobOf(installation), how);
  if (!movesEpoch(image, intent, env)) return undefined;
  const step = formFor(image, intent, env);
  return step.kind === "short" ? undefined : step.write;
}

function jobOf({ bucket, set, origin, readingMs }: Installation): Job {
  return jobOfClaim({ bucket, set, origin, take: [], bypass: false }, readingMs);
}

/**
 * Each stamp begins another row of epochs. A process that saw the stamp before, and has read configuration because of it, may not
 * have read what this one is about; without a new number it would take an equal stamp for the one it saw, and remove it.
 */
async function stampEveryShard(
  context: ProtocolContext,
  bucket: BucketKey,
  readingMs: number,
  stamp: (builder: WriteBuilder) => WriteBuilder,
): Promise<number> {
  const stamped = () => stamp(new WriteBuilder().set(BN, context.nonces.next()));
  const planFor = (key: ItemKey): NotifyPlan => ({
    readingMs,
    isIdempotent: true,
    writeFor: () => stamped().update(key, "exists", undefined),
  });
  const results = await context.caches.holding([bucket], () =>
    notifyEveryShard(context, bucket, withoutDeadline(readingMs), planFor),
  );
  if (results.includes("not written")) {
    throw new RateLimiterUnavailable(
      `A change of configuration could not be written to the bucket of ${bucket.entityId} on ${bucket.resource}.`,
    );
  }
  return results.filter((result) => result === "written").length;
}

/**
 * Every shard, in their order. One that is split off meanwhile by what its sibling said before would be left out: the answers
 * show that there are more of them, and the new ones are told too. Once all were told, what is split off says the same.
 */
async function notifyEveryShard(
  context: ProtocolContext,
  bucket: BucketKey,
  at: Pick<WholeRead, "readingMs" | "untilMs">,
  planFor: (key: ItemKey) => NotifyPlan,
): Promise<Notified[]> {
  const cache = context.caches.of(bucket);
  const results: Notified[] = [];
  const told = new Set<number>();
  for (let round = 0; round < MOVES_MAX; round++) {
    const [whole] = await readWhole(context, [bucket], { ...withoutDeadline(at.readingMs), ...at });
    const untold = (whole?.images ?? []).filter(({ key }) => !told.has(key.shard));
    // On a shared table there may be fewer than they say they are.
    if (untold.length === 0) return results;
    for (const { key } of untold) {
      told.add(key.shard);
      results.push(await notifyShard(context, key, at.untilMs, planFor(key)));
    }
    if (told.size >= cache.shardCount) return results;
  }
  return [...results, "not written"];
}

function notifyShard(context: ProtocolContext, key: ItemKey, latestMs: number, plan: NotifyPlan): Promise<Notified> {
  const policy = RETRY.notify;
  const untilMs = Math.min(latestMs, context.clock.now() + policy.timeoutMs);
  const cache = context.caches.of(key.bucket);
  const machine: Machine<NotifyProgress, NotifyAction, Notified> = {
    ended: notifyEnded,
    next: (progress, turn) => nextNotify(progress, { ...turn, cached: cache.seen(key.shard) }, plan),
    on: (progress, action, event) => onNotify(progress, action, event, plan),
    untilMs: () => untilMs,
    throttled: () => {},
  };
  const budget = { policy, attemptsMax: policy.attempts, caller: undefined };
  return drive(machine, { at: "sending" }, budget, context);
}
