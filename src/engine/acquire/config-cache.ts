import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import { type Frozen, type LevelConfig, levelAt, type OnUnavailable } from "../../domain/config/config.ts";
import { asTotals, TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { type LimitSet, limitSet } from "../../domain/limits/limit-set.ts";
import { mergeError } from "../../domain/limits/merged-limits.ts";
import { BoundedPairs } from "../../domain/names/bounded-map.ts";
import { given } from "../../domain/names/given.ts";
import { type Mode, type Steps, waitFor } from "../../domain/steps.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import { type ChainLink, conflictAt, isJustRead, nextOf, ofGeneration } from "./chain-link.ts";
import { LinkOrigins } from "./link-origins.ts";

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

/** `consistent`: the read contains every change that was confirmed before it began. */
export type HowRead = "any" | "consistent";

/** A read that is wanted. A read up to the number `sinceRead` does not suffice. */
interface Wanted {
  readonly nowMs: number;
  readonly how: HowRead;
  readonly sinceRead: number;
}

/** A read that was begun, and the marks by which its age is known. */
interface ConfigRead extends Pick<Wanted, "nowMs" | "how"> {
  readonly generation: number | undefined;
  readonly expired: number;
  readonly number: number;
}

/** The settings of the namespace that requests go by, with the marks of the read that found them. */
export interface ReadSettings extends Pick<ConfigRead, "generation" | "expired" | "number"> {
  readonly onUnavailable: OnUnavailable | undefined;
  readonly frozen: Frozen | undefined;
  readonly atMs: number;
}

interface Loading extends Pick<ConfigRead, "number" | "how" | "generation"> {
  readonly link: Promise<ChainLink>;
}

/**
 * Caches resolved configuration for `ttlMs`, bounded. Requests that need a link at the same time share one read. A store that
 * notices changed configuration answers `stale`, and then `expire` is called. A store that says what changes touched is asked about each
 * link instead: only the links that a change touched are read again.
 */
export class ConfigCache {
  readonly #config: ConfigStore;
  /** The store says what changes touched. */
  readonly #followsChanges: boolean;
  readonly #ttlMs: number;
  readonly #known: BoundedPairs<ChainLink>;
  readonly #sets = new WeakMap<readonly Limit[], LimitSet>();
  readonly #origins = new LinkOrigins();
  readonly #loading = new Map<string, Loading>();
  /** Counts calls of `expire`. Reads that began before the last one may be out of date. */
  #expired = 0;
  #settings: ReadSettings | undefined;
  #reads = 0;
  #hits = 0;
  #misses = 0;

  constructor(config: ConfigStore, ttlMs: number, linksMax: number) {
    this.#known = new BoundedPairs(linksMax / 2);
    this.#config = config;
    this.#followsChanges = config.isUnchanged !== undefined;
    this.#ttlMs = ttlMs;
  }

  /** The settings as the latest read of any level found them, however long ago: for an outage. Undefined: none was read. */
  get lastSettings(): ReadSettings | undefined {
    return this.#settings;
  }

  /** The settings, remembered as long as limits are. If they have to be read, it is together with the limits of this bucket. */
  settings(bucket: Pick<BucketKey, "entityId" | "resource">, nowMs: number): MaybePromise<ReadSettings> {
    const known = this.#settings;
    if (known !== undefined && this.#isFresh(known, nowMs)) return known;
    const link = this.#load(bucket.entityId, bucket.resource, { nowMs, how: "any", sinceRead: 0 });
    const read = () => this.#settings as ReadSettings;
    return link instanceof Promise ? link.then(read) : read();
  }

  #isFresh({ expired, generation, atMs }: ReadSettings, nowMs: number): boolean {
    const ageMs = nowMs - atMs;
    if (this.#ttlMs === 0 || expired !== this.#expired || ageMs < 0 || ageMs >= this.#ttlMs) return false;
    return generation === this.#config.generation();
  }

  /** The number of the last read that was begun. */
  get reads(): number {
    return this.#reads;
  }

  /** The chain, if every link is cached. */
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

  /** The chain as it was last read, however long ago: for an outage. Ends that were known then have come all the same. */
  lastKnown(entityId: string, resource: string, nowMs: number): readonly ChainLink[] | undefined {
    const chain: ChainLink[] = [];
    for (let id: string | undefined = entityId; id !== undefined; id = nextOf(chain)) {
      const link = this.#inForce(this.#known.get(resource, id), nowMs);
      if (link === undefined) return undefined;
      chain.push(chain.length === 0 ? link : (link.asParent ?? link));
    }
    return chain;
  }

  /** The cached link of an entity that charges no parent, has no totals and enforces its limits, as most entities. */
  singleLink(entityId: string, resource: string, nowMs: number): ChainLink | undefined {
    const link = this.#fresh(entityId, resource, nowMs);
    if (link === undefined || link.next !== undefined || link.access !== "enforce" || link.totals !== undefined) {
      return undefined;
    }
    if (link.frozen !== undefined) return undefined;
    this.#hits++;
    return link;
  }

  /** Reads what is not cached. A read up to the number `sinceRead` does not suffice. */
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
        // A read that others began may be of before an end.
        const now = this.#inForce(link, nowMs);
        if (now === undefined) throw conflictAt(link, nowMs);
        link = now;
      }
      chain.push(chain.length === 0 ? link : (link.asParent ?? link));
    }
    return this.#followsChanges ? this.#ofOneGeneration(chain) : chain;
  }

  /** Levels that were read one after the other, with changes of others in between, as of one generation. */
  #ofOneGeneration(chain: ChainLink[]): ChainLink[] {
    const generation = this.#config.generation();
    const isCaughtUp = (link: ChainLink) => link.generation === generation;
    if (chain.every(isCaughtUp) || !chain.every((link) => this.#isUnchanged(link, link.generation))) return chain;
    return chain.map((link) => (isCaughtUp(link) ? link : ofGeneration(link, generation)));
  }

  /** Marks levels as changed, or all: they are read again, unless another request has done so since. */
  expire(links?: readonly Pick<ChainLink, "bucket" | "readNumber">[]): void {
    if (links === undefined) {
      // Every link is compared with the changes whenever it is used.
      if (this.#followsChanges) return;
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

  clear(): void {
    this.#expired++;
    this.#loading.clear();
    this.#known.clear();
  }

  stats(): CacheStats {
    return { hits: this.#hits, misses: this.#misses, size: this.#known.size, ttlMs: this.#ttlMs };
  }

  #fresh(entityId: string, resource: string, nowMs: number): ChainLink | undefined {
    if (this.#ttlMs === 0) return undefined;
    const known = this.#inForce(this.#known.get(resource, entityId), nowMs);
    if (known === undefined || known.expired !== this.#expired) return undefined;
    const link = this.#followsChanges ? this.#caughtUp(known) : known;
    if (link === undefined) return undefined;
    const ageMs = nowMs - link.origin.asOfMs;
    // If the clock went back, the link must not live longer than its time.
    return ageMs >= 0 && ageMs < this.#ttlMs ? link : this.#renewed(link, nowMs);
  }

  /** The link as of the last generation that was seen, if none of the changes since its own touched it. */
  #caughtUp(link: ChainLink): ChainLink | undefined {
    const generation = this.#config.generation();
    if (link.generation === generation) return link;
    if (!this.#isUnchanged(link, link.generation)) return undefined;
    const caughtUp = ofGeneration(link, generation);
    this.#known.set(link.bucket.resource, link.bucket.entityId, caughtUp);
    return caughtUp;
  }

  #isUnchanged({ bucket, planId }: Pick<ChainLink, "bucket" | "planId">, since: number | undefined): boolean {
    const { entityId, resource } = bucket;
    return since !== undefined && this.#config.isUnchanged?.({ entityId, resource, planId }, since) === true;
  }

  /**
   * The link as it is at a reading of the clock: once an override of it has ended, what it leaves is remembered in its place. Undefined, too,
   * where that does not go together: it may have been corrected since it was read.
   */
  #inForce(link: ChainLink | undefined, nowMs: number): ChainLink | undefined {
    if (link === undefined || nowMs < link.untilMs || link.after === undefined) return link;
    const { bucket, origin, generation, expired, readNumber, isConsistent } = link;
    const read = { nowMs: origin.asOfMs, generation, expired, number: readNumber, how: "any" } as const;
    const known = given({ reading: origin.reading, isConsistent: isConsistent ? (true as const) : undefined });
    const level = levelAt(link.after.level, nowMs);
    if (level.problem !== undefined) return undefined;
    const then = this.#linkOf(bucket, { ...level, ...known }, read, link);
    if (this.#known.get(bucket.resource, bucket.entityId) === link) {
      this.#known.set(bucket.resource, bucket.entityId, then);
    }
    return then;
  }

  /**
   * Renews an outdated link without a read, if the store counts changes and had none since. Only for plain links, and only if the count
   * is known synchronously: a request that is refused from memory would never hear of a change.
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
      // A read that began before a change may not have it.
      if (!this.#followsChanges || this.#isUnchanged({ bucket, planId: undefined }, underWay.generation))
        return underWay.link;
    }
    const read = this.#beginRead(nowMs, how);
    const resolved =
      how === "any" ? this.#config.resolve(entityId, resource) : this.#config.resolve(entityId, resource, "consistent");
    if (!(resolved instanceof Promise)) return this.#remember(bucket, resolved, read);
    const link = resolved
      .then((config) => {
        const generation = this.#config.generation();
        // A store that is asked for the first time may have said only now that it counts changes.
        const isNumbered = read.generation !== undefined || generation === undefined;
        // Conflicting levels may have been corrected while the answer was on its way.
        const isCurrent = levelAt(config, read.nowMs).problem === undefined || generation === read.generation;
        if (isNumbered && isCurrent) return this.#remember(bucket, config, read);
        done();
        return this.#load(entityId, resource, wanted);
      })
      .finally(() => done());
    const loading: Loading = { number: read.number, how, generation: read.generation, link };
    const done = () => {
      if (this.#loading.get(bucket.id) === loading) this.#loading.delete(bucket.id);
    };
    this.#loading.set(bucket.id, loading);
    return link;
  }

  #beginRead(nowMs: number, how: HowRead): ConfigRead {
    return { nowMs, generation: this.#config.generation(), expired: this.#expired, number: ++this.#reads, how };
  }

  /** Shares one set among all buckets with the same list: a store in memory returns the list that it holds. */
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
    const { expired, number, nowMs: atMs } = read;
    if (this.#settings === undefined || this.#settings.number < number) {
      const { onUnavailable, frozen } = config;
      const generation = read.generation === undefined ? undefined : (config.generation ?? read.generation);
      this.#settings = { onUnavailable, frozen, expired, number, generation, atMs };
    }
    const now = levelAt(config, read.nowMs);
    if (now.problem !== undefined) throw mergeError(bucket, now.problem);
    this.#misses++;
    const before = this.#known.get(resource, entityId);
    const link = this.#linkOf(bucket, resource === TOTAL_RESOURCE ? asTotals(now) : now, read, before);
    // The answer of a later read may have arrived first.
    const isLatest = before === undefined || before.readNumber < number;
    if (this.#ttlMs > 0 && expired === this.#expired && isLatest) this.#known.set(resource, entityId, link);
    return link;
  }

  #linkOf(bucket: BucketKey, config: LevelConfig, read: ConfigRead, before: ChainLink | undefined): ChainLink {
    const { nowMs, expired, number, how } = read;
    const generation = read.generation === undefined ? undefined : (config.generation ?? read.generation);
    const isConsistent = how === "consistent" || config.isConsistent === true;
    const found = this.#setOf(config.limits);
    const set = before?.set.signature === found.signature ? before.set : found;
    // Made with one element: an array that grows reserves room for seventeen.
    const singleChain = [undefined as unknown as ChainLink];
    const totals =
      config.totals.length === 0
        ? undefined
        : this.#linkOf(bucketKey(bucket.entityId, TOTAL_RESOURCE), asTotals(config), read, before?.totals);
    // The fields that every take reads come first, so that they are adjacent in memory.
    const made: ChainLink = {
      expired,
      origin: this.#origins.of(config, { nowMs, generation, isConsistent }, (limits) => this.#setOf(limits)),
      next: config.cascade ? config.parentId : undefined,
      access: config.access,
      totals,
      created: config.created,
      place: undefined,
      set,
      charged: set,
      generation,
      onUnavailable: config.onUnavailable,
      frozen: config.frozen,
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
      untilMs: config.next?.atMs ?? Number.POSITIVE_INFINITY,
      after: config.next,
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
