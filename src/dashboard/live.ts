import { createParser } from "eventsource-parser";
import { type Api, ApiError } from "./api.ts";
import { keyOf } from "./bucket-rows.ts";
import { Observable, Topic } from "./observable.ts";
import type {
  Amounts,
  BucketMessage,
  BucketName,
  RefusedMessage,
  RequestsMessage,
  StatusShown,
  ThresholdMessage,
} from "./shapes.ts";

/** The state of the connection. `closed` is final, and `reason` says why. */
interface Connection {
  readonly state: "open" | "retrying" | "closed";
  readonly reason: string;
}

interface StreamOptions {
  readonly api: Api;
  readonly path: string;
  readonly types: readonly string[];
  readonly onState: (connection: Connection) => void;
  readonly onEvent: (name: string, data: unknown) => void;
  /** Called after events were missed: everything has to be read again. */
  readonly onMissed: () => void;
}

/** The service sends at least a comment every 5 s. */
const SILENCE_MAX_MS = 12_000;
const RETRY_MS = 2_000;
const RETRY_MAX_MS = 15_000;

/** Follows the events of a namespace, and connects again by itself, until `stop` or a refusal. */
async function follow(options: StreamOptions, stop: AbortSignal): Promise<void> {
  const seen: Seen = { lastEventId: undefined, retryMs: RETRY_MS, wasOpen: false };
  for (let failures = 0; !stop.aborted; failures++) {
    const outcome = await followOnce(options, seen, stop);
    if (stop.aborted) return;
    if (outcome.kind === "refused") {
      options.onState({ state: "closed", reason: outcome.reason });
      return;
    }
    if (outcome.kind === "ended") failures = 0;
    options.onState({ state: "retrying", reason: outcome.reason });
    // The wait is random, so that open pages do not all come back at the same moment after a restart.
    const waitMs = Math.min(RETRY_MAX_MS, seen.retryMs * 1.5 ** failures) * (0.8 + 0.4 * Math.random());
    await wait(waitMs, stop);
  }
}

interface Seen {
  lastEventId: string | undefined;
  retryMs: number;
  wasOpen: boolean;
}

type Outcome = { readonly kind: "ended" | "failed" | "refused"; readonly reason: string };

async function followOnce(options: StreamOptions, seen: Seen, stop: AbortSignal): Promise<Outcome> {
  const { api, path, types, onState, onEvent, onMissed } = options;
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE_MAX_MS);
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silent.abort(), SILENCE_MAX_MS);
  };
  let isOpen = false;
  try {
    const signal = AbortSignal.any([stop, silent.signal]);
    const answer = await api.events(path, { types: types.join(",") }, seen.lastEventId, signal);
    isOpen = true;
    onState({ state: "open", reason: "" });
    if (seen.wasOpen) onMissed();
    seen.wasOpen = true;
    const parser = createParser({
      onRetry: (ms) => {
        seen.retryMs = ms;
      },
      onEvent: ({ id, event = "message", data }) => {
        if (id !== undefined) seen.lastEventId = id;
        if (event === "gap") onMissed();
        else if (event !== "bye") onEvent(event, JSON.parse(data));
      },
    });
    const decoder = new TextDecoder();
    const reader = answer.body?.getReader();
    for (let part = await reader?.read(); part !== undefined && !part.done; part = await reader?.read()) {
      alive();
      parser.feed(decoder.decode(part.value, { stream: true }));
    }
    return { kind: "ended", reason: "The service closed the connection." };
  } catch (error) {
    if (silent.signal.aborted) return { kind: isOpen ? "ended" : "failed", reason: "No data for 12 s." };
    if (error instanceof ApiError && [400, 401, 403, 404].includes(error.status)) {
      return { kind: "refused", reason: error.message };
    }
    return {
      kind: isOpen ? "ended" : "failed",
      reason: error instanceof ApiError ? error.message : "The connection was lost.",
    };
  } finally {
    clearTimeout(timer);
  }
}

