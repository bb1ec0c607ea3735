import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { AlsoPart } from "../../src/domain/charge/amounts.ts";
import { measureIn, measuresOf, type Tokens } from "../../src/domain/charge/amounts.ts";
import { Limit, TOKENS_MAX } from "../../src/domain/limits/limit.ts";
import { ValidationError } from "../../src/domain/names/errors.ts";
import type { Outcome } from "../../src/engine/acquire/acquiring.ts";
import type { PolicyScope } from "../../src/engine/acquire/policies.ts";
import type { AcquireRequest } from "../../src/engine/acquire/request.ts";
import type { Lease } from "../../src/engine/lease/lease.ts";
import type { Refusal } from "../../src/engine/refusal/refusal.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { capacityMost } from "../kit/model-terms.ts";
import {
  checkClosed,
  checkEnd,
  checkGranted,
  checkNamed,
  checkNever,
  checkRejected,
  checkUntouched,
} from "./checks.ts";
import { drawEnd, drawPart } from "./ends.ts";
import { settleWithTotals, work, workStep } from "./lease-work.ts";
import { drawOptions, drawPlan, withTotals } from "./level-stories.ts";
import type { Operation } from "./operation.ts";
import { drawLimits, LIMIT_NAMES, type Profile } from "./profile.ts";
import { BodyFailed, type Scene, type Story } from "./scene.ts";
import { drawHoldMs } from "./slot-profile.ts";
import { isForgotten } from "./slot-work.ts";
import type { Readings } from "./truth.ts";

/** Takes, works, and closes the lease in one of the ways there are. */
export const holdLease: Story = (scene) => holdLeaseWhile(scene, () => Promise.resolve());

/** The same, while something else happens to what was taken from. */
export async function holdLeaseWhile(scene: Scene, happens: () => Promise<void>): Promise<void> {
  const lease = await granted(scene, drawRequest(scene));
  await happens();
  if (lease === undefined) return;
  await work(scene, lease);
  const { random } = scene;
  if (isForgotten(scene, lease)) return;
  // Something may still be on its way when the lease is closed.
  const late = random.chance(0.25) ? workStep(scene, lease) : undefined;
  scene.operation.isClosing = true;
  const { measures, levels } = scene.around.profile;
  const isTotalled = (measures !== undefined || levels !== undefined) && random.chance(0.3);
  if (isTotalled) await settleWithTotals(scene, lease);
  await random.pick([
    () => lease.settle(),
    () => lease.rollback(),
    () => lease[Symbol.asyncDispose](),
    () => Promise.all([lease.rollback(), lease.rollback(), lease.settle()]),
  ])();
  await late;
  checkClosed(scene);
}

export const holdLeaseInBody: Story = async (scene) => {
  const { client, random } = scene;
  const fails = random.chance(0.3);
  const request = drawRequest(scene);
  asks(scene, request);
  let body: Promise<void> | undefined;
  try {
    await client.limiter.withLease(request, (lease) => {
      checkGranted(scene, lease);
      body = work(scene, lease).then(() => {
        scene.operation.isClosing = true;
        if (fails) throw new BodyFailed();
      });
      return body;
    });
  } catch (error) {
    if (body === undefined) checkRejected(scene, request, error);
    throw error;
  } finally {
    // An aborted body goes on behind the caller's back.
    await body?.catch(() => {});
    if (body === undefined) checkUntouched(scene);
    else checkClosed(scene);
  }
};

/** Asks synchronously, where the client can. */
export const holdLeaseSync: Story = async (scene) => {
  const { client } = scene;
  if (!client.sync) return holdLease(scene);
  const { wait: _, ...request } = drawRequest(scene);
  asks(scene, request);
  let outcome: Outcome;
  try {
    outcome = client.limiter.tryAcquireSync(request);
  } catch (error) {
    checkRejected(scene, request, error);
    throw error;
  }
  if (!outcome.ok) return checkUntouched(scene);
  checkGranted(scene, outcome.lease);
  await work(scene, outcome.lease);
  scene.operation.isClosing = true;
  await outcome.lease.settle();
  checkClosed(scene);
};

