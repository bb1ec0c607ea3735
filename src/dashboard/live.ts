import type { Api } from "./api.ts";
import { keyOf } from "./bucket-rows.ts";
import { Observable, Topic } from "./observable.ts";
import type { BucketMessage, RefusedMessage, StatusShown, ThresholdMessage } from "./shapes.ts";
import { type Connection, follow } from "./stream.ts";

/** One refusal as the list shows it. */
export interface Refusal {
  /** Counts up, so that a row keeps its place. */
  readonly number: number;
  readonly atMs: number;
  readonly entityId: string;
  readonly resource: string;
  /** The limit that must be waited for longest. */
  readonly primary: StatusShown;
  /** What was asked for, by measure. */
  readonly asked: Readonly<Record<string, number>>;
  /** The buckets that had too little, by their keys. */
  readonly short: readonly string[];
  /** How many others had too little, too. */
  readonly others: number;
  readonly retryAfterMs: number | null;
}

/** A change of configuration; what is absent concerns everybody. */
interface ConfigChange {
  readonly action: string;
  readonly entityId?: string;
  readonly resource?: string;
}

/** More than anybody reads; older ones are forgotten. */
const REFUSALS_MAX = 500;
const THRESHOLDS_MAX = 100;

/** By measure; what only a total counts is that of the total, which may be the sum over several resources. */
function askedIn({ resource, statuses }: RefusedMessage): Readonly<Record<string, number>> {
  const others = statuses.filter((status) => status.resource !== resource);
  const own = statuses.filter((status) => status.resource === resource);
  return Object.fromEntries([...others, ...own].map(({ counts, requested }) => [counts, requested]));
}

/** The last refusal of a bucket's own request, or of one from below for which it had too little. The newest stand first. */
export function lastRefusal(
  refusals: readonly Refusal[],
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
): Refusal | undefined {
  const key = keyOf({ entityId, resource });
  return refusals.find((refusal) => keyOf(refusal) === key || refusal.short.includes(key));
}

/** Everything the page hears of one namespace while it is open. */
export class Live {
  readonly connection = new Observable<Connection>({ state: "retrying", reason: "Connecting." });
  /** Newest first. */
  readonly refusals = new Observable<readonly Refusal[]>([]);
  readonly refusalCount = new Observable(0);
  /** Percentages of limits that were reached, newest first. */
  readonly thresholds = new Observable<readonly ThresholdMessage[]>([]);
  readonly buckets = new Topic<BucketMessage>();
  readonly changes = new Topic<ConfigChange>();
  /** A lease began or ended. */
  readonly leases = new Topic<void>();
  /** What is shown may be old: read it anew. */
  readonly missed = new Topic<void>();
  #waiting: Refusal[] = [];
  #isDue = false;

  /** Follows the events until the returned function is called. */
  start(api: Api, path: string): () => void {
    return follow({
      api,
      path: `${path}/events`,
      types: ["refused", "bucket", "limits-changed", "lease", "threshold"],
      onState: (connection) => this.connection.set(connection),
      onMissed: () => this.missed.publish(),
      onEvent: (name, data) => {
        if (name === "refused") this.#refused(data as RefusedMessage);
        else if (name === "bucket") this.buckets.publish(data as BucketMessage);
        else if (name === "threshold") this.#reached(data as ThresholdMessage);
        else if (name === "lease") this.leases.publish();
        else if (name === "limits-changed") this.changes.publish(data as ConfigChange);
      },
    });
  }

  #reached(message: ThresholdMessage): void {
    this.thresholds.set([message, ...this.thresholds.value].slice(0, THRESHOLDS_MAX));
  }

  #refused(message: RefusedMessage): void {
    const { atMs, entityId, resource, statuses, primary, retryAfterMs } = message;
    const exceeded = statuses.filter((status) => status.exceeded && !status.soft);
    const others = Math.max(0, exceeded.length - 1);
    const short = exceeded.map(keyOf);
    const number = this.refusalCount.value + this.#waiting.length + 1;
    this.#waiting.unshift({
      number,
      atMs,
      entityId,
      resource,
      primary,
      asked: askedIn(message),
      short,
      others,
      retryAfterMs,
    });
    // A storm of refusals is drawn once a frame, not once each.
    if (this.#isDue) return;
    this.#isDue = true;
    setTimeout(() => this.#flush(), 100);
  }

  #flush(): void {
    this.#isDue = false;
    const arrived = this.#waiting;
    this.#waiting = [];
    this.refusals.set([...arrived, ...this.refusals.value].slice(0, REFUSALS_MAX));
    this.refusalCount.set(this.refusalCount.value + arrived.length);
  }
}
