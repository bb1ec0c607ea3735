import { bucketKey, TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import { measureIn, measureOf, REQUESTS } from "../../src/domain/charge/amounts.ts";
import type { Status } from "../../src/domain/charge/status.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import {
  LimiterError,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
} from "../../src/domain/names/errors.ts";
import type { AcquireRequest } from "../../src/engine/acquire/request.ts";
import { type Lease, type LeasePlace, partsOfLease } from "../../src/engine/lease/lease.ts";
import type { Refusal } from "../../src/engine/refusal/refusal.ts";
import type { AskedOf } from "./most-ledger.ts";
import { type Operation, shownKey } from "./operation.ts";
import { BodyFailed, type Scene } from "./scene.ts";
import { checkShadowed, checkUnexceeded, passedProblem } from "./shadow-checks.ts";
import { isOfSlots } from "./slot-work.ts";
import { beyondAmounts, partsOf } from "./truth-charges.ts";

/** Wrong input, or a world that moved on: what a caller of the public API has to expect in these stories. */
const EXPECTED_CODES = new Set([
  "rate_limit_exceeded",
  "limits_missing",
  "limit_unknown",
  "consume_empty",
  "amount_above_capacity",
  "debt_too_large",
  "lease_closed",
  "entity_not_found",
  "entity_exists",
  "entity_has_children",
  "entity_cycle",
  "parent_not_found",
  "resource_disabled",
  "top_up_too_large",
  "plan_exists",
  "plan_not_found",
  "plan_in_use",
  "limits_zones",
]);

/** Whether the public API may reject with this. */
export function isExpected(scene: Scene, error: unknown): boolean {
  const { client, signal, operation } = scene;
  if (error instanceof BodyFailed) return true;
  if (signal?.aborted && error === signal.reason) return true;
  // A client that never met a fault may not find the store unavailable, unless it took all the time there was.
  if (error instanceof RateLimiterUnavailable) return client.faults > 0 || hasTakenAll(scene);
  if (isOfSlots(scene, error)) return true;
  if (!(error instanceof LimiterError)) return false;
  return EXPECTED_CODES.has(error.code) || (error.code === "amount_invalid" && isBeyondAmounts(operation.request));
}

/** Whether a total that counts all resources of a request as one would have to take more than one amount may be. */
function isBeyondAmounts(request: AcquireRequest | undefined): boolean {
  return request !== undefined && beyondAmounts(partsOf(request)).length > 0;
}

/** Whether an operation lasted as long as one request may, by the true clock or by its own; half, where its clock was put. */
function hasTakenAll({ client, operation, around }: Scene): boolean {
  const spentMs = around.clock.now() - operation.beganMs;
  const seemedMs = client.clock.now() - operation.beganShownMs;
  const patienceMs = Math.floor(client.timeoutMs * (1 - DRIFT));
  const wasPut = seemedMs !== spentMs;
  return Math.max(spentMs, seemedMs) >= patienceMs || (wasPut && spentMs >= patienceMs / 2 - 1);
}

/** Of clocks, with room to spare. */
const DRIFT = 0.001;

/** Whether an acquire may end with this. */
export function checkRejected(scene: Scene, request: AcquireRequest, error: unknown): void {
  const { client, operation, around } = scene;
  const { journal, truth, clock } = around;
  if (error instanceof RateLimiterUnavailable && client.onUnavailable === "allow") {
    journal.violation(`${operation.name} was stopped by an outage: ${error.stack}`);
  }
  if (error instanceof ResourceDisabled) {
    journal.count("requests to disabled resources");
    if (truth.disables(request, client.switchedSinceMs, client.readingsOf(operation))) return;
    journal.violation(`${operation.name} was told that something is disabled: ${error.message}`);
  }
  if (!(error instanceof ValidationError)) return;
  journal.count("requests told off");
  // Nobody is told off by configuration that was; once the store was asked, or configuration had to be read, by what it was then.
  const sinceMs = operation.asked > 0 || client.hidden ? operation.beganMs : clock.now();
  if (truth.refuses(request, sinceMs, client.readingsOf(operation))) return;
  journal.violation(`${operation.name} was told off by old configuration: ${error.message}`);
}

