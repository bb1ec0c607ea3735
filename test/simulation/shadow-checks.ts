import { bucketKey, TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import { type Lease, partsOfLease } from "../../src/engine/lease/lease.ts";
import type { Refusal } from "../../src/engine/refusal/refusal.ts";
import type { Journal } from "./journal.ts";
import { type Operation, shownKey } from "./operation.ts";
import type { Scene } from "./scene.ts";
import { isOfSeveral } from "./truth-charges.ts";

/** A lease names every shadow that it passed by: `tpm` of the entity, `tpm^1` one level up, of totals after an asterisk and a slash. */
export function checkShadowed({ operation, around }: Scene, lease: Lease): void {
  for (const { entityId, resource, demands } of partsOfLease(lease)) {
    const entities = [...new Set(demands.map(({ bucket }) => bucket.entityId))];
    const due = demands.flatMap(({ bucket, take }) => {
      if (take.length === 0) return [];
      const level = entities.indexOf(bucket.entityId);
      const total = bucket.resource === TOTAL_RESOURCE ? "*/" : "";
      const passed = operation.passed.first(bucket.id);
      return passed.map((name) => `${total}${name}${level === 0 ? "" : `^${level}`}`);
    });
    const told = lease.part({ entityId, resource }).shadowed;
    if (String(told) === String(due)) continue;
    around.journal.violation(`${operation.name} passed by ${due} on ${resource}, and was told ${told}`);
  }
}

/** What is wrong with what is charged of a limit that a settled lease passed by: nothing is, but what was taken of it besides. */
export function passedProblem({ operation }: Scene, bucketId: string, limit: string, net: number): string | undefined {
  const { lease, name, passed } = operation;
  if (lease?.status !== "settled" || net === 0 || !passed.isAll(bucketId, limit)) return undefined;
  if (isShared(operation, bucketId)) return undefined;
  return `${name} passed by ${limit}, but was charged ${net} on ${shownKey(bucketId)}`;
}

/** A shadow is no reason to refuse, and nobody waits for it; where nothing was decided, the wait is that of the request. */
export function checkUnexceeded({ name }: Operation, journal: Journal, { statuses, primary }: Refusal): void {
  const isDecided = statuses.some(({ exceeded }) => exceeded);
  for (const status of statuses) {
    const { limit, shadow, exceeded, retryAfterMs } = status;
    const waits = retryAfterMs > 0 && (isDecided || status !== primary);
    if (shadow && (exceeded || waits))
      journal.violation(`${name} is refused by the shadow ${limit}, for ${retryAfterMs} ms`);
  }
}

/** Whether a bucket is a total, or may be a common parent, of several parts of a request: one of them may have passed by it, and another not. */
export function isShared({ request }: Operation, bucketId: string): boolean {
  if (request?.also === undefined) return false;
  if (isOfSeveral(request)) return true;
  return bucketId.endsWith(bucketKey("", TOTAL_RESOURCE).id);
}
