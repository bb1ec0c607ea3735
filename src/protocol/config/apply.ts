import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Access } from "../../domain/config/config.ts";
import type { LimitedBucket } from "../../domain/limits/limit-set.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { type SingleWrite, singleWrite } from "../decide/single-write.ts";
import { BN, BYPASS, DISABLED, VU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import { type Caller, drive } from "../process/drive.ts";
import type { Ended } from "../process/machine.ts";
import { MOVES_MAX, RETRY } from "../process/retry-policy.ts";
import { readWhole, type WholeRead, withoutDeadline } from "../shards/whole.ts";
import { movesEpoch } from "../take/admission.ts";
import { formFor } from "../take/forms.ts";
import { installLimitsIntent, type Job, jobOfClaim } from "../take/job.ts";

const BYPASS_MS = 60_000;

/** An item that announces a change of configuration. */
const ANNOUNCED: Item = Object.freeze({ [VU]: 0 });

/** Marks every live shard with "configuration changed": the next request reads it again. Returns the number of shards written. */
export function announce(context: ProtocolContext, bucket: BucketKey, readingMs: number): Promise<number> {
  return stampEveryShard(context, bucket, readingMs, (builder) => builder.set(VU, 0));
}

/** Stamps the access on every live shard, so that it counts from the next request on. Returns the number of shards written. */
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
    // A process that remembers a bypass goes on with it until it reads configuration again. This stamp may also arrive after that
    // of a later switch and overwrite it: configuration decides.
    return dialect.announcesConfig(ANNOUNCED) ? builder.set(VU, 0) : builder;
  });
}

/** Limits to install on every shard of a bucket. */
interface Installation extends LimitedBucket {
  readonly readingMs: number;
  /** True if they were read or written just now: then marks that say "read configuration again" are removed. */
  readonly configConfirmed: boolean;
  /** Deadline of the caller; absent if none waits. */
  readonly untilMs?: number;
  readonly caller?: Caller;
}

/**
 * Installs limits on every live shard without taking anything, for changes that must not wait for the next request. Returns true
 * if all shards go by them.
 */
export async function installLimits(context: ProtocolContext, installation: Installation): Promise<boolean> {
  const { env, readings, caches } = context;
  const { bucket, readingMs, untilMs = Number.POSITIVE_INFINITY, caller } = installation;
  const cache = caches.of(bucket);
  const job = jobOf(installation);
  const plan = shardWrite(readingMs, false, (seen) => {
    if (seen?.image === undefined) return NOTHING;
    // Do not undo a change of the original: the caller reads configuration again.
    const stops = env.dialect.installStopsOnDoubt && readings.doubtOf(cache, seen, [job], env) === "configSuspect";
    return stops ? NOT_WRITTEN : (installWrite(context, seen.image, installation) ?? NOTHING);
  });
  const results = await writeEveryShard(context, bucket, { readingMs, untilMs, ...given({ caller }) }, () => plan);
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
 * Each stamp begins another row of epochs. A process that saw the stamp before, and read configuration because of it, may not
 * have read this change; without a new number it would take an equal stamp for the one it saw, and remove it.
 */
async function stampEveryShard(
  context: ProtocolContext,
  bucket: BucketKey,
  readingMs: number,
  stamp: (builder: WriteBuilder) => WriteBuilder,
): Promise<number> {
  const stamped = () => stamp(new WriteBuilder().set(BN, context.nonces.next()));
  const planFor = (key: ItemKey) => shardWrite(readingMs, true, () => stamped().update(key, "exists", undefined));
  const results = await writeEveryShard(context, bucket, withoutDeadline(readingMs), planFor);
  if (results.includes("not written")) {
    throw new RateLimiterUnavailable(
      `A change of configuration could not be written to the bucket of ${bucket.entityId} on ${bucket.resource}.`,
    );
  }
  return results.filter((result) => result === "written").length;
}

/**
 * Writes to every shard, in their order. A shard that is split off meanwhile may still say what its sibling said before: the
 * answers show that there are more shards, and the new ones are written too. Once all are written, a new shard says the same.
 */
function writeEveryShard(
  context: ProtocolContext,
  bucket: BucketKey,
  { readingMs, untilMs, caller }: Pick<WholeRead, "readingMs" | "untilMs" | "caller">,
  planFor: (key: ItemKey) => SingleWrite<Notified>,
): Promise<Notified[]> {
  const { caches } = context;
  const cache = caches.of(bucket);
  return caches.holding([bucket], async () => {
    const results: Notified[] = [];
    const told = new Set<number>();
    for (let round = 0; round < MOVES_MAX; round++) {
      const [whole] = await readWhole(context, [bucket], {
        ...withoutDeadline(readingMs),
        untilMs,
        ...given({ caller }),
      });
      const untold = (whole?.images ?? []).filter(({ key }) => !told.has(key.shard));
      // On a shared table shards may be missing.
      if (untold.length === 0) return results;
      for (const { key } of untold) {
        told.add(key.shard);
        const machine = singleWrite(planFor(key), () => cache.seen(key.shard), untilMs);
        results.push(await drive(machine, undefined, { policy: RETRY.notify, caller }, context));
      }
      if (told.size >= cache.shardCount) return results;
    }
    return [...results, "not written"];
  });
}

type Notified = "written" | "not written" | "nothing";
const NOTHING: Ended<Notified> = Object.freeze({ result: "nothing" });
const NOT_WRITTEN: Ended<Notified> = Object.freeze({ result: "not written" });

/** A write for one shard. An idempotent one does not depend on the item, so it may be sent twice, and fails only if the item is gone. */
export function shardWrite(
  readingMs: number,
  isIdempotent: boolean,
  writeFor: SingleWrite<Notified>["writeFor"],
): SingleWrite<Notified> {
  const answered: SingleWrite<Notified>["answered"] = ({ kind }) => {
    if (kind === "applied") return { result: "written" };
    if (kind === "failed") return isIdempotent ? NOTHING : undefined;
    return kind === "unknown" && isIdempotent ? undefined : NOT_WRITTEN;
  };
  return { readingMs, writeFor, answered, gaveUp: () => "not written" };
}
