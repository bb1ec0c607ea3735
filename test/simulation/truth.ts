import type { ConfigScope, LimitsChange, PolicyChange } from "../../src/domain/config/config.ts";
import type { DeletedPart } from "../../src/domain/config/config-change.ts";
import { type Entity, LEVELS_MAX } from "../../src/domain/config/entity.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { AcquireRequest } from "../../src/engine/acquire/request.ts";
import type { CorrectionRequest } from "../../src/engine/acquire/without-lease.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { CorrectionUse, SentCorrection } from "./correction-checks.ts";
import type { AskedBy } from "./most-ledger.ts";
import { ToldSwitches } from "./told-switches.ts";
import {
  correctionParts,
  type Due,
  dueAt,
  isAbove,
  isCorrected,
  isOfSeveral,
  isTooLong,
  isUncounted,
  partsOf,
  withDue,
} from "./truth-charges.ts";
import {
  ALWAYS,
  accessScopes,
  endsAhead,
  endsIn,
  keyOf,
  type Merged,
  NOTHING_SAID,
  resolved,
  type Said,
  type SaidLimits,
  type Scoped,
  type Snapshot,
  type Stint,
  saidAt,
  type Version,
} from "./truth-levels.ts";

/** Instants that the clock of whoever asks may have shown. */
export interface Readings {
  readonly fromMs: number;
  readonly toMs: number;
}

/** How a level stands from an instant on. */
export interface Stage {
  readonly fromMs: number;
  readonly version: Version;
}

/**
 * Configuration as it really is, and as it was: the recorder reports when a change was applied, resolved here once more
 * from the rules of the public API, and compared with what clients go by.
 */
