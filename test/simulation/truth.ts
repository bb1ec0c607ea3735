import type { ConfigScope, PolicyChange, StoredConfig } from "../../src/domain/config/config.ts";
import { type Entity, LEVELS_MAX } from "../../src/domain/config/entity.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { AcquireRequest } from "../../src/engine/acquire/request.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { AskedBy } from "./most-ledger.ts";
import { ToldSwitches } from "./told-switches.ts";
import { type Due, dueAt, isAbove, isTooLong, isUncounted, partsOf, withDue } from "./truth-charges.ts";
import {
  ALWAYS,
  accessScopes,
  keyOf,
  type Merged,
  NOTHING_SAID,
  resolved,
  type SaidLimits,
  type Scoped,
  type Snapshot,
  type Stint,
  type Version,
} from "./truth-levels.ts";

/**
 * Configuration as it really is, and as it was: the recorder reports when a change was applied, resolved here once more
 * from the rules of the public API, and compared with what clients go by.
 */
export class Truth {
  readonly #history: Snapshot[];
  readonly #nowMs: () => number;
  readonly #switches = new ToldSwitches();
  /** After how many changes entities last moved, or a parent was last charged or not. */
  #ownerChanges = 0;

  /** `order`: whether changes of different levels come one after the other as they were made, or by the clocks of their makers. */
  constructor(nowMs: () => number, order: "as made" | "by clocks") {
    this.#nowMs = nowMs;
    const nothing = {
      order,
      said: new Map(),
      configs: new Map(),
      entities: new Map(),
      plans: new Set<string>(),
      stints: new Map(),
    };
    this.#history = [{ fromMs: Number.NEGATIVE_INFINITY, ...nothing }];
  }

  /** How often anything changed. */
  get changes(): number {
    return this.#history.length;
  }

  /** Somebody switches a scope, and calls what comes back when the answer is there: the switch counts for everybody then. */
  switching({ entityId = "", resource = "" }: { readonly entityId?: string; readonly resource?: string }): () => void {
    const scope = `${entityId}\n${resource}`;
    const times = this.#switches.times(scope);
    return () => this.#switches.told(scope, times, this.changes);
  }

  /** A bucket was made: by a request that had read configuration before, perhaps, and then nothing on it tells of the switch. */
  made({ entityId, resource }: { readonly entityId: string; readonly resource: string }): void {
    this.#switches.made(`${entityId}\n${resource}`);
  }

