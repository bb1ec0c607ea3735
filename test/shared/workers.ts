import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import type { Journal } from "../simulation/journal.ts";
import type { OriginalClient, OriginalLease } from "../simulation/original-client.ts";
import type { SharedChecks } from "./checks.ts";
import type { OurLease, OurProcess } from "./our-process.ts";
import { changedLimits, type Profile } from "./profile.ts";
import type { Truth } from "./truth.ts";
import type { Wires } from "./wire.ts";

export interface Floor {
  readonly profile: Profile;
  readonly truth: Truth;
  readonly journal: Journal;
  readonly checks: SharedChecks;
  readonly wires: Wires;
  readonly random: SeededRandom;
  /** Waits until it is this one's turn. */
  readonly turn: (owner: string) => Promise<void>;
  readonly isOver: () => boolean;
}

/** One request after the other through a process of ours. */
export async function workOurs(floor: Floor, owner: string, process: OurProcess): Promise<void> {
  const { random, journal, profile, isOver, turn } = floor;
  let leases: OurLease[] = [];
  while (!isOver()) {
    await turn(owner);
    const bucket = random.pick(profile.buckets);
    const [lease] = leases;
    await surviving(journal, owner, async () => {
      if (lease !== undefined && random.chance(0.45)) leases = await settle(floor, owner, process, leases);
      else if (profile.changes && random.chance(0.04)) await changeOurs(floor, owner, process, bucket);
      else if (profile.disables && random.chance(0.04)) {
        const access = random.pick(["enforce", "disabled"] as const);
        journal.note(`${owner} makes ${bucket.entityId} ${access}`);
        await process.setAccess(bucket, access);
      } else leases.push(...(await request(floor, owner, process, bucket)));
    });
  }
}

async function request(floor: Floor, owner: string, process: OurProcess, bucket: BucketKey): Promise<OurLease[]> {
  const { random, journal, checks } = floor;
  const answer = await process.take(bucket, (limits) => amountsOf(wishes(random, limits)));
  journal.count(`ours ${answer.kind}`);
  if (answer.kind === "disabled") return [];
  const { claim, kind } = answer;
  journal.note(`${owner} ${bucket.entityId} ${told(claim.take)}: ${kind}`);
  const landed = checks.landed(claim);
  const isTaking = claim.take.some(({ milli }) => milli > 0);
  if (kind === "taken" && landed === 0) journal.violation(`${owner} was granted what was not written`);
  if (kind !== "taken" && kind !== "unavailable" && landed > 0 && isTaking) {
    // What only brings limits is written for the one who is refused.
    journal.count("brought for a refusal");
  }
  if (kind === "short" && claim.take.every(({ limit }) => claim.set.limits.find((l) => l.name === limit)?.soft)) {
    journal.violation(`${owner} was refused by limits that are soft`);
  }
  if (answer.kind !== "taken") return [];
  checks.ticketed(claim, answer.lease.held.ticket);
  return [answer.lease];
}

async function settle(floor: Floor, owner: string, process: OurProcess, leases: OurLease[]): Promise<OurLease[]> {
  const { random, journal, checks } = floor;
  const [lease, ...others] = leases as [OurLease, ...OurLease[]];
  const some = [...lease.amounts].map(([limit, milli]) => ({ limit, milli: random.integer(0, milli / 1000) * 1000 }));
  const part = some.filter(({ milli }) => milli > 0);
  const choice = random.weighted([
    [3, "debit"],
    [3, "release"],
    [3, "rollback"],
    [2, "forget"],
  ] as const);
  const id = lease.held.bucket.entityId;
  switch (choice) {
    case "debit": {
      const amounts = [...lease.amounts.keys()].map((limit) => ({ limit, milli: random.integer(1, 8) * 1000 }));
      const { own, reply, lease: more } = await process.debit(lease, amounts);
      journal.note(`${owner} ${id} debits ${told(amounts)}: ${reply.kind}`);
      journal.count(`ours debit ${reply.kind}`);
      if (reply.kind === "applied" && reply.ticket !== undefined) checks.ticketed(own, reply.ticket);
      if (reply.kind === "applied" && checks.landed(own) === 0) journal.violation(`${owner}: a debit was not written`);
      if (reply.kind === "unavailable" && reply.applied === "no" && checks.landed(own) > 0) {
        journal.violation(`${owner}: a debit was written that was said not to be`);
      }
      return more === undefined ? leases : [...leases, more];
    }
    case "release": {
      if (part.length === 0) return leases;
      for (const { limit, milli } of part) lease.amounts.set(limit, (lease.amounts.get(limit) ?? 0) - milli);
      await giveBack(floor, owner, process, lease, part);
      return leases;
    }
    case "rollback": {
      const all = [...lease.amounts].map(([limit, milli]) => ({ limit, milli }));
      const due = all.filter(({ milli }) => milli > 0);
      if (due.length > 0) await giveBack(floor, owner, process, lease, due);
      return others;
    }
    case "forget":
      return others;
  }
}