export class Truth {
  readonly #history: Snapshot[];
  readonly #nowMs: () => number;
  readonly #switches = new ToldSwitches();
  readonly #ends: number[] = [];
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
  isToldOff(request: AcquireRequest): boolean {
    return partsOf(request).some(({ entityId, resource }) =>
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
      const saidBy = (key: string) => this.#now.configs.get(key) ?? NOTHING_SAID;
      const at = keys.findIndex((key) => saidBy(key).access !== undefined);
      // What has an end may be over by the clock of whoever asks.
      const isFirm = keys.slice(0, at + 1).every((key) => saidBy(key).accessOverride === undefined);
      if (isFirm && saidBy(keys[at] ?? "").access === "disabled") off.push(keys.slice(0, at + 1));
      id = resolved(this.#now, id, resource, this.#nowMs()).next;
    }
    return off;
  }

  setLimits(scope: ConfigScope, change: LimitsChange, atMs: number): void {
    const { limits = [], inherit = false, appliesTo = "everyone", untilMs, keepOverride } = change;
    const said: SaidLimits = { limits, inherit, isForCallers: appliesTo === "callers" };
    if (untilMs !== undefined) this.#ends.push(untilMs);
    this.#changeLimits(scope, atMs, (before) => {
      if (untilMs !== undefined) return { ...before, override: { ...said, untilMs } };
      return { ...before, ...said, override: keepOverride ? before.override : undefined };
    });
  }

  deleteLimits(scope: ConfigScope, part: DeletedPart, atMs: number): void {
    const nothing = part === "all" ? saidIn(NOTHING_SAID) : {};
    this.#changeLimits(scope, atMs, (before) => ({ ...before, ...nothing, override: undefined }));
  }

  /** A change by a clock that shows an instant: what is over by that is forgotten. */
  #changeLimits(scope: ConfigScope, atMs: number, change: (before: Scoped) => Scoped): void {
    const key = keyOf(scope);
    const before = withoutEnded(this.#now.configs.get(key) ?? NOTHING_SAID, atMs);
    const after = change(before);
    // The same limits in another order are no change.
    if (textOf(before) === textOf(after) && overrideText(before) === overrideText(after)) return;
    this.#tell(scope, before, after, atMs);
  }

  /** A scope says something else, and may have said something else of limits. */
  #tell(scope: ConfigScope, before: Scoped, after: Scoped, atMs: number): void {
    const key = keyOf(scope);
    const isChanged = textOf(before) !== textOf(after) || overrideText(before) !== overrideText(after);
    const last = this.#now.said.get(key);
    this.#say(scope, () => after);
    if (!isChanged) return;
    const history = saidSince(last, { before, after, atMs, rank: this.changes });
    const said = new Map(this.#now.said).set(key, history);
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
      if (!key.startsWith(`plan ${id}\n`)) continue;
      const left = withoutEnded(before, atMs);
      if (left.limits.length === 0 && left.override === undefined) continue;
      const change = { before: left, after: NOTHING_SAID, atMs, rank: this.changes + 1 };
      saidByIt.set(key, saidSince(said.get(key), change));
    }
    this.#history.push({
      ...{ ...this.#now, fromMs: this.#nowMs(), said: saidByIt },
      ...{ plans: new Set([...plans].filter((one) => one !== id)), configs: without(configs, `plan ${id}`) },
    });
  }

  hasPlan(id: string): boolean {
    return this.#now.plans.has(id);
  }

  /** `isSame`: the scope said so before, and nothing was written. */
  setPolicy(
    scope: ConfigScope,
    { access, untilMs, cascade, isSame }: PolicyChange & { readonly isSame?: true },
    atMs: number,
  ): void {
    if (access !== undefined) this.#switches.switched(keyOf(scope));
    if (cascade !== undefined) this.#ownerChanges = this.changes + 1;
    if (isSame) {
      this.#say(scope, (before) => before);
      return;
    }
    const before = withoutEnded(this.#now.configs.get(keyOf(scope)) ?? NOTHING_SAID, atMs);
    const said = access === undefined ? before.access : (access ?? undefined);
    if (untilMs !== undefined) this.#ends.push(untilMs);
    const after = {
      ...before,
      ...(untilMs === undefined || access == null ? { access: said } : {}),
      cascade: cascade === undefined ? before.cascade : (cascade ?? undefined),
      ...(access === undefined ? {} : { accessOverride: access === null ? undefined : until(access, untilMs) }),
    };
    this.#tell(scope, before, after, atMs);
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
    return resolved(this.#now, entityId, resource, this.#nowMs());
  }

  /** The level as it is by a clock that shows an instant. */
  levelBy(entityId: string, resource: string, readingMs: number): Version {
    return resolved(this.#now, entityId, resource, readingMs);
  }

  /** Everything that applied to the level at an instant, and will: as if nothing of it had ended yet, and after each end of it. */
  stagesAt(entityId: string, resource: string, atMs: number): readonly Stage[] {
    const then = this.#history.findLast(({ fromMs }) => fromMs <= atMs) as Snapshot;
    return [Number.NEGATIVE_INFINITY, ...endsIn(then, entityId, resource)].map((fromMs) => ({
      fromMs,
      version: resolved(then, entityId, resource, fromMs),
    }));
  }

  /** The same of now. */
  stages(entityId: string, resource: string): readonly Stage[] {
    return this.stagesAt(entityId, resource, Number.POSITIVE_INFINITY);
  }

  /** The first end that lies ahead of an instant, of all that were ever set; undefined: none does. */
  nextEndMs(atMs: number): number | undefined {
    const ahead = this.#ends.filter((endMs) => endMs > atMs);
    return ahead.length === 0 ? undefined : Math.min(...ahead);
  }

  isEnd(atMs: number): boolean {
    return this.#ends.includes(atMs);
  }

  /**
   * A number that changes when an end passes by, by any clock that is off by at most so much. While clocks may disagree whether it has, it is
   * no number: nothing stays as it was.
   */
  endsPassed(errorMs: number): number {
    const nowMs = this.#nowMs();
    const isNear = (endMs: number) => Math.abs(endMs - nowMs) < errorMs;
    return this.#ends.some(isNear) ? Number.NaN : this.#ends.filter((endMs) => endMs <= nowMs).length;
  }

  /** The limits of a bucket as they are now: on a resource, or (an asterisk) over all of them. */
  limitsOf(entityId: string, resource: string): readonly Limit[] {
    return bucketIn(this.level(entityId, resource), resource).limits;
  }

  /** The end that makes something else of the limits of a bucket, the first one after a reading; undefined: none does. */
  limitsEndMs(entityId: string, resource: string, readingMs: number): number | undefined {
    const ofBucket = (atMs: number) =>
      JSON.stringify(bucketIn(this.levelBy(entityId, resource, atMs), resource).limits);
    const ahead = endsIn(this.#now, entityId, resource).filter((endMs) => endMs > readingMs);
    return ahead.find((endMs) => ofBucket(endMs) !== ofBucket(readingMs));
  }

  /** The limits that a bucket has, or had at some time since then, each with the instant of the last change that led to them. */
  limitsSince(
    entityId: string,
    resource: string,
    sinceMs: number,
    readings: Readings,
  ): readonly Omit<AskedBy, "asOfMs">[] {
    return this.#snapshotsSince(sinceMs).flatMap((then) => {
      const instants = instantsIn(then, entityId, resource, { ...readings, toMs: Number.POSITIVE_INFINITY });
      const stages = instants.map((atMs) => bucketIn(resolved(then, entityId, resource, atMs), resource));
      const isRead = (_: Merged, i: number) => (instants[i] ?? 0) <= readings.toMs;
      return stages.filter(isRead).map(({ limits, changes }, i) => ({
        ...{ limits, changedMs: changes.at(-1)?.fromMs },
        later: stages.slice(i + 1).map((one) => one.limits),
      }));
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
    const nowMs = this.#nowMs();
    return this.#anyDisabled(entityId, resource, Number.POSITIVE_INFINITY, { fromMs: nowMs, toMs: nowMs });
  }

  /** Whether claims are those of a client that read each level of the request at some time since then, by what its clock shows. */
  explains(request: AcquireRequest, claims: readonly Claim[], sinceMs: number, readings: Readings): boolean {
    const parts = partsOf(request);
    const isInOrder = !isOfSeveral(request);
    const claimAt = ({ entityId, resource }: Due, at: number) => {
      const isOwn = ({ bucket }: Claim) => bucket.entityId === entityId && bucket.resource === resource;
      return isInOrder ? claims[at] : claims.find(isOwn);
    };
    const inPart = (i: number, due: readonly Due[]): boolean => {
      const part = parts[i];
      if (part === undefined) {
        return due.length === claims.length && due.every((one, at) => isMet(one, claimAt(one, at)));
      }
      const walk = (id: string | undefined, below: readonly string[], before: readonly Due[]): boolean => {
        // Of moves at different times a circle may be made up: each of its entities is asked once.
        if (id === undefined || below.includes(id)) return inPart(i + 1, before);
        return this.#versions(id, part.resource, sinceMs, readings).some((version) => {
          // A client that knows that it is switched off does not ask.
          if ((below.length === 0 ? version.access : version.accessAbove) === "disabled" || isTorn(version))
            return false;
          const after = withDue(before, dueAt(part, id, version, below.length > 0));
          return after.every((one, at) => isOf(one, claimAt(one, at))) && walk(version.next, [...below, id], after);
        });
      };
      return walk(part.entityId, [], due);
    };
    return inPart(0, []);
  }

  /** Whether what was sent to charge or give back without a lease is that of a client that read each level at some time since then. */
  explainsCorrection(
    use: CorrectionUse,
    request: CorrectionRequest,
    sent: readonly SentCorrection[],
    sinceMs: number,
    readings: Readings,
  ): boolean {
    const parts = correctionParts(request);
    const inPart = (i: number, due: readonly Due[]): boolean => {
      const part = parts[i];
      if (part === undefined) return isCorrected(due, sent, use);
      const walk = (id: string | undefined, below: readonly string[], before: readonly Due[]): boolean => {
        if (id === undefined || below.includes(id)) return inPart(i + 1, before);
        return this.#versions(id, part.resource, sinceMs, readings).some((version) => {
          if (isTorn(version)) return false;
          return walk(version.next, [...below, id], withDue(before, dueAt(part, id, version, below.length > 0)));
        });
      };
      return walk(part.entityId, [], due);
    };
    return inPart(0, []);
  }

  /** Whether the request is wrong by the limits of some moment since then: unknown measures, more than there can be, or for too long. */
  refuses(request: AcquireRequest, sinceMs: number, readings: Readings): boolean {
    const parts = partsOf(request);
    const { holdMs = 0 } = request;
    return parts.some((part) => {
      const walk = (id: string | undefined, path: readonly string[], counting: readonly Due[]): boolean => {
        if (id === undefined || path.includes(id)) return isUncounted(part, counting);
        return this.#versions(id, part.resource, sinceMs, readings).some((version) => {
          if (isTorn(version) || isAbove(parts, part, version, path.length > 0)) return true;
          const due = dueAt(part, id, version, path.length > 0);
          if (isTooLong(holdMs, due)) return true;
          return walk(version.next, [...path, id], [...counting, ...due]);
        });
      };
      return walk(part.entityId, [], []);
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
  disables(request: AcquireRequest, sinceMs: number, readings: Readings): boolean {
    return partsOf(request).some((part) => this.#anyDisabled(part.entityId, part.resource, sinceMs, readings));
  }

  #anyDisabled(entityId: string, resource: string, sinceMs: number, readings: Readings): boolean {
    // Of moves at different times a circle may be made up; it is not followed for ever.
    const above = (id: string | undefined, depth: number): boolean =>
      id !== undefined &&
      depth < LEVELS_MAX &&
      this.#versions(id, resource, sinceMs, readings).some(
        ({ accessAbove, next }) => accessAbove === "disabled" || above(next, depth + 1),
      );
    return this.#versions(entityId, resource, sinceMs, readings).some(
      ({ access, next }) => access === "disabled" || above(next, 1),
    );
  }

  #say(scope: ConfigScope, change: (before: Scoped) => Scoped): void {
    const configs = new Map(this.#now.configs);
    const key = keyOf(scope);
    configs.set(key, change(configs.get(key) ?? NOTHING_SAID));
    this.#history.push({ ...this.#now, fromMs: this.#nowMs(), configs });
  }

  #versions(entityId: string, resource: string, sinceMs: number, readings: Readings): Version[] {
    return this.#snapshotsSince(sinceMs).flatMap((then) =>
      instantsIn(then, entityId, resource, readings).map((atMs) => resolved(then, entityId, resource, atMs)),
    );
  }

  /** Those that were configuration at some time since then, the latest first. */
  #snapshotsSince(sinceMs: number): readonly Snapshot[] {
    const first = this.#history.findLastIndex(({ fromMs }) => fromMs < sinceMs);
    return this.#history.slice(Math.max(0, first)).toReversed();
  }

  get #now(): Snapshot {
    return this.#history.at(-1) as Snapshot;
  }
}