/** Takes all there is: whoever does that finds whatever was minted. */
export const takeAllThereIs: Story = async (scene) => {
  const { client, random } = scene;
  const { entityId, resource } = drawRequest(scene);
  const consume: Record<string, number> = {};
  for (const { counts, available } of await client.limiter.available({ entityId, resource })) {
    consume[counts] = Math.max(0, Math.min(available, consume[counts] ?? available));
  }
  const own = ofChain(scene, entityId, resource, consume);
  // Another may have changed the limits meanwhile, so that none of those that were seen is left.
  if (Object.keys(own).length === 0) return;
  const lease = await granted(scene, { entityId, resource, consume: own });
  if (lease === undefined) return;
  await (random.chance(0.7) ? lease.settle() : lease.rollback());
  checkClosed(scene);
};

/** Refused, it comes again when it was told to; when nobody came between, it must be let in. */
export const askAgain: Story = async (scene) => {
  const { client, operation, random, around } = scene;
  const { limits: _, ...request } = drawRequest(scene, { wait: false });
  asks(scene, request);
  const before = disturbed(scene);
  let callsBefore = operation.itemCalls;
  let first = await client.limiter.tryAcquire(request);
  if (!first.ok) checkUntouched(scene);
  // Slots come back when a lease is settled: who wants to be refused by them forgets it.
  const forgets = around.profile.slots !== undefined && random.chance(0.6);
  for (let more = random.integer(0, 5); more > 0 && first.ok; more--) {
    if (!forgets) await first.lease.settle();
    asks(scene, request);
    callsBefore = operation.itemCalls;
    first = await client.limiter.tryAcquire(request);
  }
  const { claims, asked } = operation;
  const by = limitsSeen(operation);
  if (first.ok) return first.lease.rollback();
  if (asked === 0) return;
  // What a process has seen of an item, it remembers: then it was told of how things stood before.
  const isRemembered = client.protocol !== undefined && operation.itemCalls === callsBefore;
  checkNever(scene, first);
  checkEnd(scene, first);
  // Seldom longer: the whole world waits with it.
  if (first.retryAfterMs > (random.chance(0.2) ? 100_000_000 : 7_200_000)) return;
  const dueMs = client.clock.now() + first.retryAfterMs;
  await client.clock.sleep(first.retryAfterMs, undefined);
  // A millisecond later another window may have begun.
  const windows = operation.sights.some(({ limits }) => limits.some(({ schedule }) => schedule !== undefined));
  const inTime = windows ? client.clock.now() === dueMs && first.retryAfterMs > 1 : client.clock.now() >= dueMs;
  const { steppedBackMs } = client.clock;
  asks(scene, request);
  const second = await client.limiter.tryAcquire(request);
  around.journal.count(`${second.ok ? "" : "not "}granted when told, ${first.primary.kind}`);
  if (second.ok) return second.lease.rollback();
  // An older claim goes by the limits on the bucket, until it has read its own again.
  const alike = isAlike(claims, operation.claims) && limitsSeen(operation) === by;
  // On conditional writes, a clock that was corrected while it asked was not there yet.
  const isCorrected =
    client.protocol !== undefined && (client.clock.now() < dueMs || client.clock.steppedBackMs !== steppedBackMs);
  if (isRemembered || isCorrected || !inTime || !alike || operation.faults > 0 || disturbed(scene) !== before) return;
  around.journal.violation(
    `${operation.name} was refused again ${first.retryAfterMs} ms later, as told, though nobody took: ` +
      JSON.stringify(second.primary),
  );
};

