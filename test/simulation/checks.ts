import { LimiterError, RateLimiterUnavailable, ResourceDisabled, ValidationError } from "../../src/domain/errors.ts";
import { measureIn, measureOf } from "../../src/domain/measures.ts";
import { type Lease, partsOfLease } from "../../src/engine/lease.ts";
import type { Refusal } from "../../src/engine/refusal.ts";
import type { AcquireRequest } from "../../src/engine/request.ts";
import { capacityMost } from "../../src/testing/model-terms.ts";
import { type Operation, shownKey } from "./operation.ts";
import { BodyFailed, type Scene } from "./scene.ts";

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
]);

/** Whether the public API may reject with this. */
export function isExpected({ client, signal }: Scene, error: unknown): boolean {
  if (error instanceof BodyFailed) return true;
  if (signal?.aborted && error === signal.reason) return true;
  // A client that never met a fault may not find the store unavailable.
  if (error instanceof RateLimiterUnavailable) return client.faults > 0;
  return error instanceof LimiterError && EXPECTED_CODES.has(error.code);
}

/** Whether an acquire may end with this. */
export function checkRejected({ client, operation, around }: Scene, request: AcquireRequest, error: unknown): void {
  const { journal, truth, clock } = around;
  if (error instanceof RateLimiterUnavailable && client.onUnavailable === "allow") {
    journal.violation(`${operation.name} was stopped by an outage: ${error.stack}`);
  }
  // A client that cannot see that configuration changed may go by anything it ever was.
  if (error instanceof ResourceDisabled) {
    journal.count("requests to disabled resources");
    if (truth.disables(request, client.hidden ? Number.NEGATIVE_INFINITY : clock.now())) return;
    journal.violation(`${operation.name} was told that something is disabled: ${error.message}`);
  }
  if (client.hidden || !(error instanceof ValidationError)) return;
  journal.count("requests told off");
  // Whoever can tell that configuration changed is not told off by what it was; once the store was asked, by what it was
  // when the store answered.
  if (truth.refuses(request, operation.asked > 0 ? operation.beganMs : clock.now())) return;
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
  for (const { bucket, bypass } of operation.ownClaims()) {
    if (lease.resource(bucket.resource).bypassed === bypass) continue;
    around.journal.violation(`${operation.name} is${bypass ? " not" : ""} told of a bypass on ${shownKey(bucket.id)}`);
  }
  for (const { bucket, take } of operation.claims) {
    for (const { limit, milli } of take) {
      const net = operation.net(bucket.id, limit);
      // Only what an earlier attempt took, and could or may not have given back, may be charged besides.
      const excused = operation.uncertain.has(bucket.id) || operation.gone.has(bucket.id);
      if (net === milli || (net > milli && excused)) continue;
      around.journal.violation(
        `${operation.name} was granted ${milli} of ${limit} but charged ${net} on ${shownKey(bucket.id)}`,
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
export function checkClosed({ operation, around }: Scene): void {
  const { lease } = operation;
  if (lease === undefined) return;
  around.journal.count(`leases ${lease.status}`);
  for (const { bucketId, resource, limit, net } of operation.nets()) {
    if (operation.uncertain.has(bucketId) || operation.gone.has(bucketId)) continue;
    if (lease.status === "rolledBack") {
      if (net === 0) continue;
      around.journal.violation(
        `${operation.name} was rolled back, but ${net} of ${limit} are gone on ${shownKey(bucketId)}`,
      );
      continue;
    }
    const level = operation.claims.find(({ bucket }) => bucket.id === bucketId);
    // Under other configuration an earlier attempt may have asked there, and got everything back.
    const charged = level?.set.limits.some(({ name }) => name === limit) ?? false;
    if (net === 0 && !charged) continue;
    const { measure, nearest } = measuredBy(lease, { bucketId, resource, limit });
    const due = (lease.resource(resource).consumed[measure] ?? 0) * 1000;
    const more = operation.toldMore(resource, measure);
    const first = level?.take.find((one) => one.limit === limit)?.milli;
    // What its caller was told is one thing, what the lease believes another.
    if (more !== undefined && first !== undefined && net !== first + more * 1000 && isExact(lease)) {
      around.journal.violation(
        `${operation.name} was told of ${first + more * 1000} of ${limit}, but charged ${net} on ${shownKey(bucketId)}`,
      );
    }
    if (net === due || operation.uncertain.has(nearest)) continue;
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

/** What a limit counts on a bucket of a lease, and the nearest bucket that counts it: by that one the lease says what it holds. */
function measuredBy(
  lease: Lease,
  { bucketId, resource, limit }: { readonly bucketId: string; readonly resource: string; readonly limit: string },
): { readonly measure: string; readonly nearest: string } {
  const levels = levelsOf(lease, resource);
  const measure = measureIn(levels.find(({ bucket }) => bucket.id === bucketId)?.set.limits ?? [], limit);
  const nearest = levels.find(({ set }) => set.limits.some((one) => measureOf(one) === measure));
  return { measure, nearest: nearest?.bucket.id ?? "" };
}

/** The levels of a lease on one resource, with the limits that it goes by. */
function levelsOf(lease: Lease, resource: string) {
  return partsOfLease(lease).find((part) => part.resource === resource)?.demands ?? [];
}

/** At any moment a lease believes to hold at most what was taken for it, on each of its resources. */
export function checkBelief(operation: Operation): string | undefined {
  const { lease } = operation;
  if (lease === undefined) return undefined;
  for (const resource of lease.resources) {
    for (const [measure, tokens] of Object.entries(lease.resource(resource).consumed)) {
      const nearest = levelsOf(lease, resource).find(({ set }) => set.limits.some((one) => measureOf(one) === measure));
      for (const limit of nearest?.set.limits ?? []) {
        const net = operation.net(nearest?.bucket.id ?? "", limit.name);
        if (measureOf(limit) !== measure || tokens * 1000 <= net) continue;
        return `${operation.name} believes to hold ${tokens * 1000} of ${limit.name}, taken are ${net}`;
      }
    }
  }
  return undefined;
}

/** "Never" is not an answer to an amount that a limit can hold in one of its windows. */
export function checkNever({ operation, around }: Scene, { retryAfterMs }: Refusal): void {
  // The largest limits may take longer to fill than milliseconds can be counted, which is as good as never.
  if (retryAfterMs < Number.POSITIVE_INFINITY || around.profile.large) return;
  around.journal.count("told never");
  const possible = operation.sights.every(({ limits, take, bypass }) =>
    take.every(({ limit: name, milli }) => {
      const limit = limits.find((one) => one.name === name);
      return bypass || limit === undefined || limit.soft || BigInt(milli) <= capacityMost(limit);
    }),
  );
  if (possible)
    around.journal.violation(
      `${operation.name} was told never, although everything can fit: ${JSON.stringify(operation.sights)}`,
    );
}
