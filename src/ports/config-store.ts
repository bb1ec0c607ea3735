import type { AuditEvent } from "../domain/config/audit.ts";
import type { ConfigScope, LevelConfig, LimitsChange, PolicyChange, StoredConfig } from "../domain/config/config.ts";
import type { DeletedPart } from "../domain/config/config-change.ts";
import type { StoredLevel } from "../domain/config/config-versions.ts";
import type { Entity, EntityChange, EntityUpdate, ParentProblem, PlanProblem } from "../domain/config/entity.ts";
import type { Namespace } from "../domain/config/namespace.ts";
import type { OwnedPiece, Piece } from "../domain/config/piece.ts";
import type { Plan, PlanChange, PlanUpdate } from "../domain/config/plan.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

/** The outcome of a change of limits. `planMissing`: the scope is of a plan that there is not. `conflict`: it says something else than expected. */
export type SetReply = "written" | "unchanged" | "planMissing" | "conflict";

/** The names that the limits of a level depend on, beside what applies to all. */
export interface LevelNames {
  readonly entityId: string;
  readonly resource: string;
  readonly planId: string | undefined;
}

/** Stored limits of one namespace. Every change is written together with its audit event. */
export interface ConfigStore {
  /**
   * A number that grows with every change of configuration, entities or namespaces by any process. Undefined where the store
   * has none: remembered configuration is then used until it is `configTtlMs` old.
   */
  generation(): number | undefined;
  /**
   * True if nothing that a level goes by has changed from that generation to the one that `generation` answers. Absent: every change may
   * be a change of every level.
   */
  isUnchanged?(level: LevelNames, since: number): boolean;
  /** Asks for the generation of now, for stores that learn of a change by an answer only: `generation` answers it from then on. */
  askGeneration?(): MaybePromise<void>;
  /**
   * Limits, parent and policy of one level of the chain, read together, with what the ends of overrides leave: `levelAt` has it at a
   * reading of the clock. `NotFoundError` when the namespace is gone.
   * `consistent`: with every change that was answered before the call; otherwise a store may answer with what was a moment ago.
   */
  resolve(entityId: string, resource: string, read?: "consistent"): MaybePromise<LevelConfig>;
  /** Resolves at once, for stores that need not wait. It is always `consistent`. */
  resolveSync?(entityId: string, resource: string): LevelConfig;
  /** What `resolve` goes by, with the time before; always `consistent`. */
  history(entityId: string, resource: string): MaybePromise<StoredLevel>;
  get(scope: ConfigScope): MaybePromise<StoredConfig | undefined>;
  /**
   * Replaces the limits of a scope and keeps its policy. What is absent of the change keeps what is stored. `unchanged`: it said the same
   * already, or there are limits and the change is for where none are. With it, and with `conflict`, nothing was written or audited. A
   * store that keeps usage as it was opened refuses `usageKeptDays` with a `ValidationError`.
   */
  set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): MaybePromise<SetReply>;
  /** Changes what a scope says about access and cascading, and keeps its limits. False where it said so already. */
  setPolicy(scope: ConfigScope, change: PolicyChange, event: AuditEvent): MaybePromise<boolean>;
  /**
   * Deletes the limits of a scope and keeps its policy; or ends the override that runs, and nothing else. False when there were none; then
   * nothing is audited either.
   */
  delete(scope: ConfigScope, event: AuditEvent, part: DeletedPart): MaybePromise<boolean>;
  /** Scopes of one entity that have limits on resources at a reading of the clock: its default first, then by resource. */
  listForEntity(
    entityId: string,
    nowMs: number,
    page: PageRequest,
  ): MaybePromise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>>;
  /** Ids of entities with limits of their own on a resource, in order. */
  listEntities(resource: string, nowMs: number, page: PageRequest): MaybePromise<Page<string>>;
  /** Resources on which some entity has limits of its own, in order. */
  listEntityResources(nowMs: number, page: PageRequest): MaybePromise<Page<string>>;
  /** Resources with defaults, in order. */
  listResources(nowMs: number, page: PageRequest): MaybePromise<Page<string>>;
}

export type CreateReply = { readonly kind: "created" } | { readonly kind: "exists" } | PlanProblem | ParentProblem;

export type UpdateReply = EntityUpdate;

export type DeleteReply =
  | { readonly kind: "deleted" }
  | { readonly kind: "missing" }
  | { readonly kind: "children"; readonly childId: string };

/** Entities of one namespace. The hierarchy is checked inside the transaction that writes. */
export interface EntityStore {
  create(entity: Entity, event: AuditEvent): MaybePromise<CreateReply>;
  get(id: string): MaybePromise<Entity | undefined>;
  update(id: string, change: EntityChange, event: AuditEvent): MaybePromise<UpdateReply>;
  /** Removes the entity with its limits, buckets and usage; its audit trail stays. Refused while it has children. */
  delete(id: string, event: AuditEvent): MaybePromise<DeleteReply>;
  children(id: string, page: PageRequest): MaybePromise<Page<Entity>>;
  list(page: PageRequest): MaybePromise<Page<Entity>>;
}

export type CreatePlanReply = { readonly kind: "created" } | { readonly kind: "exists" };

export type DeletePlanReply =
  | { readonly kind: "deleted" }
  | { readonly kind: "missing" }
  | { readonly kind: "inUse"; readonly entityId: string };

/**
 * Plans of one namespace. Their limits and totals are in the `ConfigStore`. A plan that is deleted and an entity that comes to it
 * exclude each other: no entity refers to a plan that is gone.
 */