/** Takes until it is refused, gives everything back, and must be let in again: what it remembers of a refusal is over. */
export const giveBackAndAsk: Story = async (scene) => {
  const { client, operation, around } = scene;
  const { limits: _, ...request } = drawRequest(scene, { wait: false });
  asks(scene, request);
  const before = disturbed(scene);
  const { steppedBackMs } = client.clock;
  const leases: Lease[] = [];
  const plans: (readonly Claim[])[] = [];
  let refused = false;
  while (!refused && leases.length < 8) {
    asks(scene, request);
    const outcome = await client.limiter.tryAcquire(request);
    plans.push(operation.claims);
    if (outcome.ok) leases.push(outcome.lease);
    else refused = true;
  }
  for (const lease of leases) await lease.rollback();
  const charged = leases.length > 0 && leases.every(({ degraded }) => degraded === false);
  if (!refused || !charged) return;
  asks(scene, request);
  const again = await client.limiter.tryAcquire(request);
  around.journal.count(again.ok ? "granted after giving back" : "not granted after giving back");
  if (again.ok) return again.lease.rollback();
  await askOnceMore(scene, request);
  // What was taken under other limits may have no room under these, or not belong there: a debt is forgiven, a period over.
  const alike = plans.every((claims) => isAlike(claims, operation.claims));
  if (!alike || operation.faults > 0 || disturbed(scene) !== before) return;
  // To a clock that was put back less has dripped in.
  if (client.clock.steppedBackMs !== steppedBackMs) return;
  if (again.primary.available < 0 || isShortAsWhole(scene, again.primary, request.leavePercent)) return;
  around.journal.violation(`${operation.name} was refused what it had given back: ${JSON.stringify(again.primary)}`);
};

/** One shard may have granted what the bucket as a whole does not hold, or owes: given back, it pays the debt of another. */
function isShortAsWhole({ client, around }: Scene, status: Refusal["primary"], leavePercent = 0): boolean {
  const { entityId, resource, limit, capacity, requested } = status;
  const held = around.mosts.sharedMilli(bucketKey(entityId, resource).id, limit, client.clock.now());
  return held !== undefined && held < BigInt(requested * 1_000 + Math.ceil(capacity * leavePercent * 10));
}

/** Where another process gave it back, this one may remember for a second that it was not there; no longer. */
async function askOnceMore({ client }: Scene, request: AcquireRequest): Promise<void> {
  if (client.protocol === undefined || client.direct) return;
  await client.clock.sleep(REMEMBERED_MS, undefined);
  const outcome = await client.limiter.tryAcquire(request);
  if (outcome.ok) await outcome.lease.rollback();
}

/** A little longer than any process on conditional writes remembers a refusal. */
const REMEMBERED_MS = 1_010;

/** Changes limits at one of the four levels, or takes them away. */
export const changeLimits: Story = async ({ client, random, around }) => {
  const { limiter } = client;
  const { profile, truth, journal } = around;
  const limits = drawLimits(random, profile);
  if (truth.hadBefore(limits)) journal.count("limits that come back");
  const entityId = random.pick(profile.entities);
  const resource = random.pick(profile.resources);
  const at = random.chance(0.5) ? { resource } : {};
  const how = { ...drawOptions(random, profile), ...drawEnd(random, client, around) };
  const part = drawPart(random, profile);
  await random.weighted<() => Promise<unknown>>([
    [3, () => limiter.setSystemDefaults(limits, how)],
    [3, () => limiter.setResourceDefaults(resource, limits, how)],
    [3, () => limiter.setLimits(entityId, limits, { ...at, ...how })],
    [1, () => limiter.deleteResourceDefaults(resource, part)],
    [2, () => limiter.deleteLimits(entityId, { ...at, ...part })],
  ])();
};

/** Moves an entity, changes whether it cascades, deletes it or makes it again. */
export const changeEntities: Story = async ({ client: { limiter }, random, around: { profile } }) => {
  const id = random.pick(profile.entities);
  const parentId = random.pick([null, ...profile.entities.filter((one) => one !== id)]);
  await random.weighted<() => Promise<unknown>>([
    [4, () => limiter.updateEntity(id, { cascade: random.chance(0.7) })],
    [4, () => limiter.updateEntity(id, { parentId })],
    [1, () => limiter.deleteEntity(id)],
    [
      3,
      () => {
        const plan = drawPlan(random, profile);
        return limiter.createEntity({ id, cascade: true, ...plan, ...(parentId === null ? {} : { parentId }) });
      },
    ],
  ])();
};