/** A lease was given: every level was charged what was asked of it, once. */
export function checkGranted(scene: Scene, lease: Lease): void {
  const { client, operation, around } = scene;
  operation.lease = lease;
  around.journal.count(lease.degraded === false ? "grants" : "grants in an outage");
  if (lease.degraded !== false) {
    if (client.onUnavailable === "block") around.journal.violation(`${operation.name} was let through in an outage`);
    checkUntouched(scene);
    return;
  }
  checkUncounted(scene);
  checkShadowed(scene, lease);
  for (const place of lease.parts) {
    const { id } = bucketKey(place.entityId, place.resource);
    const claim = operation.claims.find(({ bucket }) => bucket.id === id);
    if (claim === undefined || lease.part(place).bypassed === claim.bypass) continue;
    around.journal.violation(`${operation.name} is${claim.bypass ? " not" : ""} told of a bypass on ${shownKey(id)}`);
  }
  for (const { bucket, take } of operation.claims) {
    for (const { limit, milli } of take) {
      const net = operation.net(bucket.id, limit);
      // Only what an earlier attempt took, and could or may not have given back, may be charged besides.
      const excused = operation.uncertain.has(bucket.id) || operation.gone.has(bucket.id);
      const due = operation.passed.first(bucket.id).includes(limit) ? 0 : milli;
      if (net === due || (net > due && excused)) continue;
      around.journal.violation(
        `${operation.name} was granted ${due} of ${limit} but charged ${net} on ${shownKey(bucket.id)}`,
      );
    }
  }
}

/** No lease was given, or one that charges nothing: everything is as it was, but for what came through unknown. */
export function checkUntouched(scene: Scene): void {
  const { operation, around } = scene;
  checkUncounted(scene);
  for (const { bucketId, limit, net } of operation.nets()) {
    if (net === 0 || operation.uncertain.has(bucketId) || operation.gone.has(bucketId)) continue;
    around.journal.violation(
      `${operation.name} was not granted, but charged ${net} of ${limit} on ${shownKey(bucketId)}`,
    );
  }
}

/** What was asked for a request that was not granted, or under another plan, leaves no trace in usage. */
function checkUncounted({ operation, around }: Scene): void {
  for (const { of } of operation.countedInVain()) {
    const { id } = of.bucket;
    if (operation.uncertain.has(id) || operation.gone.has(id)) continue;
    around.journal.violation(`${operation.name} stays counted in the usage of ${shownKey(id)}, and was not granted`);
  }
}

/** A lease was closed: rolled back, everything is back; settled, every level was charged the same. */
export function checkClosed(scene: Scene): void {
  const { operation, around } = scene;
  const { lease } = operation;
  if (lease === undefined) return;
  around.journal.count(`leases ${lease.status}`);
  for (const { bucketId, limit, net } of operation.nets()) {
    if (operation.uncertain.has(bucketId) || operation.gone.has(bucketId)) continue;
    if (lease.status === "rolledBack") {
      if (net === 0) continue;
      around.journal.violation(
        `${operation.name} was rolled back, but ${net} of ${limit} are gone on ${shownKey(bucketId)}`,
      );
      continue;
    }
    const level = operation.claims.find(({ bucket }) => bucket.id === bucketId);
    if (operation.passed.has(bucketId, limit)) {
      const problem = passedProblem(scene, bucketId, limit, net);
      if (problem !== undefined) around.journal.violation(problem);
      continue;
    }
    // Slots go back when a lease is settled; what else it holds stays.
    const slots = operation.slotsOf(bucketId, limit);
    if (slots === "all" && net !== 0)
      around.journal.violation(
        `${operation.name} was settled, but ${net} slots of ${limit} are held on ${shownKey(bucketId)}`,
      );
    if (slots !== "none" || level?.set.limits.some((one) => one.name === limit && one.holdMs !== undefined)) continue;
    // Under other configuration an earlier attempt may have asked there, and got everything back.
    const charged = level?.set.limits.some(({ name }) => name === limit) ?? false;
    if (net === 0 && !charged) continue;
    const parts = partsOn(lease, bucketId);
    const held = parts.map((part) => heldOn(operation, lease, { ...part, bucketId, limit }));
    const due = held.reduce((sum, { tokens }) => sum + tokens, 0) * 1000;
    const told = held.map(({ place, measure }) => operation.toldMore(place, measure));
    const more = told.reduce((sum, one) => (sum === undefined || one === undefined ? undefined : sum + one), 0);
    const first = level?.take.find((one) => one.limit === limit)?.milli;
    // What its caller was told is one thing, what the lease believes another.
    if (more !== undefined && first !== undefined && net !== first + more * 1000 && isExact(lease)) {
      around.journal.violation(
        `${operation.name} was told of ${first + more * 1000} of ${limit}, but charged ${net} on ${shownKey(bucketId)}`,
      );
    }
    // Where the nearest bucket counts it by slots, what the lease has used is told by those.
    if (held.some(({ bySlots }) => bySlots)) continue;
    if (net === due || held.some(({ nearest }) => operation.uncertain.has(nearest))) continue;
    around.journal.violation(
      `${operation.name} was settled with ${due} of ${limit}, but charged ${net} on ${shownKey(bucketId)}`,
    );
  }
}

