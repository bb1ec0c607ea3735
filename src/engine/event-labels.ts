import type { DegradedEvent, RefusedEvent } from "../ports/events.ts";

// What metrics say of events, the same for Prometheus and for OpenTelemetry.

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
