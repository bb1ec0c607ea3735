import { measureOf } from "../../src/domain/charge/amounts.ts";
import type { Outcome } from "../../src/engine/acquire/acquiring.ts";
import type { AcquireRequest } from "../../src/engine/acquire/request.ts";
import type { Lease } from "../../src/engine/lease/lease.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { checkUntouched } from "./checks.ts";
import type { Scene, Story } from "./scene.ts";
import { WORKS } from "./scheduler.ts";
import { asks, disturbed, drawRequest, isAlike } from "./stories.ts";

/** So long may a request sleep at most while everything it asks for is there: the pauses of a store that is asked again. */
const PROMPT_MS = 2_000;

const WAIT_MS = 600_000;

/**
 * Takes until it is refused; then waits, and gives everything back at some moment while the one that waits asks or sleeps. As
 * soon as it is back, the one that waits must be granted: it may not sleep on although its request fits.
 */
export const waitAndGiveBack: Story = async (scene) => {
  const { client, operation, random, around } = scene;
  if (around.profile.floors !== undefined && random.chance(0.5)) return waitInOrder(scene);
  const request = drawLarge(scene);
  asks(scene, request);
  const before = disturbed(scene);
  const { steppedBackMs } = client.clock;
  const leases: Lease[] = [];
  const plans: (readonly Claim[])[] = [];
  let refused: Outcome | undefined;
  while (refused === undefined && leases.length < 8) {
    asks(scene, request);
    const outcome = await client.limiter.tryAcquire(request);
    plans.push(operation.claims);
    if (outcome.ok) leases.push(outcome.lease);
    else refused = outcome;
  }
  const charged = leases.length > 0 && leases.every(({ degraded }) => degraded === false);
  if (refused === undefined || !charged || client.direct) {
    for (const lease of leases) await lease.rollback();
    return;
  }
  const isBeside = client.live.size > 1;
  let grantedMs: number | undefined;
  asks(scene, request);
  const waiting = client.limiter.tryAcquire({ ...request, wait: { maxMs: WAIT_MS } }).then((outcome) => {
    grantedMs = around.clock.now();
    return outcome;
  });
  waiting.catch(() => {});
  for (let turns = random.integer(0, 6); turns > 0; turns--) await around.scheduler.pause(operation.name, WORKS);
  for (const lease of leases) await lease.rollback();
  const backMs = around.clock.now();
  const outcome = await waiting;
  around.journal.count(outcome.ok ? "granted after waiting" : "not granted after waiting");
  if (outcome.ok) await outcome.lease.rollback();
  else checkUntouched(scene);
  const alike = plans.every((claims) => isAlike(claims, operation.claims));
  if (!alike || operation.faults > 0 || disturbed(scene) !== before) return;
  // First come, first served: before another that waits, and has no turn in a world that is not its own, it has none either.
  if (client.clock.steppedBackMs !== steppedBackMs || isBeside) return;
  const sleptMs = (grantedMs ?? backMs) - backMs;
  if (outcome.ok && sleptMs <= PROMPT_MS) return;
  around.journal.violation(`${operation.name} was ${outcome.ok ? "" : "not "}granted ${sleptMs} ms after all was back`);
};

/**
 * Takes all there is; then two wait, the second of which must leave less than the first. It goes first: the first is not granted before
 * it, whatever comes back.
 */
const waitInOrder: Story = async (scene) => {
  const { client, operation, random, around } = scene;
  const request = drawLarge(scene);
  asks(scene, request);
  const first = await client.limiter.tryAcquire(request);
  if (!first.ok) return;
  const isBeside = client.live.size > 1;
  const { waits } = client;
  const served: string[] = [];
  const wait = (who: string, leavePercent: number) => {
    const asked = { ...request, consume: smallest(request), leavePercent, wait: { maxMs: WAIT_MS } };
    asks(scene, asked);
    const waiting = client.limiter.tryAcquire(asked).then((outcome) => {
      if (outcome.ok) served.push(who);
      return outcome;
    });
    waiting.catch(() => {});
    return waiting;
  };
  const both = [wait("the one that leaves more", 50)];
  for (let turns = random.integer(4, 8); turns > 0; turns--) await around.scheduler.pause(operation.name, WORKS);
  both.push(wait("the one that leaves less", 10));
  for (let turns = random.integer(4, 8); turns > 0; turns--) await around.scheduler.pause(operation.name, WORKS);
  // One that still asks, or undoes what it was refused, does not stand in line yet.
  const wereWaiting = served.length === 0 && client.waits === waits + 2;
  await first.lease.rollback();
  const ends = await Promise.allSettled(both);
  for (const end of ends) if (end.status === "fulfilled" && end.value.ok) await end.value.lease.rollback();
  const failed = ends.find((end) => end.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  if (!wereWaiting || isBeside || operation.faults > 0 || served.length < 2) return;
  around.journal.count("served in order");
  if (served[0] !== "the one that leaves less") around.journal.violation(`${operation.name} served first ${served[0]}`);
};

/** One of each that is asked for. */
function smallest({ consume = {} }: AcquireRequest): Record<string, number> {
  return Object.fromEntries(Object.keys(consume).map((measure) => [measure, 1]));
}

/** Large parts of what there is, so that a few of them empty it. */
function drawLarge(scene: Scene): AcquireRequest {
  const { limits: _, also: __, leavePercent: ___, ...request } = drawRequest(scene, { wait: false });
  const { random, around } = scene;
  const hard = around.truth.limitsOf(request.entityId, request.resource).filter(({ soft, shadow }) => !soft && !shadow);
  const consume: Record<string, number> = {};
  for (const limit of hard) {
    const tokens = Math.max(1, Math.floor(limit.capacity / random.pick([1, 2, 4])));
    consume[measureOf(limit)] = Math.min(tokens, consume[measureOf(limit)] ?? tokens);
  }
  return hard.length === 0 ? request : { ...request, consume };
}