/** What was not stored at once is stored when the lease is settled. */
function isExact({ degraded }: Lease): boolean {
  return degraded === false || degraded === PENDING;
}

export const PENDING = "an adjustment is not stored yet";

/** One part of a lease, as far as a bucket is concerned. */
interface LeasedOn extends LeasePlace {
  /** Not the first part of its entity, on a bucket over all resources: its requests are those of the first. */
  readonly isFurther: boolean;
}

/** The parts of a lease that are charged to a bucket: to a total, or a common parent, several. */
function partsOn(lease: Lease, bucketId: string): readonly LeasedOn[] {
  const isTotal = bucketId.endsWith(bucketKey("", TOTAL_RESOURCE).id);
  const all = partsOfLease(lease);
  const parts = all.map(({ entityId, resource, demands }, i) => {
    const isFurther = isTotal && all.slice(0, i).some((before) => before.entityId === entityId);
    return { entityId, resource, demands, isFurther };
  });
  return parts.filter(({ demands }) => demands.some(({ bucket }) => bucket.id === bucketId));
}

/**
 * What a lease says to hold of a limit in one part: by the measure that the limit counts, at the nearest bucket that counts it.
 */
function heldOn(
  operation: Operation,
  lease: Lease,
  { isFurther, bucketId, limit, ...on }: LeasedOn & { readonly bucketId: string; readonly limit: string },
): {
  readonly place: string;
  readonly measure: string;
  readonly tokens: number;
  readonly nearest: string;
  readonly bySlots: boolean;
} {
  const place = bucketKey(on.entityId, on.resource).id;
  const levels = levelsOf(lease, on);
  const measure = measureIn(levels.find(({ bucket }) => bucket.id === bucketId)?.set.limits ?? [], limit);
  if (isFurther && measure === REQUESTS) return { place, measure: "", tokens: 0, nearest: "", bySlots: false };
  const counts = (one: Limit) => measureOf(one) === measure;
  const nearest = nearestOf(operation, levels, measure);
  const tokens = lease.part({ entityId: on.entityId, resource: on.resource }).consumed[measure] ?? 0;
  const id = nearest?.bucket.id ?? "";
  const bySlots = (nearest?.link.charged.limits ?? []).some(
    (one) => counts(one) && (one.holdMs !== undefined || operation.slotsOf(id, one.name) !== "none"),
  );
  return { place, measure, tokens, nearest: id, bySlots };
}

/** The levels of a lease in one part, with the limits that it goes by. */
function levelsOf(lease: Lease, { entityId, resource }: LeasePlace) {
  return partsOfLease(lease).find((part) => part.entityId === entityId && part.resource === resource)?.demands ?? [];
}

/** The level that tells what is held of a measure: the nearest that counts it by a limit that is no shadow; else by one that the lease did not pass by. */
function nearestOf({ passed }: Operation, levels: ReturnType<typeof levelsOf>, measure: string) {
  const counting = levels.map((level) => ({
    level,
    limits: level.link.charged.limits.filter((one) => measureOf(one) === measure),
  }));
  const isTelling = ({ level, limits }: (typeof counting)[number]) =>
    limits.some(({ name, shadow }) => shadow !== true && !passed.has(level.bucket.id, name));
  return (counting.find(isTelling) ?? counting.find(({ limits }) => limits.length > 0))?.level;
}