/** The readings by which a level stands differently, of those that a clock may have shown. */
function instantsIn(then: Snapshot, entityId: string, resource: string, { fromMs, toMs }: Readings): readonly number[] {
  return [fromMs, ...endsIn(then, entityId, resource).filter((endMs) => endMs > fromMs && endMs <= toMs)];
}

interface SaidChange {
  readonly before: Scoped;
  readonly after: Scoped;
  readonly atMs: number;
  readonly rank: number;
}

/** What a scope has said, with a change of it: an end that lay ahead is taken out, and one that lies ahead now is put behind it. */
function saidSince(said: readonly Said[] | undefined, { before, after, atMs, rank }: SaidChange): readonly Said[] {
  const [was, is] = [saidAt(before, atMs), saidAt(after, atMs)];
  const isRunning = before.override !== undefined && said !== undefined && endsAhead(said, atMs);
  const known = (isRunning ? said.slice(0, -1) : said) ?? [{ ...saidIn(was), ...ALWAYS }];
  const { override } = after;
  const hasEnd = override !== undefined && orderedText(override) !== orderedText(after);
  const end = hasEnd ? { ...saidIn(after), fromMs: override.untilMs, rank: 0, isEnd: true as const } : undefined;
  // Who went through an end that is taken out here hears that the limits are back.
  const isSameEnd = !isRunning || (end !== undefined && isSameEnding(kept(known, end).at(-1), said.at(-1)));
  const begun =
    orderedText(was) === orderedText(is) && isSameEnd ? known : kept(known, { ...saidIn(is), fromMs: atMs, rank });
  return end === undefined ? begun : kept(begun, end);
}

