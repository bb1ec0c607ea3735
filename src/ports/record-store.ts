import type { AuditEvent } from "../domain/config/audit.ts";
import type { Steps } from "../domain/steps.ts";
import type { MaybePromise } from "./bucket-store.ts";

/**
 * The columns by which records of each kind are found, beside their keys. All kinds but `namespace` belong to a namespace.
 *
 * | kind | key | is |
 * | --- | --- | --- |
 * | `namespace` | id | a tenant |
 * | `entity`, `plan` | id | |
 * | `config` | `entity` or `plan`, the owner, the resource | what a scope says; an empty owner or resource stands for "any" |
 * | `history` | `entity`, `plan` or `stints`, the owner, the resource | what a scope said over time, or the plans that an entity had |
 * | `owner`, `owned` | owner; piece | who declared what |
 * | `lease`, `leaseKey` | id; idempotency key | |
 * | `refusalLog` | hour, entity, writer | the single refusals that one process kept |
 * | `refusal`, `caller` | hour, entity, resource, writer | what one process counted: refusals; usage of callers beside the buckets |
 */
export interface RecordColumns {
  readonly namespace: { readonly name: string; readonly status: string };
  readonly entity: { readonly parentId: string | undefined; readonly planId: string | undefined };
  readonly plan: NoColumns;
  /** A scope may have a policy and no limits. True with an override, too, which may be over. */
  readonly config: { readonly hasLimits: boolean };
  readonly history: NoColumns;
  readonly owner: NoColumns;
  readonly owned: NoColumns;
  readonly lease: {
    readonly entityId: string;
    readonly resource: string;
    readonly dueAtMs: number | undefined;
    readonly forgottenAtMs: number | undefined;
  };
  readonly leaseKey: { readonly forgottenAtMs: number };
  readonly refusal: NoColumns;
  readonly refusalLog: NoColumns;
  readonly caller: NoColumns;
}

type NoColumns = Readonly<Record<never, never>>;

export type RecordKind = keyof RecordColumns;

export interface RecordKey {
  readonly kind: RecordKind;
  readonly key: readonly string[];
}

export interface StoredRecord extends RecordKey {
  /** As JSON has it. */
  readonly body: unknown;
  /** A number that no other write of any record has: a record that was deleted and written again has another one. */
  readonly version: number;
}

export type RecordPut = {
  readonly [Kind in RecordKind]: {
    readonly kind: Kind;
    readonly key: readonly string[];
    readonly by: RecordColumns[Kind];
    readonly body: unknown;
  };
}[RecordKind];

/** One record, or all that there is of an entity: with its limits, buckets, operations, usage and refusals, without its audit trail. */
export type RecordDeletion =
  | RecordKey
  | { readonly kind: "everythingOf"; readonly entityId: string }
  /** Some of what there is in a namespace, at most so many; not its own record, and not its generation, which must never go back. */
  | { readonly kind: "someIn"; readonly namespaceId: string; readonly limitMax: number };

