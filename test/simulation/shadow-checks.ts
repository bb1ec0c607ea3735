import { TOTAL_RESOURCE } from "../../src/domain/bucket-key.ts";
import type { Status } from "../../src/domain/status.ts";
import { type Lease, partsOfLease } from "../../src/engine/lease.ts";
import type { Journal } from "./journal.ts";
import { type Operation, shownKey } from "./operation.ts";
import type { Scene } from "./scene.ts";

/** A lease names every shadow that it passed by: `tpm` of the entity, `tpm^1` one level up, of totals after an asterisk and a slash. */
export function checkShadowed({ operation, around }: Scene, lease: Lease): void {
  for (const { resource, demands } of partsOfLease(lease)) {
    const entities = [...new Set(demands.map(({ bucket }) => bucket.entityId))];
    const due = demands.flatMap(({ bucket, take }) => {
      if (take.length === 0) return [];
      const level = entities.indexOf(bucket.entityId);
      const total = bucket.resource === TOTAL_RESOURCE ? "*/" : "";
      const passed = operation.passed.first(bucket.id);
      return passed.map((name) => `${total}${name}${level === 0 ? "" : `^${level}`}`);
    });
    const told = lease.resource(resource).shadowed;
    if (String(told) === String(due)) continue;
    around.journal.violation(`${operation.name} passed by ${due} on ${resource}, and was told ${told}`);
  }
}

/** What is wrong with what is charged of a limit that a settled lease passed by: nothing is, but what was taken of it besides. */
export function passedProblem(
  { operation: { lease, name, passed } }: Scene,
  bucketId: string,
  limit: string,
  net: number,
): string | undefined {
  if (lease?.status !== "settled" || net === 0 || !passed.isAll(bucketId, limit)) return undefined;
  return `${name} passed by ${limit}, but was charged ${net} on ${shownKey(bucketId)}`;
}

/** A shadow is no reason to refuse, and nobody waits for it. */
export function checkUnexceeded({ name }: Operation, journal: Journal, statuses: readonly Status[]): void {
  for (const { limit, shadow, exceeded, retryAfterMs } of statuses) {
    if (!shadow || (!exceeded && retryAfterMs === 0)) continue;
    journal.violation(`${name} is refused by the shadow ${limit}, for ${retryAfterMs} ms`);
  }
}
