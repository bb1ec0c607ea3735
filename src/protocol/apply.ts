import type { BucketKey } from "../domain/bucket-key.ts";
import type { Access } from "../domain/config.ts";
import type { LimitSet, SetOrigin } from "../domain/limit-set.ts";
import type { ItemKey, ItemWrite } from "../ports/item-store.ts";
import { BN, BYPASS, DISABLED, VU } from "./attributes.ts";
import type { Image } from "./codec.ts";
import type { ProtocolContext } from "./context.ts";
import {
  type Notified,
  type NotifyAction,
  type NotifyPlan,
  type NotifyProgress,
  nextNotify,
  notifyEnded,
  onNotify,
} from "./decide/notify.ts";
import { drive, type Machine } from "./drive.ts";
import { formFor } from "./forms.ts";
import { installLimitsIntent, type Job, jobOfClaim, movesEpoch } from "./job.ts";
import { RETRY } from "./retry-policy.ts";
import { readWhole, unhurried } from "./whole.ts";
import { WriteBuilder } from "./write-builder.ts";

const BYPASS_MS = 60_000;

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
  return stampEveryShard(context, bucket, readingMs, (builder) => {
    if (access === "disabled") return builder.set(DISABLED, true).remove(BYPASS);
    if (access === "bypass") return builder.set(BYPASS, readingMs + BYPASS_MS).remove(DISABLED);
    return builder.remove(DISABLED).remove(BYPASS);
  });
}

/** Limits to install on every shard of a bucket. */
interface Installation {
  readonly bucket: BucketKey;
  readonly set: LimitSet;
  readonly origin: SetOrigin;
  readonly readingMs: number;
  /** Whether they were read, or written, just now: then marks that say "read configuration again" are removed. */
  readonly configConfirmed: boolean;
}

/**
 * Installs limits on every live shard without taking anything, for changes that must not wait for the next request. True when
 * all shards go by them.
 */
export async function installLimits(context: ProtocolContext, installation: Installation): Promise<boolean> {
  const { env, readings, caches } = context;
  const { bucket, readingMs } = installation;
  const cache = caches.of(bucket);
  const job = jobOf(installation);
  const results = await notifyEveryShard(context, bucket, readingMs, () => ({
    readingMs,
    isIdempotent: false,
    writeFor: (seen) => {
      if (seen?.image === undefined) return "nothing";
      // What the original changed meanwhile is not undone: the caller reads configuration again.
      if (env.dialect.installStopsOnDoubt && readings.doubtOf(cache, seen, [job], env) === "configSuspect")
        return "not written";
      return installWrite(context, seen.image, installation) ?? "nothing";
    },
  }));
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
  const intent = installLimitsIntent(jobOf(installation), { readingMs, nonce: undefined, configConfirmed });
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
  const results = await notifyEveryShard(context, bucket, readingMs, (key) => ({
    readingMs,
    isIdempotent: true,
    writeFor: () => stamped().update(key, "exists", undefined),
  }));
  return results.filter((result) => result === "written").length;
}

async function notifyEveryShard(
  context: ProtocolContext,
  bucket: BucketKey,
  readingMs: number,
  planFor: (key: ItemKey) => NotifyPlan,
): Promise<Notified[]> {
  const policy = RETRY.notify;
  const [whole] = await readWhole(context, [bucket], unhurried(readingMs));
  const results: Notified[] = [];
  for (const { key } of whole?.images ?? []) {
    const plan = planFor(key);
    const untilMs = context.clock.now() + policy.timeoutMs;
    const machine: Machine<NotifyProgress, NotifyAction, Notified> = {
      ended: notifyEnded,
      next: (progress, turn) => {
        return nextNotify(progress, { ...turn, cached: context.caches.of(bucket).seen(key.shard) }, plan);
      },
      on: (progress, action, event) => onNotify(progress, action, event, plan),
      untilMs: () => untilMs,
      throttled: () => {},
    };
    results.push(
      await drive(machine, { at: "sending" }, { policy, attemptsMax: policy.attempts, caller: undefined }, context),
    );
  }
  return results;
}
