import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Access, LevelConfig, LimitSource, OnUnavailable } from "../../domain/config/config.ts";
import { LEVELS_MAX } from "../../domain/config/entity.ts";
import { changesIn } from "../../domain/config/level-changes.ts";
import { asTotals, TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../../domain/limits/limit-set.ts";
import { mergeError } from "../../domain/limits/merged-limits.ts";
import { BoundedPairs } from "../../domain/names/bounded-map.ts";
import { type Mode, type Steps, waitFor } from "../../domain/steps.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import type { PlacedBucket } from "../../ports/in-place-takes.ts";
import { SharedOrigins } from "./shared-origins.ts";

/** One entity of the chain from the one that asks to its root, as configuration has it; `set` is that of the bucket, whoever asks. */
export interface ChainLink extends PlacedBucket {
  readonly created: boolean;
  /** What this request may take of: all of the set, and of a parent those that are for everyone. */
  readonly limits: readonly Limit[];
  /** The same as a set. */
  readonly charged: LimitSet;
  readonly source: LimitSource;
  /** The level of each limit by name, where levels were added up; absent: all are of `source`. */
  readonly sources: Readonly<Record<string, LimitSource>> | undefined;
  readonly planId: string | undefined;
  readonly access: Access;
  readonly accessSource: LimitSource;
  readonly cascade: boolean;
  readonly cascadeSource: LimitSource;
  readonly parentId: string | undefined;
  /** The parent that is charged too, if any. */
  readonly next: string | undefined;
  readonly onUnavailable: OnUnavailable | undefined;
  readonly generation: number | undefined;
  /** How often configuration had been found stale when this was read. */
  readonly expired: number;
  /** Which read of this cache it was: later ones have higher numbers. */
  readonly readNumber: number;
  /** Whether every change that was answered before the read began is in it. */
  readonly isConsistent: boolean;
  /** The chain of an entity that charges no parent, made once. */
  readonly singleChain: readonly ChainLink[];
  /** The same for a request from below; undefined where it is no other. */
  readonly asParent: ChainLink | undefined;
  /** Its limits over all resources, which every request is charged to; undefined where it has none. */
  readonly totals: ChainLink | undefined;
}

/** How well the limiter remembers stored limits. */
export interface CacheStats {
  /** How often an entity was found in memory, since the limiter was opened. */
  readonly hits: number;
  /** How often an entity had to be read from the store. */
  readonly misses: number;
  /** How many entities are remembered. The number is bounded. */
  readonly size: number;
  /** How long each is remembered, in ms. */
  readonly ttlMs: number;
}

/** How configuration is to be read: as the store likes, or with every change that was answered before. */
export type HowRead = "any" | "consistent";

/** How a level is to be read, and after which of the reads before. */
interface Wanted {
  readonly nowMs: number;
  readonly how: HowRead;
  readonly sinceRead: number;
}

/** When configuration was asked for, and what was known of its age then. */
interface ConfigRead extends Pick<Wanted, "nowMs" | "how"> {
  readonly generation: number | undefined;
  readonly expired: number;
  readonly number: number;
}

/** A read that is under way. */
interface Loading {
  readonly number: number;
  readonly how: HowRead;
  readonly link: Promise<ChainLink>;
}

/**
 * Remembers resolved configuration: for `ttlMs`, bounded, each link read once however many ask at the same time. Where
 * the store can tell that configuration changed it answers `stale`, and `expire` is called.
 */
export class ConfigCache {
  readonly #config: ConfigStore;
  readonly #ttlMs: number;
  readonly #known: BoundedPairs<ChainLink>;
  readonly #sets = new WeakMap<readonly Limit[], LimitSet>();
  readonly #origins = new SharedOrigins();
  readonly #loading = new Map<string, Loading>();
  /** Grows with every `expire`: what was read before, or is being read, may be out of date. */
  #expired = 0;
  #reads = 0;
  #hits = 0;
  #misses = 0;

  constructor(config: ConfigStore, ttlMs: number, linksMax: number) {
    this.#known = new BoundedPairs(linksMax / 2);
    this.#config = config;
    this.#ttlMs = ttlMs;
  }

  /** The number of the last read that was begun. */
  get reads(): number {
    return this.#reads;
  }

  /** The chain if every link of it is remembered. */
  chainKnown(entityId: string, resource: string, nowMs: number): readonly ChainLink[] | undefined {
    const entity = this.#fresh(entityId, resource, nowMs);
    if (entity === undefined) return undefined;
    if (entity.next === undefined) {
      this.#hits++;
      return entity.singleChain;
    }
    const chain = [entity];
    for (let id: string | undefined = entity.next; id !== undefined; id = nextOf(chain)) {
      const link = this.#fresh(id, resource, nowMs);
      if (link === undefined) return undefined;
      chain.push(link.asParent ?? link);
    }
    this.#hits += chain.length;
    return chain;
  }

  /** The chain as it was last read, however long ago: for an outage, in which nothing else can be known of it. */
  lastKnown(entityId: string, resource: string): readonly ChainLink[] | undefined {
    const chain: ChainLink[] = [];
    for (let id: string | undefined = entityId; id !== undefined; id = nextOf(chain)) {
      const link = this.#known.get(resource, id);
      if (link === undefined) return undefined;
      chain.push(chain.length === 0 ? link : (link.asParent ?? link));
    }
    return chain;
  }

  /** An entity that is remembered, charges no parent, has no totals and goes by its limits: what nearly every request is about. */
  singleLink(entityId: string, resource: string, nowMs: number): ChainLink | undefined {
    const link = this.#fresh(entityId, resource, nowMs);
    if (link === undefined || link.next !== undefined || link.access !== "enforce" || link.totals !== undefined) {
      return undefined;
    }
    this.#hits++;
    return link;
  }

  /** `sinceRead`: what was read up to then, or is being read, does not suffice. */
  *chain(
    entityId: string,
    resource: string,
    nowMs: number,
    mode: Mode,
    how: HowRead,
    sinceRead = 0,
  ): Steps<ChainLink[]> {
    const chain: ChainLink[] = [];
    for (let id: string | undefined = entityId; id !== undefined; id = nextOf(chain)) {
      let link = this.#fresh(id, resource, nowMs);
      if (link === undefined || (how === "consistent" && !isJustRead(link, sinceRead))) {
        link =
          mode === "sync"
            ? this.#loadSync(id, resource, nowMs)
            : yield* waitFor(this.#load(id, resource, { nowMs, how, sinceRead }));
      }
      chain.push(chain.length === 0 ? link : (link.asParent ?? link));
    }
    return chain;
  }

  /** Configuration has changed, of these levels or of all: it is read again, unless another request has done so since. */
  expire(links?: readonly Pick<ChainLink, "bucket" | "readNumber">[]): void {
    if (links === undefined) {
      this.#expired++;
      this.#loading.clear();
      return;
    }
    for (const { bucket, readNumber } of links) {
      const { id, entityId, resource } = bucket;
      const underWay = this.#loading.get(id);
      if (underWay?.how === "any" || (underWay?.number ?? 0) <= readNumber) this.#loading.delete(id);
      const known = this.#known.get(resource, entityId);
      if (known === undefined || known.readNumber > readNumber) continue;
      this.#known.set(resource, entityId, { ...known, expired: -1 });
    }
  }

  /** Forgets everything. */
  clear(): void {
    this.expire();
    this.#known.clear();
  }

  stats(): CacheStats {
    return { hits: this.#hits, misses: this.#misses, size: this.#known.size, ttlMs: this.#ttlMs };
  }

  #fresh(entityId: string, resource: string, nowMs: number): ChainLink | undefined {
    if (this.#ttlMs === 0) return undefined;
    const link = this.#known.get(resource, entityId);
    if (link === undefined || link.expired !== this.#expired) return undefined;
    const ageMs = nowMs - link.origin.asOfMs;
    // A clock that went back must not keep configuration alive for longer than its time.
    return ageMs >= 0 && ageMs < this.#ttlMs ? link : this.#renewed(link, nowMs);
  }

  /**
   * The link as a reading of now would answer it, where the store counts changes and had none since; only the plainest. Not where only
   * an answer of the store tells of changes: who is refused by what is remembered asks for none.
   */
  #renewed(link: ChainLink, nowMs: number): ChainLink | undefined {
    if (this.#config.resolveSync === undefined) return undefined;
    if (link.generation === undefined || link.totals !== undefined || link.asParent !== undefined) return undefined;
    if (link.generation !== this.#config.generation()) return undefined;
    const singleChain = [undefined as unknown as ChainLink];
    const origin = this.#origins.shared({ ...link.origin, asOfMs: nowMs });
    const renewed: ChainLink = { ...link, origin, singleChain };
    singleChain[0] = renewed;
    this.#known.set(link.bucket.resource, link.bucket.entityId, renewed);
    return renewed;
  }

  #loadSync(entityId: string, resource: string, nowMs: number): ChainLink {
    const resolve = this.#config.resolveSync;
    if (resolve === undefined) throw new TypeError("This store cannot resolve limits synchronously; use tryAcquire.");
    const read = this.#beginRead(nowMs, "consistent");
    return this.#remember(bucketKey(entityId, resource), resolve.call(this.#config, entityId, resource), read);
  }

  #load(entityId: string, resource: string, wanted: Wanted): MaybePromise<ChainLink> {
    const { nowMs, how, sinceRead } = wanted;
    const bucket = bucketKey(entityId, resource);
    const underWay = this.#loading.get(bucket.id);
    if (underWay !== undefined && underWay.number > sinceRead && (how === "any" || underWay.how === how)) {
      return underWay.link;
    }
    const read = this.#beginRead(nowMs, how);
    const resolved =
      how === "any" ? this.#config.resolve(entityId, resource) : this.#config.resolve(entityId, resource, "consistent");
    if (!(resolved instanceof Promise)) return this.#remember(bucket, resolved, read);
    const link = resolved
      .then((config) => {
        // Levels that conflicted may have been mended while the answer was on its way.
        if (config.problem === undefined || this.#config.generation() === read.generation) {
          return this.#remember(bucket, config, read);
        }
        done();
        return this.#load(entityId, resource, wanted);
      })
      .finally(() => done());
    const loading: Loading = { number: read.number, how, link };
    const done = () => {
      if (this.#loading.get(bucket.id) === loading) this.#loading.delete(bucket.id);
    };
    this.#loading.set(bucket.id, loading);
    return link;
  }

  #beginRead(nowMs: number, how: HowRead): ConfigRead {
    return { nowMs, generation: this.#config.generation(), expired: this.#expired, number: ++this.#reads, how };
  }

  /** One set for all buckets that got the same list: a store in memory hands out the one it holds. */
  #setOf(limits: readonly Limit[]): LimitSet {
    let set = this.#sets.get(limits);
    if (set === undefined) {
      set = limitSet(limits);
      this.#sets.set(limits, set);
    }
    return set;
  }

  #remember(bucket: BucketKey, config: LevelConfig, read: ConfigRead): ChainLink {
    const { entityId, resource } = bucket;
    if (config.problem !== undefined) throw mergeError(bucket, config.problem);
    const { expired, number } = read;
    this.#misses++;
    const before = this.#known.get(resource, entityId);
    const link = this.#linkOf(bucket, resource === TOTAL_RESOURCE ? asTotals(config) : config, read, before);
    // An answer that was overtaken by that of a later read is older than it.
    const isLatest = before === undefined || before.readNumber < number;
    if (this.#ttlMs > 0 && expired === this.#expired && isLatest) this.#known.set(resource, entityId, link);
    return link;
  }

  #linkOf(bucket: BucketKey, config: LevelConfig, read: ConfigRead, before: ChainLink | undefined): ChainLink {
    const { nowMs, generation, expired, number, how } = read;
    const isConsistent = how === "consistent" || config.isConsistent === true;
    const found = this.#setOf(config.limits);
    const set = before?.set.signature === found.signature ? before.set : found;
    // Of one place from the beginning: an array that grows takes room for seventeen.
    const singleChain = [undefined as unknown as ChainLink];
    const totals =
      config.totals.length === 0
        ? undefined
        : this.#linkOf(bucketKey(bucket.entityId, TOTAL_RESOURCE), asTotals(config), read, before?.totals);
    const origin: SetOrigin = {
      // As new as this reading, also where nothing changed: limits that another process gave in a request would otherwise
      // stay on the bucket for good, even when that process is gone.
      asOfMs: nowMs,
      generation: generation ?? null,
      ...(config.reading === undefined ? {} : { reading: isConsistent ? config.reading : 0 }),
      ...(OWN.has(config.source) ? { own: true } : {}),
      ...changesIn(config, (limits) => this.#setOf(limits)),
    };
    // What every take looks at comes first, so that it stands together in memory.
    const made: ChainLink = {
      expired,
      origin: this.#origins.shared(origin),
      next: config.cascade ? config.parentId : undefined,
      access: config.access,
      totals,
      created: config.created,
      place: undefined,
      set,
      charged: set,
      generation,
      onUnavailable: config.onUnavailable,
      singleChain,
      bucket,
      limits: set.limits,
      source: config.source,
      sources: config.sources,
      planId: config.planId,
      accessSource: config.accessSource,
      cascade: config.cascade,
      cascadeSource: config.cascadeSource,
      parentId: config.parentId,
      readNumber: number,
      isConsistent,
      asParent: undefined,
    };
    const asParent = this.#asParent(made, config.forEveryone);
    const link = asParent === undefined ? made : { ...made, asParent };
    singleChain[0] = link;
    return link;
  }

  #asParent(link: ChainLink, forEveryone: readonly Limit[] | undefined): ChainLink | undefined {
    if (forEveryone === undefined && link.totals?.asParent === undefined) return undefined;
    const limits = forEveryone ?? link.limits;
    const charged = forEveryone === undefined ? link.charged : this.#setOf(forEveryone);
    return { ...link, limits, charged, totals: link.totals?.asParent ?? link.totals };
  }
}

/** Whether a link was read for a request, with every change that was answered before it. */
export function isJustRead({ isConsistent, readNumber }: ChainLink, sinceRead: number): boolean {
  return isConsistent && readNumber > sinceRead;
}

/** Levels of the entity's own. */
const OWN: ReadonlySet<LimitSource> = new Set(["entity", "entityDefault", "entityTotal"]);

/**
 * The level that comes after a chain, if any. Links are remembered from different times, so an entity may seem to be above its own
 * child where the two changed places in between; each is charged once all the same.
 */
function nextOf(chain: readonly ChainLink[]): string | undefined {
  const next = chain.at(-1)?.next;
  if (next === undefined || chain.length >= LEVELS_MAX) return undefined;
  return chain.some(({ bucket }) => bucket.entityId === next) ? undefined : next;
}
