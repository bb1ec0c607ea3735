import type { RefusedEvent } from "../../ports/events.ts";

// Labels of metrics, the same for Prometheus and OpenTelemetry.

/** The bounds of histograms, in seconds: of requests and waits, and of leases. */
export const REQUEST_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
export const LEASE_SECONDS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400];

/** Each value of a label is one more series, so at most this many namespaces, and resources of each, have labels of their own. */
const NAMES_MAX = 200;

/** At most this many limits of a namespace have labels of their own. */
const LIMITS_MAX = 1_000;

/** The label of all further resources and limits. */
const OTHER = "other";

/** The label of all further namespaces. It is no valid name; `other` is one. */
const OTHER_NAMESPACE = "*";

/** The labels that say where something happened. */
export type At = { readonly resource: string; readonly namespace: string };

/** The names that are labels, bounded for each tenant, so that one cannot use up the names of another. */
export class MetricNames {
  readonly #known = new Map<string, { readonly resources: Set<string>; readonly limits: Set<string> }>();

  at(resource: string, namespace: string): At {
    const shown = this.namespace(namespace);
    return { resource: bounded(this.#of(shown).resources, NAMES_MAX, resource) ? resource : OTHER, namespace: shown };
  }

  namespace(name: string): string {
    if (!this.#known.has(name) && this.#known.size >= NAMES_MAX) return OTHER_NAMESPACE;
    this.#of(name);
    return name;
  }

  limit({ resource, namespace }: At, limit: string): string {
    return bounded(this.#of(namespace).limits, LIMITS_MAX, `${resource} ${limit}`) ? limit : OTHER;
  }

  percent({ resource, namespace }: At, limit: string, percent: number): { limit: string; percent: string } {
    const isKnown = bounded(this.#of(namespace).limits, LIMITS_MAX, `${resource} ${limit} ${percent}`);
    return isKnown ? { limit, percent: String(percent) } : { limit: OTHER, percent: OTHER };
  }

  /** The limit with the longest wait, and its level above the caller. */
  blamed({ statuses, primary }: RefusedEvent, at: At): { readonly limit: string; readonly level: string } {
    const levels = [...new Set(statuses.map(({ entityId }) => entityId))];
    const level = String(Math.max(0, levels.indexOf(primary.entityId)));
    return { limit: this.limit(at, primary.limit), level };
  }

  #of(namespace: string) {
    let known = this.#known.get(namespace);
    if (known === undefined) {
      known = { resources: new Set(), limits: new Set() };
      this.#known.set(namespace, known);
    }
    return known;
  }
}

/** True if the name is one of the first `max`. */
function bounded(known: Set<string>, max: number, name: string): boolean {
  if (known.has(name)) return true;
  if (known.size >= max) return false;
  known.add(name);
  return true;
}

export function resultOfRefusal({ shadow }: RefusedEvent): "refused" | "shadow_refused" {
  return shadow ? "shadow_refused" : "refused";
}