/** At any moment a lease believes to hold at most what was taken for it, on each of its buckets. */
export function checkBelief(operation: Operation): string | undefined {
  const { lease } = operation;
  if (lease === undefined) return undefined;
  const believed = new Map<string, { readonly bucketId: string; readonly limit: string; tokens: number }>();
  for (const place of lease.parts) {
    for (const [measure, tokens] of Object.entries(lease.part(place).consumed)) {
      const counts = (limit: Limit) => measureOf(limit) === measure;
      const levels = levelsOf(lease, place);
      const nearest = nearestOf(operation, levels, measure);
      // Of a request that another level refuses, what passed by a shadow is undone: then the level of that shadow tells after all.
      const nearer = levels.slice(0, nearest === undefined ? 0 : levels.indexOf(nearest));
      const isCovered = nearer.some(({ bucket, link }) =>
        link.charged.limits.some((limit) => counts(limit) && operation.net(bucket.id, limit.name) >= tokens * 1000),
      );
      if (isCovered && tokens > 0) continue;
      const counting = nearest?.link.charged.limits.filter(counts) ?? [];
      // Slots have no total to come to: what is settled is told by the others.
      const rates = counting.filter(({ holdMs }) => holdMs === undefined);
      for (const { name } of rates.length > 0 ? rates : counting) {
        const bucketId = nearest?.bucket.id ?? "";
        if (operation.passed.has(bucketId, name)) continue;
        const one = believed.get(`${bucketId} ${name}`) ?? { bucketId, limit: name, tokens: 0 };
        one.tokens += tokens;
        believed.set(`${bucketId} ${name}`, one);
      }
    }
  }
  for (const { bucketId, limit, tokens } of believed.values()) {
    const net = operation.net(bucketId, limit);
    // What it has used of slots is told after they went back, too.
    if (lease.status !== "open" && operation.slotsOf(bucketId, limit) !== "none") continue;
    if (tokens * 1000 > net) return `${operation.name} believes to hold ${tokens * 1000} of ${limit}, taken are ${net}`;
  }
  return undefined;
}

/** A refusal names every bucket that the store had too little in, by its entity and its resource: of a total, the asterisk. */
export function checkNamed({ operation, around }: Scene, refusal: Refusal): void {
  const { statuses } = refusal;
  checkUnexceeded(operation, around.journal, refusal);
  for (const { bucket, take } of operation.short) {
    const own = statuses.filter((one) => one.entityId === bucket.entityId && one.resource === bucket.resource);
    const isNamed = own.some(({ limit, exceeded }) => exceeded && take.some((one) => one.limit === limit));
    // As of an earlier moment it may be told otherwise.
    if (isNamed || own.some(({ asOfMs }) => asOfMs !== undefined)) continue;
    around.journal.violation(
      `${operation.name} is refused by ${shownKey(bucket.id)}, and not told: ${JSON.stringify(statuses)}`,
    );
  }
  if (operation.short.some(({ bucket }) => bucket.resource === TOTAL_RESOURCE))
    around.journal.count("refused by totals");
}

/** A wait does not reach past the end of limits that have one: what fits only later is asked again then. */
export function checkEnd(scene: Scene, { statuses, retryAfterMs }: Refusal): void {
  const { client, operation, around } = scene;
  const { truth, journal } = around;
  const isRemembered = statuses.some(({ asOfMs }) => asOfMs !== undefined);
  if (retryAfterMs === Number.POSITIVE_INFINITY || isRemembered || operation.claims.length === 0) return;
  const isKnown = !client.hidden && operation.plannedAfter === truth.changes;
  const ends = operation.claims.flatMap(({ bucket, origin }) => {
    if (origin.given === true || operation.request?.limits !== undefined) return [];
    const told = origin.ends?.find(({ atMs }) => atMs > operation.readingMs)?.atMs;
    return [
      told ?? [],
      (isKnown && truth.limitsEndMs(bucket.entityId, bucket.resource, operation.readingMs)) || [],
    ].flat();
  });
  const endMs = Math.min(Number.POSITIVE_INFINITY, ...ends);
  if (ends.length > 0) journal.count("refused before an end");
  // What was taken below is given back before it is told: time may have passed since it was decided, and a clock may have been set back.
  const fromMs = Math.min(operation.readingMs, client.clock.now());
  if (fromMs + retryAfterMs <= Math.max(endMs, fromMs + 1)) return;
  journal.violation(`${operation.name} was told to wait ${retryAfterMs} ms, and limits end in ${endMs - fromMs}`);
}