/** A list, and its order, of which `after` is a place. Orders are by code unit. */
export type RecordList =
  /** Active ones by name. */
  | { readonly kind: "namespace"; readonly of: "active" }
  | { readonly kind: "namespace"; readonly of: "name"; readonly name: string }
  /** Those that are not active, by id. */
  | { readonly kind: "namespace"; readonly of: "orphans" }
  /** Active ones in which a lease may be due until then; in no order, never in pages. */
  | { readonly kind: "namespace"; readonly of: "due"; readonly untilMs: number }
  /** By id. */
  | { readonly kind: "entity"; readonly of: "all" }
  | { readonly kind: "entity"; readonly of: "parent"; readonly parentId: string }
  | { readonly kind: "entity"; readonly of: "plan"; readonly planId: string }
  /** The entity and those above it, upwards; never in pages. */
  | { readonly kind: "entity"; readonly of: "above"; readonly id: string }
  /** Below the entity the longest line of descendants, downwards; never in pages. */
  | { readonly kind: "entity"; readonly of: "below"; readonly id: string }
  | { readonly kind: "plan"; readonly of: "all" }
  /** By the whole key. */
  | { readonly kind: "config"; readonly of: "all" }
  /** All that an entity or a plan says, by resource. */
  | { readonly kind: "config"; readonly of: "owner"; readonly owner: readonly ["entity" | "plan", string] }
  /** The limits that an entity has at `nowMs`, by resource: on one, or for any of them. */
  | { readonly kind: "config"; readonly of: "entity"; readonly entityId: string; readonly nowMs: number }
  /** Those of entities that have limits on a resource at `nowMs`, by entity. */
  | { readonly kind: "config"; readonly of: "resource"; readonly resource: string; readonly nowMs: number }
  /** Each resource on which some entity has limits at `nowMs`, once. */
  | { readonly kind: "config"; readonly of: "entityResources"; readonly nowMs: number }
  /** The defaults of resources that have limits at `nowMs`, by resource. */
  | { readonly kind: "config"; readonly of: "defaults"; readonly nowMs: number }
  /** By the whole key. */
  | { readonly kind: "history"; readonly of: "all" }
  | { readonly kind: "owner"; readonly of: "all" }
  | { readonly kind: "owned"; readonly of: "all" }
  /** Those that are due some day, by due time and id; absent: of every entity, for every resource. */
  | {
      readonly kind: "lease";
      readonly of: "due";
      readonly untilMs?: number;
      readonly entityId?: string;
      readonly resource?: string;
    }
  /** Of hours that begin in [fromMs, toMs), the newest hour first; absent: of every entity. */
  | {
      readonly kind: "refusalLog";
      readonly of: "newest";
      readonly fromMs: number;
      readonly toMs: number;
      readonly entityId?: string;
    }
  /** The newest first, by a number; absent: of all. */
  | { readonly kind: "audit"; readonly of: "all"; readonly entityId?: string }
  | { readonly kind: "audit"; readonly of: "oldest" };

export interface ListedRecord {
  readonly key: readonly string[];
  readonly body: unknown;
  /** Where a list goes on that is asked for with it as `after`. */
  readonly place: readonly string[];
}

/**
 * What changes of configuration touched: the names of entities, plans and resources, by the generation that each change made. A
 * generation that is absent may have touched everything. One name may be that of an entity and of a plan: then both are touched.
 */
export type TouchedNames = readonly (readonly [generation: number, names: readonly string[]])[];

/** `generation`: that of the namespace, as of the same instant. `changes`: those since the generation that was asked from, if any was. */
export interface FoundRecords {
  readonly generation: number;
  readonly changes?: TouchedNames | undefined;
  /** In the order of the keys. */
  readonly records: readonly (StoredRecord | undefined)[];
}

export interface ListedRecords {
  readonly generation: number;
  readonly records: readonly ListedRecord[];
}

/** The condition under which a commit is made. */
export type CommitGuard =
  /** Nothing of configuration, entities, plans and namespaces has changed since. Takes of the namespace wait for it. */
  | { readonly kind: "generation"; readonly generation: number }
  /** These records have these versions; 0: there is none. Never for what bumps a generation. */
  | { readonly kind: "versions"; readonly versions: readonly (RecordKey & { readonly version: number })[] };

/** A change, all of it or none. */
export interface RecordCommit {
  /** The namespace it is in; `""`: the registry of namespaces, which has a generation of its own. */
  readonly scope: string;
  readonly guard: CommitGuard;
  readonly puts: readonly RecordPut[];
  readonly deletes: readonly RecordDeletion[];
  /** For the audit log of a namespace. */
  readonly event: { readonly event: AuditEvent; readonly auditIn: string } | undefined;
  /** Namespaces that go on to their next generation. */
  readonly bumps: readonly string[];
  /** The entities, plans and resources whose levels may be others afterwards. Undefined: all. */
  readonly touched: readonly string[] | undefined;
  /** `again`: the answer to the same commit was lost. If its event is in the log it was made, and is not made again. */
  readonly sent: "first" | "again";
}

