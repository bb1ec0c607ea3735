import type { BucketKey } from "../domain/bucket-key.ts";
import type { Access } from "../domain/config.ts";
import type { LimitSet, SetOrigin } from "../domain/limit-set.ts";
import type { Claim } from "../ports/bucket-store.ts";
import type { ItemAnswer, ItemKey, ItemWrite } from "../ports/item-store.ts";
import { BYPASS, DISABLED, nonceSlot, VU } from "./attributes.ts";
import { formFor } from "./forms.ts";
import { readWhole } from "./gather.ts";
import { bringing, type Job } from "./job.ts";
import type { RoundsContext } from "./rounds.ts";
import { WriteBuilder } from "./write-builder.ts";

const TIMEOUT_MS = 5_000;
const ROUNDS_MAX = 10;
const BYPASS_MS = 60_000;

/** Says on every live shard that configuration changed: whoever comes next reads it again. How many were told. */
export function announce(context: RoundsContext, bucket: BucketKey, readingMs: number): Promise<number> {
  return onEveryShard(context, bucket, readingMs, (key) =>
    new WriteBuilder().set(VU, 0).update(key, "exists", undefined),
  );
}

/** Stamps what is allowed on every live shard, so that it counts from the next request on. */
export function stampAccess(
  context: RoundsContext,
  bucket: BucketKey,
  access: Access,
  readingMs: number,
): Promise<number> {
  return onEveryShard(context, bucket, readingMs, (key) => {
    const builder = new WriteBuilder();
    if (access === "disabled") builder.set(DISABLED, true).remove(BYPASS);
    else if (access === "bypass") builder.set(BYPASS, readingMs + BYPASS_MS).remove(DISABLED);
    else builder.remove(DISABLED).remove(BYPASS);
    return builder.update(key, "exists", undefined);
  });
}

/**
 * Brings limits to every live shard at once, without taking anything: what whoever changed them does where nobody may be
 * relied on to hear of it. `configConfirmed`: they were read, or written, just now. True when all shards go by them.
 */
export async function bringTo(
  context: RoundsContext,
  bucket: BucketKey,
  limits: { readonly set: LimitSet; readonly origin: SetOrigin },
  readingMs: number,
  configConfirmed: boolean,
): Promise<boolean> {
  const { env, nonces, items, memories, readings } = context;
  const claim: Claim = { bucket, ...limits, take: [], bypass: false };
  const job: Job = { of: claim, kind: "take", amounts: [], readingMs, timeoutMs: 0 };
  const [whole] = await readWhole(context, [bucket], { readingMs, timeoutMs: TIMEOUT_MS });
  let isDone = true;
  for (const { key } of whole?.images ?? []) {
    for (let round = 0; ; round++) {
      const memory = memories.of(bucket);
      const seen = memory.seen(key.shard);
      const image = seen?.image;
      if (seen === undefined || image === undefined) break;
      // What the original changed meanwhile is not undone: whoever asked reads configuration again.
      if (env.dialect.installStopsOnDoubt && readings.doubtOf(memory, seen, [job], env) === "configSuspect") {
        isDone = false;
        break;
      }
      const nonce = { name: nonceSlot(nonces.slot), value: nonces.next() };
      const step = formFor(image, bringing(job, { readingMs, nonce, configConfirmed }), env);
      // Nothing to install: what would be written is no more than another take that takes nothing.
      if (step.kind === "short" || step.write.trace?.form === "take") break;
      const asked = memories.learnt;
      const answer = await items.write(step.write, { timeoutMs: TIMEOUT_MS });
      learnAnswer(context, key, answer, readingMs, asked);
      if (answer.kind === "applied") break;
      if (round < ROUNDS_MAX && (answer.kind === "failed" || answer.kind === "refused")) continue;
      isDone = false;
      break;
    }
  }
  return isDone;
}

async function onEveryShard(
  context: RoundsContext,
  bucket: BucketKey,
  readingMs: number,
  writeOf: (key: ItemKey) => ItemWrite,
): Promise<number> {
  const [whole] = await readWhole(context, [bucket], { readingMs, timeoutMs: TIMEOUT_MS });
  let told = 0;
  for (const { key } of whole?.images ?? []) {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const asked = context.memories.learnt;
      const answer = await context.items.write(writeOf(key), { timeoutMs: TIMEOUT_MS });
      learnAnswer(context, key, answer, readingMs, asked);
      if (answer.kind === "applied") told++;
      // Said twice it says the same: what nobody knows the outcome of is simply said again.
      if (answer.kind === "applied" || answer.kind === "failed") break;
    }
  }
  return told;
}

function learnAnswer({ memories }: RoundsContext, key: ItemKey, answer: ItemAnswer, atMs: number, asked: number): void {
  if (answer.kind !== "applied" && answer.kind !== "failed") return;
  memories.learn(key, answer.item, { atMs, hearsay: false, set: undefined, own: 0, asked });
}
