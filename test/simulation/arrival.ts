import { type BucketKey, bucketKey, TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import { measureOf } from "../../src/domain/charge/amounts.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import { ResourceDisabled, ValidationError } from "../../src/domain/names/errors.ts";
import type { AcquireRequest } from "../../src/engine/acquire/request.ts";
import type { Client, Surroundings } from "./client.ts";
import type { Ground } from "./ground.ts";
import { Operation, runAs, shownKey } from "./operation.ts";
import { allSlotsBack } from "./slot-arrival.ts";

/** The last questions: whether what is configured has come to every bucket. */
export class Arrival {
  readonly #around: Surroundings;
  readonly #ground: Ground;
  readonly #clients: readonly Client[];
  readonly #settled: () => Promise<void>;

  constructor(around: Surroundings, ground: Ground, clients: readonly Client[], settled: () => Promise<void>) {
    this.#around = around;
    this.#ground = ground;
    this.#clients = clients;
    this.#settled = settled;
  }

  /** When everybody has had time to hear of it, what is configured is what every bucket goes by. */
  async check(pass: (ms: number) => Promise<void>): Promise<void> {
    const { scheduler, profile, truth } = this.#around;
    scheduler.calm = true;
    for (const client of this.#clients) client.calm();
    // Longer than anything is remembered, by the clock that is most behind, or was put back while it remembered.
    const backMs = Math.max(0, ...this.#clients.map(({ clock }) => clock.steppedBackMs));
    await pass(601_000 + 2 * profile.skewMs + backMs);
    if (profile.slots !== undefined) await allSlotsBack(this.#around, this.#ground);
    for (const entityId of profile.entities) {
      for (const resource of profile.resources) {
        const ends = truth.endsPassed(this.#around.errorMs());
        if (truth.isDisabled(entityId, resource) || truth.isTorn(entityId, resource)) continue;
        const { onResource, totals, access } = truth.level(entityId, resource);
        const buckets = [bucketKey(entityId, resource), bucketKey(entityId, TOTAL_RESOURCE)];
        for (const [i, { limits }] of [onResource, totals].entries()) {
          // What is bypassed does not reach the totals.
          if (limits.length === 0 || (i > 0 && access === "bypass")) continue;
          const bucket = buckets[i] as BucketKey;
          const stored = await this.#arrival(bucket, resource, limits, ends);
          if (stored === undefined) continue;
          this.#tell(ends, `${shownKey(bucket.id)} never hears of its limits: ${JSON.stringify(stored)}`);
        }
      }
    }
  }

  /**
   * Everybody asks once; the limits that the bucket goes by then, where they are not what they should be. A bucket that is
   * split hears of them shard by shard, whichever is asked, so it is asked until all have been with near certainty: one that seems to
   * hold less, by limits that it had before, is the better of two only where both are that one.
   */
  async #arrival(
    bucket: BucketKey,
    resource: string,
    limits: readonly Limit[],
    ends: number,
  ): Promise<readonly Limit[] | undefined> {
    const { entityId } = bucket;
    let stored: readonly Limit[] | undefined;
    const shards = this.#ground.shards(bucket.id);
    for (let passes = 0; passes < Math.max(4, 20 * shards ** 2); passes++) {
      // Where each level is asked by itself, one below a level that refuses need not be asked.
      let isAsked = false;
      for (const client of this.#clients) {
        const request = { entityId, resource, consume: { requests: 0, [measureOf(limits[0]!)]: 0 } };
        const isGranted = await this.#arrived(client, request, ends);
        isAsked ||= isGranted || client.protocol === undefined;
        // A table has a ceiling of writes a second.
        await this.#around.clock.advance(client.protocol === undefined ? 1 : 1_000);
      }
      if (!isAsked) return undefined;
      stored = await this.#configured(bucket);
      if (stored === undefined || JSON.stringify(stored) === JSON.stringify(limits)) return undefined;
      if (this.#clients.every(({ protocol }) => protocol === undefined)) return stored;
    }
    return stored;
  }

  /** Unless something ended meanwhile, or clocks disagree whether it has. */
  #tell(ends: number, problem: string): void {
    const { truth, journal, errorMs } = this.#around;
    if (truth.endsPassed(errorMs()) === ends) journal.violation(problem);
  }

  /** The limits that a bucket goes by. */
  async #configured(bucket: BucketKey): Promise<readonly Limit[] | undefined> {
    const [state] = await this.#ground.whole.scope("default").buckets.read([bucket]);
    return state?.limits.filter(({ configured }) => configured).map(({ limit }) => limit);
  }

  async #arrived(client: Client, request: AcquireRequest, ends: number): Promise<boolean> {
    try {
      const operation = new Operation(`${client.id}.arrival`, client.id);
      operation.request = request;
      const asked = runAs(operation, () => client.limiter.tryAcquire(request));
      return (await (client.protocol === undefined ? asked : this.#waited(asked))).ok;
    } catch (error) {
      if (!(error instanceof ValidationError || error instanceof ResourceDisabled)) throw error;
      this.#tell(ends, `${client.id} never hears of its limits: ${error.message}`);
      return false;
    }
  }

  /** Time passes for whoever has to wait a moment before he sends a write again. */
  async #waited<Value>(work: Promise<Value>): Promise<Value> {
    const { clock } = this.#around;
    let isDone = false;
    const done = work.finally(() => {
      isDone = true;
    });
    done.catch(() => {});
    for (await this.#settled(); !isDone; await this.#settled()) {
      await clock.advance(Math.max(1, (clock.nextWakeMs ?? 0) - clock.now()));
    }
    return done;
  }
}
