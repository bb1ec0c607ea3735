import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import { type LimitedBucket, type LimitSet, limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Claim, Held } from "../../src/ports/bucket-store.ts";
import type { Clock } from "../../src/ports/system.ts";
import type { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import type { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import type { Read, SharedAccess, Truth } from "./truth.ts";

export const CACHE_MS = 60_000;

export interface OurOptions {
  readonly clock: Clock;
  readonly buckets: ProtocolBuckets;
  readonly readings: ConfigReadings;
  readonly truth: Truth;
  /** How old an inconsistent read of configuration may be. */
  readonly staleMs: number;
  readonly random: () => number;
  /** A round trip to configuration: others may act meanwhile. */
  readonly trip: () => Promise<void>;
  /** Told of each reading, when it happens. */
  readonly onRead: (origin: SetOrigin, read: Read) => void;
}

interface Known {
  readonly set: LimitSet;
  readonly origin: SetOrigin;
  readonly access: SharedAccess;
  readonly atMs: number;
}

export type OurAnswer =
  | { readonly kind: "taken"; readonly lease: OurLease; readonly claim: Claim }
  | { readonly kind: "short" | "contended" | "configSuspect"; readonly claim: Claim }
  | { readonly kind: "unavailable"; readonly claim: Claim }
  | { readonly kind: "disabled" };

/** What was taken, and with which ticket it goes back. */
export interface OurLease {
  readonly held: Held;
  readonly amounts: Map<string, number>;
}

/** One process of ours as the engine drives it: configuration is cached, and read again when a bucket casts doubt on it. */
export class OurProcess {
  readonly options: OurOptions;
  readonly #known = new Map<string, Known>();

  constructor(options: OurOptions) {
    this.options = options;
  }

  async take(bucket: BucketKey, wanted: (limits: readonly Limit[]) => readonly Amount[]): Promise<OurAnswer> {
    const { buckets, clock } = this.options;
    let last: Claim | undefined;
    let isSuspect = false;
    for (let plans = 0; plans < PLANS_MAX; plans++) {
      const { set, origin, access } = await this.config(bucket, isSuspect);
      if (access === "disabled") return { kind: "disabled" };
      const isConfigJustRead = isSuspect;
      const claim: Claim = { bucket, set, origin, take: wanted(set.limits), bypass: false, isConfigJustRead };
      last = claim;
      const context = { nowMs: clock.now(), timeoutMs: TIMEOUT_MS, generation: undefined, atomic: false };
      const reply = await buckets.take([claim], context);
      const answer = reply === "stale" ? undefined : reply[0];
      if (answer === undefined) throw new Error("a claim was not answered");
      switch (answer.kind) {
        case "taken":
          return { kind: "taken", claim, lease: leaseOf(claim, answer.ticket) };
        case "configSuspect":
          this.expire(bucket);
          isSuspect = true;
          continue;
        case "unavailable":
          return { kind: "unavailable", claim };
        case "skipped":
          throw new Error("a single claim was spared");
        case "unseen":
          return { kind: "contended", claim };
        default:
          return { kind: answer.kind, claim };
      }
    }
    return { kind: "configSuspect", claim: last as Claim };
  }

  /** Takes more, whatever is there; what was taken so goes back with the ticket that the answer names. */
  async debit({ held }: OurLease, amounts: readonly Amount[]) {
    // An object of its own: whoever watches the table knows it again.
    const own: Held = { ...held };
    const { buckets, clock } = this.options;
    const reply = await buckets.debit(own, amounts, { nowMs: clock.now(), timeoutMs: TIMEOUT_MS });
    const ticket = reply.kind === "applied" ? (reply.ticket ?? held.ticket) : undefined;
    const lease = ticket === undefined ? undefined : leaseOf({ ...held, take: amounts }, ticket);
    return { own, reply, lease };
  }

  async credit({ held }: OurLease, amounts: readonly Amount[]) {
    const own: Held = { ...held };
    const { buckets, clock } = this.options;
    const reply = await buckets.credit(own, amounts, { nowMs: clock.now(), timeoutMs: TIMEOUT_MS });
    return { own, reply };
  }

  /** Changes configuration, then the live bucket: by configuration that is read again until nobody came in between. */
  async setLimits(bucket: BucketKey, limits: readonly Limit[]): Promise<boolean> {
    const { truth, buckets, clock, trip, onRead, readings } = this.options;
    await trip();
    truth.set(bucket, { limits });
    this.expire(bucket);
    for (let tries = 0; tries < BRINGS_MAX; tries++) {
      const origin: SetOrigin = { asOfMs: clock.now(), generation: null, reading: readings.begin() };
      await trip();
      const found = truth.get(bucket);
      onRead(origin, { version: found.version, isConsistent: true });
      await trip();
      if (await buckets.installLimits(bucket, { set: limitSet(found.limits), origin }, clock.now())) return true;
    }
    return false;
  }

  /** Changes who is let through, then stamps the live bucket. */
  async setAccess(bucket: BucketKey, access: SharedAccess): Promise<void> {
    const { truth, buckets, clock, trip } = this.options;
    await trip();
    truth.set(bucket, { access });
    this.expire(bucket);
    await buckets.stampAccess(bucket, access, clock.now());
  }

  expire(bucket: BucketKey): void {
    this.#known.delete(bucket.id);
  }

  /** `isSuspect`: a bucket casts doubt on what was read, or would be made by it. */
  async config(bucket: BucketKey, isSuspect = false): Promise<Known> {
    const { clock, truth, readings, trip, onRead, staleMs, random } = this.options;
    const known = this.#known.get(bucket.id);
    if (!isSuspect && known !== undefined && clock.now() - known.atMs < CACHE_MS) return known;
    const reading = readings.begin();
    const isConsistent = isSuspect || readings.mustBeConsistent(bucket.id);
    const atMs = clock.now();
    await trip();
    const found = isConsistent ? truth.get(bucket) : truth.seen(bucket, staleMs, random);
    const origin: SetOrigin = { asOfMs: atMs, generation: null, reading };
    onRead(origin, { version: found.version, isConsistent });
    await trip();
    const read: Known = { set: limitSet(found.limits), origin, access: found.access, atMs };
    this.#known.set(bucket.id, read);
    return read;
  }
}

const PLANS_MAX = 8;
const BRINGS_MAX = 6;
const TIMEOUT_MS = 2_000;

function leaseOf(claim: LimitedBucket & Pick<Claim, "take">, ticket: Ticket): OurLease {
  const { bucket, set, origin, take } = claim;
  // A lease goes on by what it was taken under: nobody reads configuration again for it.
  const { asOfMs, generation } = origin;
  const held: Held = { bucket, set, origin: { asOfMs, generation }, ticket, bypass: false };
  return { held, amounts: new Map(take.map(({ limit, milli }) => [limit, milli])) };
}