/** Changes who is let through, and who is charged. */
export const changePolicies: Story = async ({ client, random, around }) => {
  const { limiter } = client;
  const { profile, truth } = around;
  const entityId = random.pick(profile.entities);
  const resource = random.pick(profile.resources);
  const where = random.weighted<PolicyScope>([
    [3, { entityId, resource }],
    [2, { entityId }],
    [1, { resource }],
  ]);
  const switches = (access: Parameters<typeof limiter.setAccess>[1]) => async () => {
    const told = truth.switching(where);
    const { untilMs } = drawEnd(random, client, around);
    await limiter.setAccess(where, access, access === "inherit" || untilMs === undefined ? {} : { untilMs });
    told();
  };
  await random.weighted<() => Promise<unknown>>([
    [2, switches("disabled")],
    [1, switches("bypass")],
    [1, switches("enforce")],
    [3, switches("inherit")],
    [1, () => limiter.setCascade(where, random.chance(0.6))],
    [1, () => limiter.setCascade(where, "inherit")],
  ])();
};

/** Buys, or begins anew; with a key that somebody may have used before. */
export const operate: Story = async ({ client: { limiter }, random, around: { profile, truth } }) => {
  const entityId = random.pick(profile.entities);
  const resource = random.pick(withTotals(profile));
  const names = truth.limitsOf(entityId, resource).map(({ name }) => name);
  if (names.length === 0) return;
  const some = names.filter(() => random.chance(0.7));
  const key = random.chance(0.6) ? { idempotencyKey: `key-${random.integer(1, 3)}` } : {};
  const bought = some.map((name) => [name, random.integer(0, random.pick([5, 40, 400]))] as const);
  const amounts = bought.length === 0 ? { [names[0] as string]: 0 } : Object.fromEntries(bought);
  const limits = random.chance(0.5) ? { limits: some } : {};
  const isTopUp = random.chance(0.7);
  const act = isTopUp
    ? () => limiter.topUp({ entityId, resource, amounts, ...key })
    : () => limiter.resetBucket({ entityId, resource, ...limits, ...key });
  const asked = JSON.stringify(isTopUp ? { amounts } : limits);
  const others = askedBefore(truth, `${entityId}/${resource} ${key.idempotencyKey}`, asked);
  try {
    await act();
    // Whoever is not sure that it came through does it again.
    if (random.chance(0.3)) await act();
  } catch (error) {
    // A key is refused only where something else was asked with it before.
    const isReused = error instanceof ValidationError && error.code === "idempotency_key_reused";
    if (!isReused || key.idempotencyKey === undefined || !others()) throw error;
  }
};

const ASKED = new WeakMap<object, Map<string, Set<string>>>();

/** Notes what is asked with a key in a world; answers whether something else was. */
function askedBefore(world: object, key: string, asked: string): () => boolean {
  const known = ASKED.get(world) ?? new Map<string, Set<string>>();
  ASKED.set(world, known);
  const all = known.get(key) ?? new Set<string>();
  known.set(key, all.add(asked));
  return () => all.size > 1;
}

/** A request is made now. */
export function asks({ client, operation, around }: Scene, request: AcquireRequest): void {
  operation.request = request;
  operation.asks(around.clock.now(), client.clock);
}

async function granted(scene: Scene, request: AcquireRequest): Promise<Lease | undefined> {
  const { limiter } = scene.client;
  asks(scene, request);
  const stillDisabled = watchDisabled(scene, request);
  try {
    const outcome = scene.random.chance(0.5)
      ? await limiter.tryAcquire(request)
      : { ok: true as const, lease: await limiter.acquire(request) };
    if (stillDisabled() && !mayBeHeard(scene, outcome)) {
      scene.around.journal.violation(`${scene.operation.name} was answered by what is disabled`);
    }
    if (!outcome.ok) {
      checkUntouched(scene);
      // Who waited is told how things stand at the end of it.
      if (request.wait === undefined && scene.operation.asked > 0) {
        checkNamed(scene, outcome);
        checkNever(scene, outcome);
        checkEnd(scene, outcome);
      }
      return undefined;
    }
    checkGranted(scene, outcome.lease);
    return outcome.lease;
  } catch (error) {
    checkUntouched(scene);
    checkRejected(scene, request, error);
    throw error;
  }
}