function isSameEnding(one: Said | undefined, other: Said | undefined): boolean {
  if (one === undefined || other === undefined) return false;
  return one.fromMs === other.fromMs && orderedText(one) === orderedText(other);
}

function withoutEnded({ override, accessOverride, ...rest }: Scoped, atMs: number): Scoped {
  const isOver = (one: { readonly untilMs: number } | undefined) => one === undefined || atMs >= one.untilMs;
  return {
    ...rest,
    ...{ override: isOver(override) ? undefined : override },
    ...{ accessOverride: isOver(accessOverride) ? undefined : accessOverride },
  };
}

function until(access: NonNullable<Scoped["access"]>, untilMs: number | undefined): Scoped["accessOverride"] {
  return untilMs === undefined ? undefined : { access, untilMs };
}

/** At most eight changes are kept, by instants that grow, with what was before them. */
function kept<One extends { readonly fromMs: number; readonly rank: number; readonly isEnd?: true }>(
  known: readonly One[],
  next: One,
): readonly One[] {
  const fromMs = Math.max(next.fromMs, (known.at(-1)?.fromMs ?? 0) + 1);
  return [...known, { ...next, fromMs }].slice(-9).map((one, i) => {
    if (i > 0) return one;
    const { isEnd: _, ...first } = one;
    return { ...(first as One), ...ALWAYS };
  });
}

function saidIn({ limits, inherit, isForCallers }: SaidLimits): SaidLimits {
  return { limits, inherit, isForCallers };
}

function overrideText({ override }: Scoped): string {
  return override === undefined ? "" : `${textOf(override)} ${override.untilMs}`;
}

function orderedText({ limits, inherit, isForCallers }: SaidLimits): string {
  return JSON.stringify([limits, inherit, isForCallers]);
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
