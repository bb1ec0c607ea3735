import { RateLimiterUnavailable, ValidationError } from "../../src/domain/names/errors.ts";
import type { Lease } from "../../src/engine/lease/lease.ts";
import type { Scene } from "./scene.ts";

// What is done with leases that hold slots, in worlds that have them.

const kept = new WeakSet<Lease>();

/** What a holder of slots may do next, as often as its weight says; nothing where the world has no slots. */
export function slotSteps(scene: Scene, lease: Lease): [number, () => Promise<void>][] {
  const { around, client, random } = scene;
  if (around.profile.slots === undefined) return [];
  const steps: [number, () => Promise<void>][] = [
    [4, () => renew(scene, lease)],
    [
      1,
      async () => {
        around.journal.count("leases kept");
        kept.add(lease);
        lease.keep();
      },
    ],
    [1, async () => void lease.signal],
  ];
  if (!client.direct) steps.push([3, () => client.clock.sleep(random.integer(500, 30_000), undefined)]);
  return steps;
}

async function renew({ around: { journal }, client, operation }: Scene, lease: Lease): Promise<void> {
  if (lease.status !== "open") return;
  const isHolding = lease.holdsUntilMs !== undefined;
  try {
    const isHeld = await lease.renew();
    if (isHolding) journal.count(isHeld ? "leases renewed" : "leases that lost their slots");
  } catch (error) {
    if (!(error instanceof RateLimiterUnavailable)) throw error;
    if (client.faults === 0) journal.violation(`${operation.name} could not renew, though nothing failed`);
    journal.count("renewals that failed");
  }
}

/** Whether the caller forgets its lease: it is never closed. One that is kept must be. */
export function isForgotten({ around: { profile, journal }, random }: Scene, lease: Lease): boolean {
  if (profile.slots === undefined || kept.has(lease) || !random.chance(0.12)) return false;
  journal.count("leases forgotten");
  return true;
}

const SLOT_CODES: readonly string[] = ["adjust_concurrent", "top_up_concurrent", "hold_too_long"];

/** Whether a caller has to expect this in a world with slots. */
export function isOfSlots({ around: { profile, journal } }: Scene, error: unknown): boolean {
  if (profile.slots === undefined || !(error instanceof ValidationError) || !SLOT_CODES.includes(error.code))
    return false;
  journal.count(`told ${error.code}`);
  return true;
}