function wait(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** One refusal as the list shows it. */
export interface Refusal extends BucketName {
  /** Counts up, so that a row keeps its place. */
  readonly number: number;
  readonly atMs: number;
  /** The limit with the longest wait. */
  readonly primary: StatusShown;
  /** The requested amounts, by measure. */
  readonly asked: Amounts;
  /** The keys of the buckets that had too little. */
  readonly short: readonly string[];
  /** The number of other limits that had too little. */
  readonly others: number;
  readonly retryAfterMs: number | null;
}

/** A change of configuration; without a name it concerns every entity or resource. */
interface ConfigChange {
  readonly action: string;
  readonly entityId?: string;
  readonly resource?: string;
}

const REFUSALS_MAX = 500;
const THRESHOLDS_MAX = 100;
/** Live requests are told of this time. */
const RATE_MS = 60_000;

/** The requested amounts by measure. A measure that only a total counts has the total's amount, which may be a sum over resources. */
function askedIn({ resource, statuses }: RefusedMessage): Amounts {
  const others = statuses.filter((status) => status.resource !== resource);
  const own = statuses.filter((status) => status.resource === resource);
  return Object.fromEntries([...others, ...own].map(({ counts, requested }) => [counts, requested]));
}

/** The last refusal of a request of the bucket, or of a child for which the bucket had too little; `refusals` are newest first. */
export function lastRefusal(refusals: readonly Refusal[], { entityId, resource }: BucketName): Refusal | undefined {
  const key = keyOf({ entityId, resource });
  return refusals.find((refusal) => keyOf(refusal) === key || refusal.short.includes(key));
}

/** The events of one namespace while the page is open. */
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
  /** Events were missed: read again. */
  readonly missed = new Topic<void>();
  /** The seconds of the last minute that had requests, by when they were told. */
  #seconds: (RequestsMessage & { readonly atMs: number })[] = [];
  #listeningSinceMs = 0;
  /** The service's clock, against that of this machine. */
  #aheadMs = 0;
  #waiting: Refusal[] = [];
  #isDue = false;

  /** Follows the events until the returned function is called. */
  start(api: Api, path: string): () => void {
    const stopping = new AbortController();
    const options: StreamOptions = {
      api,
      path: `${path}/events`,
      types: ["refused", "bucket", "limits-changed", "lease", "threshold", "requests"],
      onState: (connection) => {
        if (connection.state === "open") this.#listeningSinceMs = Date.now();
        this.connection.set(connection);
      },
      onMissed: () => this.missed.publish(),
      onEvent: (name, data) => {
        if (name === "hello") this.#aheadMs = (data as { readonly atMs: number }).atMs - Date.now();
        else if (name === "refused") this.#refused(data as RefusedMessage);
        else if (name === "bucket") this.buckets.publish(data as BucketMessage);
        else if (name === "requests") this.#requested(data as RequestsMessage);
        else if (name === "threshold") this.#reached(data as ThresholdMessage);
        else if (name === "lease") this.leases.publish();
        else if (name === "limits-changed") this.changes.publish(data as ConfigChange);
      },
    };
    void follow(options, stopping.signal);
    return () => stopping.abort();
  }

  /** A reading of the service's clock, as far as it has told it. */
  nowMs(): number {
    return Date.now() + this.#aheadMs;
  }

  /** Requests a second, of the last minute or of as long as the service was listened to. */
  requestRate(nowMs: number): RequestsMessage {
    const recent = this.#seconds.filter(({ atMs }) => atMs > nowMs - RATE_MS);
    const seconds = Math.min(RATE_MS, Math.max(1_000, nowMs - this.#listeningSinceMs)) / 1_000;
    const sum = (of: keyof RequestsMessage) => recent.reduce((all, second) => all + second[of], 0) / seconds;
    return { granted: sum("granted"), refused: sum("refused") };
  }

  #requested({ granted, refused }: RequestsMessage): void {
    const atMs = Date.now();
    this.#seconds = [...this.#seconds.filter((second) => second.atMs > atMs - RATE_MS), { atMs, granted, refused }];
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
    const asked = askedIn(message);
    this.#waiting.unshift({ number, atMs, entityId, resource, primary, asked, short, others, retryAfterMs });
    // Many refusals at once are drawn together.
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