/** "Never" is told only of what the bucket can hold in none of its windows, with what was bought; as of when it was seen. */
export function checkNever(scene: Scene, { statuses, retryAfterMs }: Refusal): void {
  const { client, operation, around } = scene;
  // The largest limits may take longer to fill than milliseconds can be counted, which is as good as never.
  if (retryAfterMs < Number.POSITIVE_INFINITY || around.profile.large) return;
  const { journal, mosts } = around;
  journal.count("told never");
  const readingMs = operation.latestReadingMs(client.clock);
  const certain = (status: Status) => {
    const { entityId, resource, limit, requested, asOfMs } = status;
    const ageMs = asOfMs === undefined ? 0 : Math.max(0, readingMs - asOfMs) + client.clock.steppedBackMs;
    const sinceMs = Math.min(operation.askedFromMs, around.clock.now() - ageMs - 1);
    const asked = askedOf(scene, { entityId, resource, limit, tokens: requested });
    return mosts.isNever(asked, "bucket", { sinceMs, readingMs });
  };
  if (statuses.some((status) => status.retryAfterMs === Number.POSITIVE_INFINITY && certain(status))) return;
  journal.violation(`${operation.name} was told never, although everything can fit: ${JSON.stringify(statuses)}`);
}

/** That an amount can never be granted is a caller's mistake only where that is certain now. */
export function checkAbove(scene: Scene, error: unknown): void {
  const { client, operation, around } = scene;
  if (!(error instanceof ValidationError) || error.code !== "amount_above_capacity") return;
  const { journal, mosts } = around;
  journal.count("amounts above a capacity");
  const [, tokens, limit = "", leave = "0", askedBy = "", resource = "", parent] = ABOVE.exec(error.message) ?? [];
  // Of two that wait the one that leaves more may be told off, after the other was asked.
  const leavePercent = BigInt(leave);
  const asked = {
    ...askedOf(scene, { entityId: parent ?? askedBy, resource, limit, tokens: Number(tokens) }),
    leavePercent,
  };
  const when = { sinceMs: operation.askedFromMs, readingMs: operation.latestReadingMs(client.clock) };
  if (mosts.isNever(asked, "bucket and claim", when)) return;
  journal.violation(`${operation.name} was told off, although it can fit: ${error.message}`);
}

const ABOVE =
  /^(\d+) of "(\w+)"(?: with (\d+) % to be left)? for (\S+) on (\S+) can never be granted: (?:its parent (\S+) has)?/;

/** What was asked of one limit, and by which limits: those that were sent, or, from memory, those there are or were. */
function askedOf(
  { client, operation, around }: Scene,
  of: { readonly entityId: string; readonly resource: string; readonly limit: string; readonly tokens: number },
): AskedOf {
  const { entityId, resource, limit, tokens } = of;
  const claim = operation.claims.find(({ bucket }) => bucket.entityId === entityId && bucket.resource === resource);
  const sent =
    claim === undefined
      ? []
      : [
          {
            ...{
              asOfMs: claim.origin.asOfMs,
              limits: claim.set.limits,
              changedMs: claim.origin.changes?.at(-1)?.fromMs,
            },
            later: claim.origin.ends?.map(({ limits }) => limits) ?? [],
          },
        ];
  const bucketId = `${entityId}\n${resource}`;
  const leavePercent = BigInt(operation.request?.leavePercent ?? 0);
  const asked = { bucketId, limit, milli: BigInt(tokens) * 1000n, leavePercent };
  // Where it, or another of its process, read configuration since it sent that, it may go by that or by what was read.
  if (claim !== undefined && !operation.hasRead) return { ...asked, by: sent };
  // Limits of a request count from that request on, and stored ones again from the next request after it: no bucket is newer.
  const latestMs = operation.latestReadingMs(client.clock);
  const { request } = operation;
  const given = request?.entityId === entityId && request.resource === resource ? request.limits : undefined;
  if (given !== undefined)
    return { ...asked, by: [...sent, { limits: given, asOfMs: latestMs, changedMs: undefined, later: [] }] };
  const asOfMs = around.profile.limitsGiven ? latestMs : Number.NEGATIVE_INFINITY;
  // What a lease takes later goes by the limits of when it was taken.
  const askedMs = operation.lease === undefined ? operation.askedFromMs : operation.beganMs;
  const sinceMs = client.hidden ? Number.NEGATIVE_INFINITY : askedMs;
  const stored = around.truth
    .limitsSince(entityId, resource, sinceMs, client.readingsOf(operation))
    .map((one) => ({ ...one, asOfMs }));
  return { ...asked, by: [...sent, ...stored] };
}