export interface PlanStore {
  create(plan: Plan, event: AuditEvent): MaybePromise<CreatePlanReply>;
  get(id: string): MaybePromise<Plan | undefined>;
  update(id: string, change: PlanChange, event: AuditEvent): MaybePromise<PlanUpdate>;
  /** Removes the plan with its limits and totals. Refused while an entity refers to it. */
  delete(id: string, event: AuditEvent): MaybePromise<DeletePlanReply>;
  /** Lists plans by id. */
  list(page: PageRequest): MaybePromise<Page<Plan>>;
  /** The entities that refer to a plan, by id. */
  listEntities(id: string, page: PageRequest): MaybePromise<Page<Entity>>;
}

export type RecoverReply =
  | { readonly kind: "recovered"; readonly namespace: Namespace }
  | { readonly kind: "missing" }
  | { readonly kind: "nameTaken"; readonly name: string }
  | { readonly kind: "notDeleted"; readonly status: Namespace["status"] };

/** `missing`: there is none of that id that a copy fills. */
export type EndCopyReply = "active" | "nameTaken" | "missing";

export type PurgeReply =
  | { readonly kind: "purged"; readonly records: number }
  | { readonly kind: "missing" }
  | { readonly kind: "active"; readonly name: string };

export interface DueNamespace {
  readonly namespace: Namespace;
  /** The instant since which leases may be due there. */
  readonly sinceMs: number;
}

/** Namespaces of a store. Their audit events go to the namespace `auditIn`: that of the limiter that made the change. */
export interface NamespaceStore {
  /** Registers the name under the given new id, unless it is registered already; answers what then is. */
  register(namespace: Namespace, event: AuditEvent, auditIn: string): MaybePromise<Namespace>;
  /** The active namespace of a name. */
  get(name: string): MaybePromise<Namespace | undefined>;
  list(page: PageRequest): MaybePromise<Page<Namespace>>;
  /** Hides it: its data stays until purged. Undefined when there is no active one of that name. */
  delete(name: string, nowMs: number, event: AuditEvent, auditIn: string): MaybePromise<Namespace | undefined>;
  recover(id: string, event: AuditEvent, auditIn: string): MaybePromise<RecoverReply>;
  /**
   * Hides a namespace while a copy fills it: one that is made for that, or the active one of that id. False: another is active under
   * the name by now, or the one of that id is no longer.
   */
  beginCopy(namespace: Namespace, from: "nothing" | "active"): MaybePromise<boolean>;
  /** Makes a hidden namespace active, in one write with the event, which goes to its own audit log. */
  endCopy(id: string, event: AuditEvent): MaybePromise<EndCopyReply>;
  listOrphans(page: PageRequest): MaybePromise<Page<Namespace>>;
  /** Lists all namespaces in which a lease may be due until then: one question, however many namespaces there are. */
  withDueLeases(untilMs: number): MaybePromise<readonly DueNamespace[]>;
  /** Says that nothing was found due there: a store that keeps notes of it may forget the oldest. */
  nothingDue(namespaceId: string, sinceMs: number, nowMs: number): MaybePromise<void>;
  /** Removes everything of a deleted namespace, in steps; may be run again after it was cut off. */
  purge(
    id: string,
    event: AuditEvent,
    auditIn: string,
    onProgress: (recordsDeleted: number) => void,
  ): MaybePromise<PurgeReply>;
}

/** An owner of declared pieces, and its last apply. */
export interface OwnerRecord {
  readonly owner: string;
  /** The apply that may write now; another is too late. */
  readonly run: string;
  /** The instant at which it began, or ended. */
  readonly appliedAtMs: number;
}

/** `superseded`: another apply of the same owner has begun since. Nothing was written but by `entered` and `struck`. */
export type EnterReply =
  | { readonly kind: "entered" }
  | { readonly kind: "ownedByOther"; readonly owner: string }
  | { readonly kind: "superseded" };

export type StrikeReply = { readonly kind: "struck" } | { readonly kind: "superseded" };

/** The right by which a piece is entered or struck out. */
export interface OwnerRight {
  /** The run that the owner must still have. Undefined: whatever the run. */
  readonly run: string | undefined;
  /** Pieces of other owners are taken, too. */
  readonly takeOver: boolean;
}

/** Who owns which pieces of one namespace by declaring them. A piece has one owner. Nothing here is audited. */
export interface ManifestStore {
  /** Records an apply, its begin or its end: only its own writes are accepted from now on. */
  setRun(record: OwnerRecord): MaybePromise<void>;
  getRun(owner: string): MaybePromise<OwnerRecord | undefined>;
  /** Enters or replaces a piece, if nobody else owns it. */
  enter(owned: OwnedPiece, right: OwnerRight): MaybePromise<EnterReply>;
  /** Strikes out a piece of the owner; another's stays. */
  strike(piece: Piece, owner: string, right: Pick<OwnerRight, "run">): MaybePromise<StrikeReply>;
  /** Lists pieces of all owners, in no particular order; as good as now. */
  list(page: PageRequest): MaybePromise<Page<OwnedPiece>>;
  /** Lists every stored configuration, also one with a policy alone; of one entity, or of all. A page may be somewhat longer. */
  listConfigs(
    filter: { readonly entityId?: string },
    page: PageRequest,
  ): MaybePromise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>>;
}

/** The audit log of one namespace, newest first. Events are written by the stores that make the changes. */
export interface AuditStore {
  list(filter: { readonly entityId?: string }, page: PageRequest): MaybePromise<Page<AuditEvent>>;
}