async function giveBack(floor: Floor, owner: string, process: OurProcess, lease: OurLease, due: readonly Amount[]) {
  const { journal, checks } = floor;
  const { own, reply } = await process.credit(lease, due);
  journal.note(`${owner} ${lease.held.bucket.entityId} gives back ${told(due)}: ${reply.kind}`);
  journal.count(`ours credit ${reply.kind}`);
  if (reply.kind === "applied" && checks.landed(own) === 0) journal.violation(`${owner}: a give-back was not written`);
  if (checks.landed(own) > 1 && floor.profile.shards === 1)
    journal.violation(`${owner}: a give-back was written twice`);
}

async function changeOurs({ random, journal, truth }: Floor, owner: string, process: OurProcess, bucket: BucketKey) {
  const limits = changedLimits(random, truth.get(bucket).limits);
  journal.note(`${owner} changes ${bucket.entityId} to ${limitsShown(limits)}`);
  const isDone = await process.setLimits(bucket, limits);
  journal.count(isDone ? "ours changed limits" : "ours did not reach all");
}

/** One request after the other through a client of the original. */
export async function workTheirs(floor: Floor, owner: string, client: OriginalClient): Promise<void> {
  const { random, journal, profile, truth, isOver, turn } = floor;
  const leases: OriginalLease[] = [];
  while (!isOver()) {
    await turn(owner);
    const bucket = random.pick(profile.buckets);
    await surviving(journal, owner, async () => {
      if (leases.length > 0 && random.chance(0.35)) await settleTheirs(floor, owner, leases);
      else if (profile.changes && random.chance(0.03)) {
        const limits = changedLimits(random, truth.get(bucket).limits);
        journal.note(`${owner} changes ${bucket.entityId} in place to ${limitsShown(limits)}`);
        floor.wires.versions.set(owner, truth.set(bucket, { limits }).version);
        await client.setLimits(bucket, limits);
        journal.count("theirs changed limits");
      } else {
        const wants = Object.fromEntries(wishes(random, truth.get(bucket).limits));
        const answer = await client.acquire(bucket, wants);
        journal.note(`${owner} ${bucket.entityId} ${JSON.stringify(wants)}: ${answer.refused ? "refused" : "granted"}`);
        journal.count(answer.refused ? "theirs refused" : "theirs granted");
        if (!answer.refused) leases.push(answer);
      }
    });
  }
}

async function settleTheirs({ random, journal }: Floor, owner: string, leases: OriginalLease[]): Promise<void> {
  const [lease] = leases as [OriginalLease];
  const names = Object.keys(lease.taken);
  const deltas = Object.fromEntries(names.map((name) => [name, random.integer(-4, 8)]));
  if (random.chance(0.5)) {
    journal.note(`${owner} ${lease.key.bucket.entityId} adjusts ${JSON.stringify(deltas)}`);
    journal.count("theirs adjust");
    await lease.adjust(deltas);
    return;
  }
  leases.shift();
  if (random.chance(0.4)) return;
  journal.note(`${owner} ${lease.key.bucket.entityId} rolls back ${JSON.stringify(lease.taken)}`);
  journal.count("theirs rollback");
  await lease.rollback();
}

/** What somebody asks for, in whole tokens; now and then more than there may be, now and then nothing. */
function wishes(random: SeededRandom, limits: readonly Limit[]): Map<string, number> {
  const wanted = limits.filter(() => random.chance(0.75));
  if (wanted.length === 0) wanted.push(random.pick(limits));
  return new Map(
    wanted.map(({ name, capacity }) => {
      const most = random.weighted([
        [6, 2],
        [3, Math.ceil(capacity / 4)],
        [1, capacity],
      ] as const);
      return [name, Math.min(capacity, random.integer(random.chance(0.05) ? 0 : 1, most))];
    }),
  );
}

function amountsOf(wishes: ReadonlyMap<string, number>): Amount[] {
  return [...wishes].map(([limit, tokens]) => ({ limit, milli: tokens * 1000 }));
}

async function surviving(journal: Journal, owner: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof RateLimiterUnavailable) journal.count("unavailable");
    else journal.violation(`${owner}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  }
}

function told(amounts: readonly Amount[]): string {
  return amounts.map(({ limit, milli }) => `${limit} ${milli / 1000}`).join(" ");
}

function limitsShown(limits: readonly Limit[]): string {
  return limits
    .map(({ name, capacity, refillAmount, refillPeriodMs }) => `${name} ${capacity}+${refillAmount}/${refillPeriodMs}`)
    .join(", ");
}
