import type { Published } from "../ports/events.ts";
import type { Clock } from "../ports/system.ts";
import { BucketWatch } from "./bucket-watch.ts";
import { EventFeed, type EventFilter, EventStream, type ServiceEvent } from "./event-stream.ts";
import { overloaded, SharedPool, type TokenCount } from "./inflight.ts";
import type { Tenant, Tenants } from "./tenants.ts";
import type { TokenEntry } from "./tokens.ts";

interface StreamRequest {
  readonly namespace: string;
  readonly filter: EventFilter;
  readonly token: TokenEntry | undefined;
  readonly lastEventId: string | null;
  readonly cutOff: (() => void) | undefined;
}

interface FeedsOptions {
  /** Unlike that of any other process. */
  readonly instance: string;
  readonly clock: Clock;
  readonly streamsMax: number;
  readonly tokenCount: TokenCount;
  readonly tenants: () => Tenants;
  /** Every how many seconds all buckets of a namespace are read while somebody watches them. */
  readonly lookSeconds: number;
}

/** The event feed of a tenant, kept while it has streams and for a while after. */
interface TenantFeed {
  readonly tenant: Tenant;
  readonly feed: EventFeed;
  readonly watch: BucketWatch;
  idleSeconds: number;
  /** Requests since the last tick. */
  requests: { granted: number; refused: number };
}

/** The names of the library's channels in streams. Those that only metrics are made of are not there. */
const TYPES: Readonly<Partial<Record<Published[0], string>>> = {
  acquired: "acquired",
  refused: "refused",
  charged: "charged",
  gaveBack: "gave-back",
  unavailable: "unavailable",
  degraded: "degraded",
  limitsChanged: "limits-changed",
  threshold: "threshold",
};

/** How many requests were granted and refused in a second, for a page that needs no more of them. */
const REQUESTS = "requests";

/** Seconds between comments, which show clients that the connection works. */
const COMMENT_SECONDS = 5;

/** How long a feed is kept after its last stream has ended. */
const KEPT_SECONDS = 60;

