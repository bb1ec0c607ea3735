import type { RateLimiter } from "../../src/entry/index.ts";
import { CALLERS, type CallEvent, MODEL } from "./gateway.ts";

/** What a key has been through so far. Tokens are those of answered calls. */
export interface Counts {
  answered: number;
  failed: number;
  refused: number;
  cut: number;
  estimated: number;
  used: number;
}

/** The gateway's own count, to be compared with what the limiter has stored. */
export class Tally {
  readonly byKey = new Map<string, Counts>(CALLERS.map(({ key }) => [key, noCounts()]));
  /** Refusals by the limit that stood in the way, such as "proj-acme tpm". */
  readonly refusedBy = new Map<string, number>();

  add(event: CallEvent): void {
    const counts = this.byKey.get(event.key);
    if (counts === undefined) return;
    counts[event.kind] += 1;
    if (event.kind === "answered") {
      counts.estimated += event.estimate;
      counts.used += event.actual;
    } else if (event.kind === "refused") {
      const limit = `${event.primary.entityId} ${event.primary.limit}`;
      this.refusedBy.set(limit, (this.refusedBy.get(limit) ?? 0) + 1);
    }
  }

  total(): Counts {
    const total = noCounts();
    for (const counts of this.byKey.values()) {
      for (const field of Object.keys(total) as (keyof Counts)[]) total[field] += counts[field];
    }
    return total;
  }
}

export interface Usage {
  readonly requests: number;
  readonly rpm: number;
  readonly tpm: number;
}

/** Usage per entity as the limiter has stored it, in all hours from the one that contains `fromMs`. */
export async function storedUsage(limiter: RateLimiter, fromMs: number): Promise<ReadonlyMap<string, Usage>> {
  const usage = new Map<string, Usage>();
  for await (const snapshot of limiter.usage({ resource: MODEL, window: "hourly", fromMs })) {
    const { requests, rpm, tpm } = usage.get(snapshot.entityId) ?? NO_USAGE;
    usage.set(snapshot.entityId, {
      requests: requests + snapshot.requests,
      rpm: rpm + (snapshot.counters.rpm ?? 0),
      tpm: tpm + (snapshot.counters.tpm ?? 0),
    });
  }
  return usage;
}

/** What came to be between two readings. */
export function usageSince(before: ReadonlyMap<string, Usage>, after: ReadonlyMap<string, Usage>): Map<string, Usage> {
  const since = new Map<string, Usage>();
  for (const [entityId, { requests, rpm, tpm }] of after) {
    const earlier = before.get(entityId) ?? NO_USAGE;
    since.set(entityId, {
      requests: requests - earlier.requests,
      rpm: rpm - earlier.rpm,
      tpm: tpm - earlier.tpm,
    });
  }
  return since;
}

const NO_USAGE: Usage = { requests: 0, rpm: 0, tpm: 0 };

function noCounts(): Counts {
  return { answered: 0, failed: 0, refused: 0, cut: 0, estimated: 0, used: 0 };
}
