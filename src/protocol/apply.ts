import type { BucketKey } from "../domain/bucket-key.ts";
import type { Access } from "../domain/config.ts";
import type { LimitSet, SetOrigin } from "../domain/limit-set.ts";
import type { Claim } from "../ports/bucket-store.ts";
import type { ItemKey, ItemWrite } from "../ports/item-store.ts";
import { BYPASS, DISABLED, nonceSlot, VU } from "./attributes.ts";
import type { Image } from "./codec.ts";
import type { ProtocolContext } from "./context.ts";
import {
  nextTell,
  onTell,
  type TellAction,
  type Telling,
  type TellPlan,
  type TellProgress,
  tellEnded,
} from "./decide/tell.ts";
import { drive, type Machine } from "./drive.ts";
import { formFor } from "./forms.ts";
import { installLimitsIntent, type Job, movesEpoch } from "./job.ts";
import { RETRY } from "./retry-policy.ts";
import { readWhole, unhurried } from "./whole.ts";
import { WriteBuilder } from "./write-builder.ts";

const BYPASS_MS = 60_000;

/** Says on every live shard that configuration changed: the next request reads it again. How many were told. */
export function announce(context: ProtocolContext, bucket: BucketKey, readingMs: number): Promise<number> {
  return stampEveryShard(context, bucket, readingMs, (key) =>
    new WriteBuilder().set(VU, 0).update(key, "exists", undefined),
  );
}

/** Stamps what is allowed on every live shard, so that it counts from the next request on. How many were told. */
export function stampAccess(
  context: ProtocolContext,
  bucket: BucketKey,
  access: Access,
  readingMs: number,
): Promise<number> {
  return stampEveryShard(context, bucket, readingMs, (key) => {
    const builder = new WriteBuilder();
    if (access === "disabled") builder.set(DISABLED, true).remove(BYPASS);
    else if (access === "bypass") builder.set(BYPASS, readingMs + BYPASS_MS).remove(DISABLED);
    else builder.remove(DISABLED).remove(BYPASS);
    return builder.update(key, "exists", undefined);
  });
}

/** Limits to install on every shard of a bucket. */
export interface Installation {
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
  const told = await tellEveryShard(context, bucket, readingMs, () => ({
    readingMs,
    isIdempotent: false,
    writeFor: (seen) => {
      if (seen?.image === undefined) return "nothing";
      // What the original changed meanwhile is not undone: the caller reads configuration again.
      if (env.dialect.installStopsOnDoubt && readings.doubtOf(cache, seen, [job], env) === "configSuspect")
        return "not told";
      return installWrite(context, seen.image, installation) ?? "nothing";
    },
  }));
  return !told.includes("not told");
}

/** The write that installs limits on one shard; undefined when it goes by them already. */
export function installWrite(
  { env, nonces }: ProtocolContext,
  image: Image,
  installation: Installation,
): ItemWrite | undefined {
  const { readingMs, configConfirmed } = installation;
  const nonce = { name: nonceSlot(nonces.slot), value: nonces.next() };
  const intent = installLimitsIntent(jobOf(installation), { readingMs, nonce, configConfirmed });
  if (!movesEpoch(image, intent, env)) return undefined;
  const step = formFor(image, intent, env);
  return step.kind === "short" ? undefined : step.write;
}

function jobOf({ bucket, set, origin, readingMs }: Installation): Job {
  const claim: Claim = { bucket, set, origin, take: [], bypass: false };
  return { of: claim, kind: "take", amounts: [], readingMs, untilMs: Number.POSITIVE_INFINITY, askedAtSequence: 0 };
}

async function stampEveryShard(
  context: ProtocolContext,
  bucket: BucketKey,
  readingMs: number,
  stamp: (key: ItemKey) => ItemWrite,
): Promise<number> {
  const told = await tellEveryShard(context, bucket, readingMs, (key) => ({
    readingMs,
    isIdempotent: true,
    writeFor: () => stamp(key),
  }));
  return told.filter((telling) => telling === "told").length;
}

async function tellEveryShard(
  context: ProtocolContext,
  bucket: BucketKey,
  readingMs: number,
  planFor: (key: ItemKey) => TellPlan,
): Promise<Telling[]> {
  const policy = RETRY.tell;
  const [whole] = await readWhole(context, [bucket], unhurried(readingMs));
  const told: Telling[] = [];
  for (const { key } of whole?.images ?? []) {
    const plan = planFor(key);
    const untilMs = context.clock.now() + policy.timeoutMs;
    const machine: Machine<TellProgress, TellAction, Telling> = {
      ended: tellEnded,
      next: (progress, turn) => {
        return nextTell(progress, { ...turn, cached: context.caches.of(bucket).seen(key.shard) }, plan);
      },
      on: (progress, action, event) => onTell(progress, action, event, plan),
      untilMs: () => untilMs,
      throttled: () => {},
    };
    told.push(
      await drive(machine, { at: "telling" }, { policy, attemptsMax: policy.attempts, caller: undefined }, context),
    );
  }
  return told;
}
