import { type BucketKey, bucketKey, TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import type { AlsoPart } from "../../src/domain/charge/amounts.ts";
import { measuresOf, type Tokens } from "../../src/domain/charge/amounts.ts";
import { TOKENS_MAX } from "../../src/domain/limits/limit.ts";
import { ValidationError } from "../../src/domain/names/errors.ts";
import { type Lease, type LeasePlace, partsOfLease } from "../../src/engine/lease/lease.ts";
import type { LeaseResource } from "../../src/engine/lease/lease-resource.ts";
import { checkAbove, isExpected, PENDING } from "./checks.ts";
import type { Scene } from "./scene.ts";
import { WORKS } from "./scheduler.ts";
import { slotSteps } from "./slot-work.ts";

/** What is done under a lease: more is consumed, it is adjusted and released, and time passes. */
export async function work(scene: Scene, lease: Lease): Promise<void> {
  for (let steps = scene.random.integer(0, 3); steps > 0; steps--) {
    if (scene.random.chance(0.2)) await Promise.all([workStep(scene, lease), workStep(scene, lease)]);
    else await workStep(scene, lease);
  }
}

export async function workStep(scene: Scene, lease: Lease): Promise<void> {
  const { client, operation, random, around } = scene;
  // The entity itself may have nothing that counts what was asked for.
  const isOverAll = around.profile.levels !== undefined && random.chance(0.3);
  const own = operation.ownClaims().length === 0 || isOverAll ? operation.claims : operation.ownClaims();
  const claim = own.length === 0 ? undefined : random.pick(own);
  const names = measuresOf(claim?.set.limits ?? []);
  const place = claim && placeOf(scene, lease, claim.bucket);
  const part = place === undefined ? lease : lease.part(place);
  const key = place === undefined ? "" : bucketKey(place.entityId, place.resource).id;
  const some = (most: number): Tokens => ({ [random.pick(names)]: random.integer(0, most) });
  // How much is held is only given back as far as it is there: then no sum is known.
  const told = async (tokens: Tokens, isKnown: boolean, act: (tokens: Tokens) => Promise<void>) => {
    if (!isKnown) operation.charged(key, tokens, false);
    const degraded = lease.degraded;
    client.beginAdjusting();
    await act(tokens);
    operation.charged(key, tokens, isKnown && [degraded, PENDING].includes(lease.degraded));
  };
  const steps: [number, () => Promise<void>][] = [[2, () => around.scheduler.pause(operation.name, WORKS)]];
  if (!client.direct) steps.push([1, () => client.clock.sleep(random.integer(0, 3_000), undefined)]);
  steps.push(...slotSteps(scene, lease));
  if (names.length > 0) {
    const negative = (tokens: Tokens): Tokens =>
      Object.fromEntries(Object.entries(tokens).map(([name, count]) => [name, -(count ?? 0)]));
    steps.push(
      [3, () => told(some(20), true, (more) => part.adjust(more))],
      [2, () => told(negative(some(20)), false, (less) => part.adjust(less))],
      [1, () => told({ ...some(20), ...negative(some(20)) }, false, (both) => part.adjust(both))],
      [3, () => told(some(15), false, (less) => part.release(less))],
      [3, () => told(some(8), true, (more) => consumeMore(scene, part, more))],
    );
  }
  try {
    await random.weighted(steps)();
  } catch (error) {
    checkAbove(scene, error);
    if (!isExpected(scene, error)) throw error;
  }
}

/** A part of the lease that is charged to a bucket. */
function placeOf({ random, operation }: Scene, lease: Lease, { entityId, resource, id }: BucketKey): LeasePlace {
  const own = operation.request?.entityId ?? entityId;
  if (lease.parts.every((part) => part.entityId === own)) {
    return { entityId: own, resource: resource === TOTAL_RESOURCE ? random.pick(lease.resources) : resource };
  }
  const reaching = partsOfLease(lease).filter(({ demands }) => demands.some(({ bucket }) => bucket.id === id));
  const { entityId: of, resource: on } = reaching.length === 0 ? (lease.parts[0] as LeasePlace) : random.pick(reaching);
  return { entityId: of, resource: on };
}

async function consumeMore({ client, operation, around }: Scene, lease: LeaseResource, tokens: Tokens): Promise<void> {
  operation.underLease = true;
  operation.asks(around.clock.now(), client.clock);
  try {
    await lease.consume(tokens);
  } finally {
    operation.underLease = false;
  }
}

/** Settles a lease with totals that are more or less than what it has consumed. */
export async function settleWithTotals(scene: Scene, lease: Lease): Promise<void> {
  const { own, also } = drawTotals(scene, lease);
  const drawn = [own, ...also.map(({ consume }) => consume)];
  const most = Math.max(0, ...drawn.flatMap((totals) => Object.values(totals ?? {}).map(Number)));
  const isOpen = lease.status === "open";
  try {
    await lease.settle(own, { also });
  } catch (error) {
    // Several adjustments may come to more than one amount may be: such a total is wrong input, and nothing was changed by it.
    const isTooMuch = error instanceof ValidationError && error.code === "amount_invalid" && most > TOKENS_MAX;
    if (isTooMuch && isOpen && lease.status === "open") return;
    if (!isExpected(scene, error)) throw error;
    return;
  }
  if (most > TOKENS_MAX) scene.around.journal.violation(`${scene.operation.name} was settled with ${most} tokens`);
}

/** Totals of some of what a lease has consumed, in some of its parts: more or less than that. */
function drawTotals(
  { random, operation }: Scene,
  lease: Lease,
): { readonly own: Tokens; readonly also: readonly AlsoPart[] } {
  const drawn = (place: LeasePlace): Tokens => {
    const all = Object.entries(lease.part(place).consumed).filter(() => random.chance(0.7));
    const totals = Object.fromEntries(
      all.map(([measure, held]) => [measure, Math.max(0, held + random.integer(-9, 9))]),
    );
    operation.charged(bucketKey(place.entityId, place.resource).id, totals, false);
    return totals;
  };
  const [own, ...others] = lease.parts;
  return { own: drawn(own as LeasePlace), also: others.map((place) => ({ ...place, consume: drawn(place) })) };
}
