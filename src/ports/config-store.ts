import type { AuditEvent } from "../domain/config/audit.ts";
import type { ConfigScope, LevelConfig, LimitsChange, PolicyChange, StoredConfig } from "../domain/config/config.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

/**
 * What became of a change of limits. `planMissing`: the scope is of a plan that there is not. `conflict`: it says something else than
 * the change expects.
 */
export type SetReply = "written" | "unchanged" | "planMissing" | "conflict";

/** Stored limits of one namespace. Every change is written together with its audit event. */
export interface ConfigStore {
  /**
   * A number that grows with every change of configuration, entities or namespaces by any process. Undefined where the store
   * has none: remembered configuration is then used until it is `configTtlMs` old.
   */
  generation(): number | undefined;
  /** Asks for the generation of now, for stores that learn of a change by an answer only: `generation` tells it from then on. */
  askGeneration?(): MaybePromise<void>;
  /**
   * Limits, parent and policy of one level of the chain, read together. `NotFoundError` when the namespace is gone.
   * `consistent`: with every change that was answered before the call; otherwise a store may answer with what was a moment ago.
   */
  resolve(entityId: string, resource: string, read?: "consistent"): MaybePromise<LevelConfig>;
  /** The same at once, for stores that need not wait for it. Always `consistent`: there is nothing that it could be behind. */
  resolveSync?(entityId: string, resource: string): LevelConfig;
  get(scope: ConfigScope): MaybePromise<StoredConfig | undefined>;
  /**
   * Replaces the limits of a scope and keeps its policy. What is absent of the change keeps what is stored. `unchanged`: it said
   * the same already, or there are limits and the change is for where none are; nothing was written or audited, nor with
   * `conflict`, which is decided together with the write. A store that
   * keeps usage as it was opened refuses `usageKeptDays` with a `ValidationError`.
   */
  set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): MaybePromise<SetReply>;
  /** Changes what a scope says about access and cascading, and keeps its limits. False where it said so already. */
  setPolicy(scope: ConfigScope, change: PolicyChange, event: AuditEvent): MaybePromise<boolean>;
  /** Deletes the limits of a scope and keeps its policy. False when there were none; then nothing is audited either. */
  delete(scope: ConfigScope, event: AuditEvent): MaybePromise<boolean>;
  /** Scopes of one entity that have limits on resources: its default first, then by resource. */
  listForEntity(
    entityId: string,
    page: PageRequest,
  ): MaybePromise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>>;
  /** Ids of entities with limits of their own on a resource, in order. */
  listEntities(resource: string, page: PageRequest): MaybePromise<Page<string>>;
  /** Resources on which some entity has limits of its own, in order. */
  listEntityResources(page: PageRequest): MaybePromise<Page<string>>;
  /** Resources with defaults, in order. */
  listResources(page: PageRequest): MaybePromise<Page<string>>;
}