/**
 * The outcome of a commit.
 * - `done`: also if it was made before. `generations`: of the namespaces that were bumped. `deleted`: how many rows `someIn` deleted; where
 *   these are fewer than it might have, none are left, unless `mayBeMore`.
 * - `moved`: the guard did not hold; nothing was written.
 */
export type CommitReply =
  | {
      readonly kind: "done";
      readonly generations: ReadonlyMap<string, number>;
      readonly deleted: number;
      readonly mayBeMore?: true;
    }
  | { readonly kind: "moved" }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown };

/** First ms, and first ms after. */
export interface Span {
  readonly startMs: number;
  readonly endMs: number;
}

/** A question for the counts in spans of time, added up for each. */
export interface SumQuery {
  readonly kind: "usage" | "refusal" | "caller";
  /** In order, without overlap. */
  readonly spans: readonly Span[];
  /** Of the first span only what stands after it. */
  readonly after: readonly string[] | undefined;
  readonly entityId: string | undefined;
  readonly resource: string | undefined;
  /** The name of the limit; of refusals. */
  readonly limit: string | undefined;
  readonly limitMax: number;
}

/** By span, and in it by key: entity and resource; for refusals also limit, level and `0` or `1` for a total. */
export interface Sum {
  readonly startMs: number;
  readonly key: readonly string[];
  /** Whole numbers as text, for they may pass 2^53: millitokens by counter, `#requests`; for refusals only `count`; of callers tokens. */
  readonly counts: Readonly<Record<string, string>>;
}

export interface Sums {
  readonly sums: readonly Sum[];
  /**
   * The first hour behind the last span in which anything was counted, of the entity if one is asked for. If a resource is asked for, hours
   * without anything of it may be left out.
   */
  readonly nextHourMs: number | undefined;
}

/** The bounds of what is old enough to be deleted; undefined: nothing of it is. */
export interface ExpiryBounds {
  readonly nowMs: number;
  /** Hours of usage and refusals that began then or before. */
  readonly usageUntilMs: number | undefined;
  /** Hours of single refusals that began then or before. */
  readonly logUntilMs: number | undefined;
  readonly auditUntilMs: number;
  readonly operationsUntilMs: number;
  /** Of each kind at most so many rows. */
  readonly limitMax: number;
}

/**
 * Records of all namespaces: everything of a store but its buckets. Each call is one trip, or is answered at once. Calls throw
 * `RateLimiterUnavailable` where no reply says so.
 */
export interface RecordStore {
  /** `since`: the changes after this generation are wanted, too. A store whose generation is known at once need not tell them. */
  get(scope: string, keys: readonly RecordKey[], since?: number): MaybePromise<FoundRecords>;
  list(
    scope: string,
    list: RecordList,
    after: readonly string[] | undefined,
    limitMax: number,
  ): MaybePromise<ListedRecords>;
  commit(commit: RecordCommit): MaybePromise<CommitReply>;
  /** The rows of a namespace that are deleted in one commit, so that takes of others are not kept waiting. Default: 1,000. */
  readonly purgedAtOnce?: number;
  /** Runs a change in one transaction, in which every call is answered at once. Absent: changes are read, decided and committed without one. */
  transact?<Reply>(change: () => Steps<Reply>): MaybePromise<Reply>;
}

/** Counts beside the records, and the expiry of all that is too old. */
export interface CountStore {
  sums(scope: string, query: SumQuery): MaybePromise<Sums>;
  /** Deletes some of what is old, of all namespaces; answers how many rows. */
  expire(bounds: ExpiryBounds): MaybePromise<number>;
}
