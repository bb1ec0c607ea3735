import { TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import type { Tokens } from "../../src/domain/charge/amounts.ts";
import { measuresOf } from "../../src/domain/charge/measures.ts";
import { TOKENS_MAX } from "../../src/domain/limits/limit.ts";
import { ValidationError } from "../../src/domain/names/errors.ts";
import type { Lease } from "../../src/engine/lease/lease.ts";
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
  const resource = claim?.bucket.resource === TOTAL_RESOURCE ? random.pick(lease.resources) : claim?.bucket.resource;
  const part = resource === undefined ? lease : lease.resource(resource);
  const some = (most: number): Tokens => ({ [random.pick(names)]: random.integer(0, most) });
  // How much is held is only given back as far as it is there: then no sum is known.
  const told = async (tokens: Tokens, isKnown: boolean, act: (tokens: Tokens) => Promise<void>) => {
    if (!isKnown) operation.charged(resource ?? "", tokens, false);
    const degraded = lease.degraded;
    client.beginAdjusting();
    await act(tokens);
    operation.charged(resource ?? "", tokens, isKnown && [degraded, PENDING].includes(lease.degraded));
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
  const [own, { also = {} } = {}] = drawTotals(scene, lease);
  const most = Math.max(
    0,
    ...[own, ...Object.values(also)].flatMap((totals) => Object.values(totals ?? {}).map(Number)),
  );
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

/** Totals of some of what a lease has consumed, on some of its resources: more or less than that. */
function drawTotals({ random, operation }: Scene, lease: Lease): Parameters<Lease["settle"]> {
  const drawn = (name: string): Tokens => {
    const all = Object.entries(lease.resource(name).consumed).filter(() => random.chance(0.7));
    const totals = Object.fromEntries(
      all.map(([measure, held]) => [measure, Math.max(0, held + random.integer(-9, 9))]),
    );
    operation.charged(name, totals, false);
    return totals;
  };
  const [own = "", ...others] = lease.resources;
  return [drawn(own), { also: Object.fromEntries(others.map((name) => [name, drawn(name)])) }];
}