  /** Whether a request is switched off by what its callers were told to count, and nothing that concerns it changed since. */
  isToldOff({ entityId, ...request }: AcquireRequest): boolean {
    return partsOf({ entityId, ...request }).some(({ resource }) =>
      this.#offBy(entityId, resource).some((scopes) =>
        this.#switches.areTold(scopes, `${entityId}\n${resource}`, this.#ownerChanges),
      ),
    );
  }

  /** The scopes that switch a request off, of each level that does: the one that decides, and the nearer ones. */
  #offBy(entityId: string, resource: string): string[][] {
    const off: string[][] = [];
    let id: string | undefined = entityId;
    for (let depth = 0; id !== undefined && depth < LEVELS_MAX; depth++) {
      const keys = accessScopes(id, resource)
        .slice(0, depth === 0 ? 4 : 2)
        .map(keyOf);
      const at = keys.findIndex((key) => this.#now.configs.get(key)?.access !== undefined);
      if (this.#now.configs.get(keys[at] ?? "")?.access === "disabled") off.push(keys.slice(0, at + 1));
      id = resolved(this.#now, id, resource).next;
    }
    return off;
  }

  setLimits(scope: ConfigScope, stored: Pick<StoredConfig, "limits" | "inherit" | "appliesTo">, atMs: number): void {
    const key = keyOf(scope);
    const before = this.#now.configs.get(key) ?? NOTHING_SAID;
    const { limits, inherit = false, appliesTo = "everyone" } = stored;
    const after: SaidLimits = { limits, inherit, isForCallers: appliesTo === "callers" };
    // The same limits in another order are no change.
    if (textOf(before) === textOf(after)) return;
    this.#say(scope, (said) => ({ ...said, ...after }));
    const known = this.#now.said.get(key) ?? [{ ...saidIn(before), ...ALWAYS }];
    const said = new Map(this.#now.said).set(key, kept(known, { ...after, fromMs: atMs, rank: this.changes }));
    this.#history.push({ ...(this.#history.pop() as Snapshot), said });
  }

  planMade(id: string): void {
    this.#history.push({ ...this.#now, fromMs: this.#nowMs(), plans: new Set([...this.#now.plans, id]) });
  }

  /** It says nothing any more; what it said counts for the time in which entities had it. */
  planDeleted(id: string, atMs: number): void {
    const { plans, configs, said } = this.#now;
    const saidByIt = new Map(said);
    for (const [key, before] of configs) {
      if (!key.startsWith(`plan ${id}\n`) || before.limits.length === 0) continue;
      const known = said.get(key) ?? [{ ...saidIn(before), ...ALWAYS }];
      saidByIt.set(key, kept(known, { ...saidIn(NOTHING_SAID), fromMs: atMs, rank: this.changes + 1 }));
    }
    this.#history.push({
      ...{ ...this.#now, fromMs: this.#nowMs(), said: saidByIt },
      ...{ plans: new Set([...plans].filter((one) => one !== id)), configs: without(configs, `plan ${id}`) },
    });
  }

  hasPlan(id: string): boolean {
    return this.#now.plans.has(id);
  }

  setPolicy(scope: ConfigScope, { access, cascade }: PolicyChange): void {
    if (access !== undefined) this.#switches.switched(keyOf(scope));
    if (cascade !== undefined) this.#ownerChanges = this.changes + 1;
    this.#say(scope, (before) => ({
      ...before,
      access: access === undefined ? before.access : (access ?? undefined),
      cascade: cascade === undefined ? before.cascade : (cascade ?? undefined),
    }));
  }

  setEntity(id: string, entity: Entity | undefined, atMs: number): void {
    this.#ownerChanges = this.changes + 1;
    const entities = new Map(this.#now.entities);
    const stints = new Map(this.#now.stints);
    let { configs, said } = this.#now;
    if (entity === undefined) {
      entities.delete(id);
      stints.delete(id);
      [configs, said] = [without(configs, id), without(said, id)];
    } else {
      const planId = entities.get(id)?.planId;
      entities.set(id, entity);
      const known: readonly Stint[] = stints.get(id) ?? [{ ...ALWAYS, planId }];
      if (planId !== entity.planId)
        stints.set(id, kept(known, { fromMs: atMs, rank: this.changes + 1, planId: entity.planId }));
    }
    this.#history.push({ ...this.#now, fromMs: this.#nowMs(), said, configs, entities, stints });
  }

  /** Whether some scope had these limits once and has others now. */
  hadBefore(limits: readonly Limit[]): boolean {
    const text = JSON.stringify(limits);
    const scopesOf = ({ configs }: Snapshot) => {
      const having = [...configs].filter(([, scoped]) => JSON.stringify(scoped.limits) === text);
      return new Set(having.map(([scope]) => scope));
    };
    const now = scopesOf(this.#now);
    return this.#history.some((then) => [...scopesOf(then)].some((scope) => !now.has(scope)));
  }

  /** The level as it is now. */
  level(entityId: string, resource: string): Version {
    return resolved(this.#now, entityId, resource);
  }

  /** The level as it was at an instant. */
  levelAt(entityId: string, resource: string, atMs: number): Version {
    const then = this.#history.findLast(({ fromMs }) => fromMs <= atMs) as Snapshot;
    return resolved(then, entityId, resource);
  }

  /** The limits of a bucket as they are now: on a resource, or (an asterisk) over all of them. */
  limitsOf(entityId: string, resource: string): readonly Limit[] {
    return bucketIn(this.level(entityId, resource), resource).limits;
  }

  /** The limits that a bucket has, or had at some time since then, each with the instant of the last change that led to them. */
  limitsSince(entityId: string, resource: string, sinceMs: number): readonly Omit<AskedBy, "asOfMs">[] {
    return this.#versions(entityId, resource, sinceMs).map((version) => {
      const { limits, changes } = bucketIn(version, resource);
      return { limits, changedMs: changes.at(-1)?.fromMs };
    });
  }

  /** Whether levels of limits do not go together, of any entity that a request of this one concerns. */
  isTorn(entityId: string, resource: string): boolean {
    let id: string | undefined = entityId;
    for (let depth = 0; id !== undefined && depth < LEVELS_MAX; depth++) {
      const level = this.level(id, resource);
      if (isTorn(level)) return true;
      id = level.next;
    }
    return false;
  }

  /** Whether any level that a request of an entity concerns is switched off now. */
  isDisabled(entityId: string, resource: string): boolean {
    return this.#anyDisabled(entityId, resource, Number.POSITIVE_INFINITY);
  }

  /** Whether claims are those of a client that read each level of the request at some time since then. */
  explains(request: AcquireRequest, claims: readonly Claim[], sinceMs: number): boolean {
    const parts = partsOf(request);
    const inPart = (i: number, due: readonly Due[]): boolean => {
      const part = parts[i];
      if (part === undefined) return due.length === claims.length && due.every((one, at) => isMet(one, claims[at]));
      const walk = (id: string | undefined, below: readonly string[], before: readonly Due[]): boolean => {
        // Of moves at different times a circle may be made up: each of its entities is asked once.
        if (id === undefined || below.includes(id)) return inPart(i + 1, before);
        return this.#versions(id, part.resource, sinceMs).some((version) => {
          // A client that knows that it is switched off does not ask.
          if ((below.length === 0 ? version.access : version.accessAbove) === "disabled" || isTorn(version))
            return false;
          const after = withDue(before, dueAt(part, id, version, below.length > 0));
          return after.every((one, at) => isOf(one, claims[at])) && walk(version.next, [...below, id], after);
        });
      };
      return walk(request.entityId, [], due);
    };
    return inPart(0, []);
  }

  /** Whether the request is wrong by the limits of some moment since then: unknown measures, more than there can be, or for too long. */
  refuses(request: AcquireRequest, sinceMs: number): boolean {
    const parts = partsOf(request);
    const { holdMs = 0 } = request;
    return parts.some((part) => {
      const walk = (id: string | undefined, path: readonly string[], counting: readonly Due[]): boolean => {
        if (id === undefined || path.includes(id)) return isUncounted(part, counting);
        return this.#versions(id, part.resource, sinceMs).some((version) => {
          if (isTorn(version) || isAbove(parts, part, version, path.length > 0)) return true;
          const due = dueAt(part, id, version, path.length > 0);
          if (isTooLong(holdMs, due)) return true;
          return walk(version.next, [...path, id], [...counting, ...due]);
        });
      };
      return walk(request.entityId, [], []);
    });
  }

  /** The limits of every bucket that a request is charged to, the entity's own first. */
  chain(entityId: string, resource: string): readonly Limit[] {
    const limits: Limit[] = [];
    let id: string | undefined = entityId;
    for (let depth = 0; id !== undefined && depth < LEVELS_MAX; depth++) {
      const level = this.level(id, resource);
      for (const { limits: own, forEveryone } of [level.onResource, level.totals]) {
        limits.push(...(depth === 0 ? own : forEveryone));
      }
      id = level.next;
    }
    return limits;
  }

  /** Whether some level of the request was switched off at some moment since then. */
  disables(request: AcquireRequest, sinceMs: number): boolean {
    return partsOf(request).some(({ resource }) => this.#anyDisabled(request.entityId, resource, sinceMs));
  }

  #anyDisabled(entityId: string, resource: string, sinceMs: number): boolean {
    // Of moves at different times a circle may be made up; it is not followed for ever.
    const above = (id: string | undefined, depth: number): boolean =>
      id !== undefined &&
      depth < LEVELS_MAX &&
      this.#versions(id, resource, sinceMs).some(
        ({ accessAbove, next }) => accessAbove === "disabled" || above(next, depth + 1),
      );
    return this.#versions(entityId, resource, sinceMs).some(
      ({ access, next }) => access === "disabled" || above(next, 1),
    );
  }

  #say(scope: ConfigScope, change: (before: Scoped) => Scoped): void {
    const configs = new Map(this.#now.configs);
    const key = keyOf(scope);
    configs.set(key, change(configs.get(key) ?? NOTHING_SAID));
    this.#history.push({ ...this.#now, fromMs: this.#nowMs(), configs });
  }

  #versions(entityId: string, resource: string, sinceMs: number): Version[] {
    const versions: Version[] = [];
    for (let i = this.#history.length - 1; i >= 0; i--) {
      const snapshot = this.#history[i] as Snapshot;
      versions.push(resolved(snapshot, entityId, resource));
      if (snapshot.fromMs < sinceMs) break;
    }
    return versions;
  }

  get #now(): Snapshot {
    return this.#history.at(-1) as Snapshot;
  }
}