/**
 * What a request may hear although it is switched off. Never that it is granted, but in an outage. Refusals grant nothing: a process
 * that hears of switches by its buckets may refuse by what it last saw of them, or as its time is over.
 */
function mayBeHeard({ client }: Scene, outcome: Outcome): boolean {
  if (outcome.ok) return outcome.lease.degraded !== false;
  return client.hidden || outcome.statuses.some(({ asOfMs }) => asOfMs !== undefined);
}

/** Tells, later, whether something that is asked for has been disabled all the time, for somebody who hears of it. */
function watchDisabled({ client, around: { truth, errorMs } }: Scene, request: AcquireRequest): () => boolean {
  const { changes } = truth;
  const ends = truth.endsPassed(errorMs());
  // On conditional writes who was told that the switch counts may rely on it, in every process.
  const isOff = () =>
    client.hidden
      ? client.protocol !== undefined && truth.isToldOff(request)
      : truth.disables(request, Number.POSITIVE_INFINITY, readingOf(client));
  const wasOff = isOff();
  return () => wasOff && isOff() && truth.changes === changes && truth.endsPassed(errorMs()) === ends;
}

/** What its clock shows. */
export function readingOf({ clock }: Scene["client"]): Readings {
  const nowMs = clock.now();
  return { fromMs: nowMs, toMs: nowMs };
}

export function drawRequest({ client, random, around, signal }: Scene, options = { wait: true }): AcquireRequest {
  const { profile, truth } = around;
  const entityId = random.pick(profile.entities);
  const resource = random.pick(profile.resources);
  const given = profile.limitsGiven && random.chance(0.5) ? drawLimits(random, profile) : undefined;
  const limits = given ?? truth.limitsOf(entityId, resource);
  const others = profile.resources.filter((name) => name !== resource && random.chance(0.3));
  const drawn = (known: readonly Limit[], name: string) => {
    if (profile.measures === undefined && profile.levels === undefined) return drawConsume(random, known, profile);
    return drawMeasured(random, known, truth.chain(entityId, name), profile);
  };
  const also = others.map((name) => [name, drawn(truth.limitsOf(entityId, name), name) ?? {}] as const);
  const ofSeveral = (): AlsoPart[] => [
    ...also.map(([name, tokens]) => ({ resource: name, consume: tokens })),
    ...profile.entities.flatMap((id) => {
      if (id === entityId || !random.chance(0.4)) return [];
      const name = random.pick(profile.resources);
      const known = truth.limitsOf(id, name);
      const isMeasured = profile.measures !== undefined || profile.levels !== undefined;
      const tokens = isMeasured
        ? drawMeasured(random, known, truth.chain(id, name), profile)
        : drawConsume(random, known, profile);
      return [{ entityId: id, resource: name, ...(tokens === undefined ? {} : { consume: tokens }) }];
    }),
  ];
  const consume = drawn(limits, resource);
  const isOfSeveral = profile.parts !== undefined && given === undefined && random.chance(profile.parts);
  return {
    entityId,
    resource,
    ...(consume === undefined ? {} : { consume }),
    ...(given === undefined ? {} : { limits: given }),
    ...(isOfSeveral ? { also: ofSeveral() } : also.length === 0 ? {} : { also: Object.fromEntries(also) }),
    ...(options.wait && !client.direct && random.chance(0.15) ? { wait: { maxMs: random.integer(0, 20_000) } } : {}),
    ...(random.chance(0.2) ? { atomic: true } : {}),
    ...(profile.floors !== undefined && random.chance(profile.floors) ? { leavePercent: drawLeave(random) } : {}),
    ...(profile.slots !== undefined && random.chance(profile.slots) ? { holdMs: drawHoldMs(random) } : {}),
    ...(signal === undefined ? {} : { signal }),
  };
}

