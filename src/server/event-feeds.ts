import type { Published } from "../ports/events.ts";
import type { Clock } from "../ports/system.ts";
import { BucketWatch } from "./bucket-watch.ts";
import { EventFeed } from "./event-feed.ts";
import { type EventFilter, EventStream } from "./event-stream.ts";
import { overloaded } from "./inflight.ts";
import { SharedPool, type TokenCount } from "./shared-pool.ts";
import type { Tenant } from "./tenant.ts";
import type { Tenants } from "./tenants.ts";
import type { TokenEntry } from "./token-entry.ts";

/** What opens a stream. */
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

/** What is kept for a tenant while somebody listens to it, and for a while after. */
class TenantFeed {
  readonly tenant: Tenant;
  readonly feed: EventFeed;
  readonly watch: BucketWatch;
  idleSeconds = 0;

  constructor(tenant: Tenant, feed: EventFeed, watch: BucketWatch) {
    this.tenant = tenant;
    this.feed = feed;
    this.watch = watch;
  }
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

/** A sign of life every so many seconds. */
const COMMENT_SECONDS = 5;

/** For how long events are kept after the last stream of a namespace has ended. */
const KEPT_SECONDS = 60;

/** The event streams of a service, a feed for each tenant that somebody listens to. */
export class EventFeeds {
  readonly #options: FeedsOptions;
  readonly #listened = new Set<TenantFeed>();
  readonly #slots: SharedPool;
  #n = 0;
  #seconds = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: FeedsOptions) {
    this.#options = options;
    this.#slots = new SharedPool(options.streamsMax, options.tokenCount);
  }

  get streamCount(): number {
    return this.#slots.count;
  }

  /** An event of the library. What the store said of an outage is for the log. */
  heard([channel, event]: Published): void {
    const type = TYPES[channel];
    const known = type === undefined ? undefined : this.#known(event.namespace);
    if (type === undefined || known === undefined) return;
    const { cause: _, ...told } = event as typeof event & { cause?: unknown };
    this.#publish(known.feed, type, event.namespace, told);
    const { entityId, resource } = event;
    if (channel !== "refused" && channel !== "limitsChanged" && channel !== "threshold" && resource !== undefined) {
      known.watch.touched(entityId, resource);
    }
  }

  /** An event of the service itself. */
  tell(namespace: string, type: string, data: object): void {
    const known = this.#known(namespace);
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
    const frame = (type: string, n: number, data: object) =>
      stream.send({ n, type, data: { atMs: this.#options.clock.now(), namespace, ...data } });
    // A client that loses the connection once more goes on where it was, not here.
    frame("hello", missed === undefined ? this.#n : (seen as number), { instance });
    if (missed !== undefined) for (const event of missed) stream.offer(event);
    else if (lastEventId !== null) frame("gap", this.#n, {});
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
    for (const { feed, tenant } of this.#listened) {
      for (const stream of [...feed.streams]) if (isOver(stream.token, tenant.name)) stream.end();
    }
  }

  /** The tenant is gone: whoever listens to it hears nothing more. */
  ended(tenant: Tenant): void {
    if (!(tenant.feed instanceof TenantFeed)) return;
    this.#sayGoodbye(tenant.feed);
    this.#letGo(tenant.feed);
  }

  /** Says goodbye and ends every stream. */
  close(): void {
    clearInterval(this.#timer);
    for (const known of [...this.#listened]) {
      this.#sayGoodbye(known);
      this.#letGo(known);
    }
  }

  #sayGoodbye({ feed, tenant }: TenantFeed): void {
    for (const stream of [...feed.streams]) {
      stream.send({
        n: this.#n,
        type: "bye",
        data: { atMs: this.#options.clock.now(), namespace: tenant.name },
      });
      stream.end();
    }
  }

  #letGo(known: TenantFeed): void {
    this.#listened.delete(known);
    known.tenant.feed = undefined;
  }

  #known(namespace: string): TenantFeed | undefined {
    const feed = this.#options.tenants().find(namespace)?.feed;
    return feed instanceof TenantFeed ? feed : undefined;
  }

  #publish(feed: EventFeed, type: string, namespace: string, data: object): void {
    this.#n += 1;
    feed.add({ n: this.#n, type, data: { atMs: this.#options.clock.now(), namespace, ...data } });
  }

  #feedOf(namespace: string): TenantFeed {
    const tenant = this.#options.tenants().get(namespace);
    if (tenant.feed instanceof TenantFeed) return tenant.feed;
    const feed = new EventFeed(this.#n);
    const watch = new BucketWatch({
      limiterOf: () => tenant.readyTools.limiter,
      filters: () => [...feed.streams].map(({ filter }) => filter).filter(({ types }) => types?.has("bucket") ?? true),
      tell: (bucket) => this.#publish(feed, "bucket", namespace, bucket),
    });
    const made = new TenantFeed(tenant, feed, watch);
    tenant.feed = made;
    this.#listened.add(made);
    return made;
  }

  #tick(): void {
    this.#seconds += 1;
    for (const known of [...this.#listened]) {
      const { feed, watch } = known;
      known.idleSeconds = feed.streams.size === 0 ? known.idleSeconds + 1 : 0;
      if (known.idleSeconds > KEPT_SECONDS) this.#letGo(known);
      if (feed.streams.size === 0) continue;
      if (this.#seconds % COMMENT_SECONDS === 0) for (const stream of [...feed.streams]) stream.comment();
      if (this.#seconds % this.#options.lookSeconds === 0) watch.look();
      else watch.lookAtTouched();
    }
    if (this.#listened.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** The number of the last event that a client has seen of this instance; undefined where it was another's. */
function seenBy(lastEventId: string | null, instance: string): number | undefined {
  if (lastEventId === null || !lastEventId.startsWith(`${instance}-`)) return undefined;
  const n = lastEventId.slice(instance.length + 1);
  return /^\d{1,15}$/.test(n) ? Number(n) : undefined;
}