/** At most eight changes are kept, by instants that grow, with what was before them. */
function kept<One extends { readonly fromMs: number; readonly rank: number }>(
  known: readonly One[],
  next: One,
): readonly One[] {
  const fromMs = Math.max(next.fromMs, (known.at(-1)?.fromMs ?? 0) + 1);
  return [...known, { ...next, fromMs }].slice(-9).map((one, i) => (i === 0 ? { ...one, ...ALWAYS } : one));
}

function saidIn({ limits, inherit, isForCallers }: SaidLimits): SaidLimits {
  return { limits, inherit, isForCallers };
}

function textOf({ limits, inherit, isForCallers }: SaidLimits): string {
  const byName = limits.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  // Of what says nothing the options do not matter.
  return limits.length === 0 ? "" : JSON.stringify([byName, inherit, isForCallers]);
}

/** All but what belongs to one entity, or to one plan. */
function without<Value>(all: ReadonlyMap<string, Value>, owner: string): ReadonlyMap<string, Value> {
  return new Map([...all].filter(([key]) => !key.startsWith(`${owner}\n`)));
}

function bucketIn({ onResource, totals }: Version, resource: string): Merged {
  return resource === "*" ? totals : onResource;
}

/** Its levels do not go together: whoever reads that does not ask. */
function isTorn({ onResource, totals }: Version): boolean {
  return onResource.isTorn || totals.isTorn;
}

function isOf({ entityId, resource, limits, bypass }: Due, claim: Claim | undefined): boolean {
  if (claim?.bucket.entityId !== entityId || claim.bucket.resource !== resource || claim.bypass !== bypass)
    return false;
  return JSON.stringify(claim.set.limits) === JSON.stringify(limits);
}

function isMet({ take }: Due, claim: Claim | undefined): boolean {
  return JSON.stringify(claim?.take.map(({ limit, milli }) => [limit, milli / 1000])) === JSON.stringify(take);
}
