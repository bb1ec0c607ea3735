import type { DegradedEvent, RefusedEvent } from "../ports/events.ts";

// What metrics say of events, the same for Prometheus and for OpenTelemetry.

/** The bounds of histograms, in seconds: of requests and waits, and of leases. */
export const REQUEST_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
export const LEASE_SECONDS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400];

/** Beyond so many names further ones are one: each further value of a label is a further series in what collects them. */
export const NAMES_MAX = 200;

/** The name itself, or `rest` for one that came after too many others. */
export function bounded(known: Set<string>, name: string, rest: string): string {
  if (known.has(name)) return name;
  if (known.size >= NAMES_MAX) return rest;
  known.add(name);
  return name;
}

/** The limit that has to be waited for longest, and how many levels above the entity it stands. */
export function blamed({ statuses, primary }: RefusedEvent): { readonly limit: string; readonly level: string } {
  const levels = [...new Set(statuses.map(({ entityId }) => entityId))];
  return { limit: primary.limit, level: String(Math.max(0, levels.indexOf(primary.entityId))) };
}

export function resultOfRefusal({ shadow }: RefusedEvent): "refused" | "shadow_refused" {
  return shadow ? "shadow_refused" : "refused";
}

/** Reasons are sentences with details in them; as a label a few words are enough. */
export function kindOfReason(reason: DegradedEvent["reason"]): string {
  if (reason.startsWith("the store was unavailable")) return "store_unavailable";
  if (reason.startsWith("counts of refusals")) return "refusals_not_stored";
  if (reason.includes("adjustment")) return "adjustment_not_stored";
  if (reason.includes("give")) return "give_back_not_stored";
  return reason.includes("lease") ? "lease_not_stored" : "other";
}
