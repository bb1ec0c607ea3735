import { type Lease, Limit } from "../../src/entry/index.ts";
import { SHARED } from "../../src/protocol/shared/dialect.ts";
import { BUCKET, HOUR_MS, type Process, SECOND_MS, type Sent, Stage, take } from "./writes-stage.ts";

/** One form of write, and a short story in which a real limiter makes it. */
export interface Form {
  readonly title: string;
  /** One sentence: when it is used. */
  readonly when: string;
  /** What has happened, and what is done now: for the numbers. */
  readonly story: string;
  play(): Promise<readonly Sent[]>;
  /** Reasons that only this form has, before the general ones: a pattern of the clause or effect, and the reason. */
  readonly why?: readonly (readonly [RegExp, string])[];
}

export interface FormGroup {
  readonly title: string;
  readonly forms: readonly Form[];
}

export const rpm = Limit.perMinute("rpm", 60);
export const tpm = Limit.perMinute("tpm", 6_000);
export const day = Limit.quota("day", 1_000, { reset: "daily" });
export const session = Limit.quota("session", 50, { resetAfterMs: 5 * HOUR_MS });
export const soft = Limit.perMinute("rpm", 60, { soft: true });
export const { entityId, resource } = BUCKET;

export const KEPT_FOR_EVER = "the item of a split bucket does not expire, and no process has set an expiry meanwhile";

/** Takes at noon, and says what a later call sends. */
export async function afterNoon(
  limit: Limit,
  taken: number,
  ms: number,
  later: (stage: AfterNoon) => Promise<unknown>,
) {
  const stage = new Stage();
  const process = await stage.with(limit);
  const lease = await take(process.limiter, { [limit.name]: taken });
  await stage.until(ms);
  return stage.sentBy(() => later({ ...process, stage, lease }));
}

type AfterNoon = Process & { readonly stage: Stage; readonly lease: Lease };

/** A bucket in two shards: 60 a minute, of which 40 were taken, split 5 s after noon. */
export async function inShards(later: (on: AfterNoon) => Promise<unknown>): Promise<readonly Sent[]> {
  const stage = new Stage();
  const process = await stage.with(rpm);
  const lease = await take(process.limiter, { rpm: 40 });
  await stage.until(5 * SECOND_MS);
  await process.buckets.resize(BUCKET, "more", stage.clock.now());
  await stage.until(6 * SECOND_MS);
  return stage.sentBy(() => later({ ...process, stage, lease }));
}

/** The same on a table that the original writes too. */
export async function onSharedTable(ms: number, later: (on: Process & { lease: Lease }) => Promise<unknown>) {
  const stage = new Stage();
  const process = await stage.process({ dialect: SHARED });
  await process.limiter.setResourceDefaults(resource, [rpm]);
  const lease = await take(process.limiter, { rpm: 40 });
  await stage.until(ms);
  return stage.sentBy(() => later({ ...process, lease }));
}