/** The event streams of a service, a feed for each tenant that somebody listens to. */
export class EventFeeds {
  readonly #options: FeedsOptions;
  /** By namespace. */
  readonly #feeds = new Map<string, TenantFeed>();
  readonly #slots: SharedPool;
  #n = 0;
  #seconds = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: FeedsOptions) {
    this.#options = options;
    this.#slots = new SharedPool(options.streamsMax, options.tokenCount);
  }

  /** Publishes an event of the library, without the cause of an outage: that is for the log. */
  heard([channel, event]: Published): void {
    const type = TYPES[channel];
    const known = type === undefined ? undefined : this.#feeds.get(event.namespace);
    if (type === undefined || known === undefined) return;
    if (channel === "refused") known.requests.refused += 1;
    if (channel === "acquired" && event.role === "entity") known.requests.granted += 1;
    const { cause: _, ...told } = event as typeof event & { cause?: unknown };
    this.#publish(known.feed, type, event.namespace, told);
    const { entityId, resource } = event;
    if (channel !== "refused" && channel !== "limitsChanged" && channel !== "threshold" && resource !== undefined) {
      known.watch.touched(entityId, resource);
    }
  }

  /** Publishes an event of the service itself. */
  tell(namespace: string, type: string, data: object): void {
    const known = this.#feeds.get(namespace);
    if (known !== undefined) this.#publish(known.feed, type, namespace, data);
  }

  open({ namespace, filter, token, lastEventId, cutOff }: StreamRequest): ReadableStream<Uint8Array> {
    const { instance } = this.#options;
    const holder = { token: token?.id, namespace };
    const slot = this.#slots.take(holder);
    if (slot === undefined) throw overloaded("event streams", this.#slots, holder);
    const known = this.#feedOf(namespace);
    const { feed } = known;
    known.idleSeconds = 0;
    const onEnd = () => {
      slot.release();
      feed.streams.delete(stream);
    };
    const stream = new EventStream({ filter, token, instance, onEnd, cutOff });
    const seen = seenBy(lastEventId, instance);
    const missed = seen === undefined || seen > this.#n ? undefined : feed.after(seen);
    // The number of the last event that the client has seen: after another loss of the connection it continues from there.
    const helloN = missed === undefined ? this.#n : (seen as number);
    stream.send(this.#event(helloN, "hello", namespace, { instance }));
    if (missed !== undefined) for (const event of missed) stream.offer(event);
    else if (lastEventId !== null) stream.send(this.#event(this.#n, "gap", namespace, {}));
    feed.streams.add(stream);
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.#tick(), 1_000);
      this.#timer.unref();
    }
    known.watch.look();
    return stream.body;
  }

  /** Ends the streams whose token is no longer good for the namespace. */
  endWhere(isOver: (token: TokenEntry | undefined, namespace: string) => boolean): void {
    for (const { feed, tenant } of this.#feeds.values()) {
      for (const stream of [...feed.streams]) if (isOver(stream.options.token, tenant.name)) stream.end();
    }
  }

  /** Ends the streams of a tenant that was deleted. */
  ended(tenant: Tenant): void {
    const known = this.#feeds.get(tenant.name);
    if (known?.tenant !== tenant) return;
    this.#sayGoodbye(known);
    this.#drop(known);
  }

  /** Says goodbye and ends every stream. */
  close(): void {
    clearInterval(this.#timer);
    for (const known of [...this.#feeds.values()]) {
      this.#sayGoodbye(known);
      this.#drop(known);
    }
  }

  #sayGoodbye({ feed, tenant }: TenantFeed): void {
    for (const stream of [...feed.streams]) {
      stream.send(this.#event(this.#n, "bye", tenant.name, {}));
      stream.end();
    }
  }

  #drop({ tenant }: TenantFeed): void {
    this.#feeds.delete(tenant.name);
    tenant.hasFeed = false;
  }

  #publish(feed: EventFeed, type: string, namespace: string, data: object): void {
    this.#n += 1;
    feed.add(this.#event(this.#n, type, namespace, data));
  }

  #event(n: number, type: string, namespace: string, data: object): ServiceEvent {
    return { n, type, data: { atMs: this.#options.clock.now(), namespace, ...data } };
  }

  #feedOf(namespace: string): TenantFeed {
    const tenant = this.#options.tenants().get(namespace);
    const known = this.#feeds.get(namespace);
    if (known?.tenant === tenant) return known;
    const feed = new EventFeed(this.#n);
    const watch = new BucketWatch({
      limiterOf: () => tenant.readyTools.limiter,
      filters: () =>
        [...feed.streams].map(({ options }) => options.filter).filter(({ types }) => types?.has("bucket") ?? true),
      tell: (bucket) => this.#publish(feed, "bucket", namespace, bucket),
    });
    const made: TenantFeed = { tenant, feed, watch, idleSeconds: 0, requests: { granted: 0, refused: 0 } };
    tenant.hasFeed = true;
    this.#feeds.set(namespace, made);
    return made;
  }

  /** Tells the requests of the last second to streams that name the type. Their number is not theirs: nobody needs them again. */
  #tellRequests(known: TenantFeed): void {
    const { feed, tenant, requests } = known;
    known.requests = { granted: 0, refused: 0 };
    if (requests.granted + requests.refused === 0) return;
    const event = this.#event(this.#n, REQUESTS, tenant.name, requests);
    for (const stream of [...feed.streams]) if (stream.options.filter.types?.has(REQUESTS)) stream.offer(event);
  }

  #tick(): void {
    this.#seconds += 1;
    for (const known of [...this.#feeds.values()]) {
      const { feed, watch } = known;
      known.idleSeconds = feed.streams.size === 0 ? known.idleSeconds + 1 : 0;
      if (known.idleSeconds > KEPT_SECONDS) this.#drop(known);
      if (feed.streams.size === 0) continue;
      this.#tellRequests(known);
      if (this.#seconds % COMMENT_SECONDS === 0) for (const stream of [...feed.streams]) stream.comment();
      if (this.#seconds % this.#options.lookSeconds === 0) watch.look();
      else watch.lookAtTouched();
    }
    if (this.#feeds.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** The number of the last event that a client has seen. Undefined: none of this instance. */
function seenBy(lastEventId: string | null, instance: string): number | undefined {
  if (lastEventId === null || !lastEventId.startsWith(`${instance}-`)) return undefined;
  const n = lastEventId.slice(instance.length + 1);
  return /^\d{1,15}$/.test(n) ? Number(n) : undefined;
}