function drawLeave(random: SeededRandom): number {
  return random.pick([0, 1, 10, 25, 50, 50, 90, 99]);
}

/** What is asked for where limits count other measures: also what only a parent counts, how many requests, or nothing. */
function drawMeasured(
  random: SeededRandom,
  own: readonly Limit[],
  chain: readonly Limit[],
  profile: Profile,
): Record<string, number> | undefined {
  if (random.chance(0.1)) return random.pick([{}, undefined]);
  const isOwn = random.chance(0.5) && (profile.levels === undefined || own.length > 0);
  const known = isOwn ? own : [...own, ...chain];
  const consume: Record<string, number> = {};
  for (const [limit, tokens] of Object.entries(drawConsume(random, known, profile))) {
    const measure = measureIn(known, limit);
    consume[measure] = Math.min(tokens, consume[measure] ?? tokens);
  }
  // Mostly one: what is not said.
  if (random.chance(0.7)) delete consume.requests;
  else if (random.chance(0.3)) consume.requests = random.integer(0, 3);
  return consume;
}

function drawConsume(random: SeededRandom, limits: readonly Limit[], profile: Profile): Record<string, number> {
  const { modest: isModest, beyond = 0, nothing = 0 } = profile;
  const known = limits.length === 0 ? LIMIT_NAMES.map((name) => Limit.perMinute(name, 5)) : limits;
  const consume: Record<string, number> = {};
  for (const limit of known) {
    if (!random.chance(0.75)) continue;
    if (isModest && random.chance(0.9)) {
      consume[limit.name] = random.integer(1, Math.ceil(limit.capacity / 50));
      continue;
    }
    // What a soft limit, a quota that was topped up or the largest window has room for is more than the capacity that is
    // written on it.
    const more = limit.soft || limit.shadow || (limit.refillAmount === 0 && random.chance(0.25));
    const most = more ? Math.min(2 * limit.capacity, TOKENS_MAX) : Number(capacityMost(limit) / 1000n);
    consume[limit.name] = drawAmount(random, random.chance(0.3) ? most : limit.capacity);
    if (nothing > 0 && random.chance(nothing)) consume[limit.name] = 0;
    if (beyond > 0 && random.chance(beyond)) consume[limit.name] = drawAbove(random, limit);
  }
  // Nothing may be taken, but something must be named.
  return Object.keys(consume).length === 0 ? { [(known[0] as Limit).name]: 0 } : consume;
}

/** Mostly a small part; sometimes nothing, sometimes everything. */
function drawAmount(random: SeededRandom, capacity: number): number {
  return random.weighted([
    [1, 0],
    [6, random.integer(0, Math.ceil(capacity / 8))],
    [2, random.integer(0, capacity)],
    [1, capacity],
  ]);
}

/** More than a limit holds in any of its windows; mostly a little, so that it fits what was bought. */
function drawAbove(random: SeededRandom, limit: Limit): number {
  const most = Number(capacityMost(limit) / 1000n);
  return Math.min(TOKENS_MAX, most + random.integer(1, random.pick([1, 5, 40, most])));
}

function ofChain({ around }: Scene, entityId: string, resource: string, consume: Record<string, number>): Tokens {
  const measures = measuresOf(around.truth.chain(entityId, resource));
  return Object.fromEntries(Object.entries(consume).filter(([name]) => measures.includes(name)));
}

/** The limits by which an operation was refused. */
function limitsSeen({ sights }: Operation): string {
  return JSON.stringify(
    sights.map(({ limits, take }) => limits.filter(({ name }) => take.some(({ limit }) => limit === name))),
  );
}

/** Whether all that is asked for now was asked for by the same limits then. */
export function isAlike(then: readonly Claim[], now: readonly Claim[]): boolean {
  return now.every(({ set }, i) => set.signature === then[i]?.set.signature);
}

/** How often others came between, so far. */
export function disturbed({ operation, around }: Scene): number {
  return around.disturbances() - operation.disturbances;
}
