import type { AuditEvent } from "../../domain/config/audit.ts";
import { auditIdOf, type ConfigScope } from "../../domain/config/config.ts";
import type { ConfigChange, Conflict } from "../../domain/config/config-change.ts";
import type { SetReply } from "../../ports/config-store.ts";
import type { DynamoAudit } from "./audit.ts";
import type { Attributes } from "./codec.ts";
import { encodeConfig, FLAGS, hasLimits, historyAfter, isHistoryOnly, wordsIn } from "./config-codec.ts";
import type { RecentChange } from "./config-reader.ts";
import { countConfigs, isCounted, listResource } from "./config-registry.ts";
import { DELETING, isBeingDeleted } from "./entities-record.ts";
import type { EntityRemoval } from "./entities-removal.ts";
import { activeCheck, type NamespaceWatch } from "./namespaces-record.ts";
import { isPlan, planOf } from "./plans-record.ts";
import { failAfterMaxConflicts, type Records } from "./records.ts";
import {
  all,
  type Condition,
  checkRecord,
  deleteRecord,
  isStill,
  missing,
  putRecord,
  type RecordWrite,
} from "./records-write.ts";
import {
  CONFIG_VERSION,
  configKey,
  configResource,
  entityKey,
  namespaceIdKey,
  planKey,
  type TableKey,
} from "./schema.ts";

export interface ChangeParts {
  readonly records: Records;
  readonly watch: NamespaceWatch;
  readonly audit: DynamoAudit;
  readonly removal: EntityRemoval;
  readonly recent: RecentChange;
  /** The original writes to this table too: it says nothing of when it changed what. */
  readonly shared: boolean;
}

/**
 * Changes of configuration: the item, both registries and the audit event in one transaction. Its condition is that every
 * configured attribute is still as it was read. A version number of ours would not do: the original replaces the whole item,
 * and the number would start again.
 */
export class ConfigChanges {
  readonly #namespaceId: string;
  readonly #parts: ChangeParts;

  constructor(namespaceId: string, parts: ChangeParts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
  }

  async make(
    scope: ConfigScope,
    event: AuditEvent,
    change: (before: Attributes | undefined) => ConfigChange | Conflict,
  ): Promise<SetReply> {
    const { records, audit, recent } = this.#parts;
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `The configuration of ${auditIdOf(scope)}`);
      const { before, isPlanMissing } = await this.#readToChange(scope);
      if (isPlanMissing) return "planMissing";
      const changed = change(before);
      if (changed.kind !== "changed") return changed.kind;
      recent.note();
      const history = this.#parts.shared ? undefined : historyAfter(before, changed.config, event.atMs);
      const after = encodeConfig(changed.config, before, { namespaceId: this.#namespaceId, scope }, history);
      const reply = await records.transact([
        ...this.#replaced(scope, before, after),
        ...this.#registered(scope, before, after),
        ...this.#ownerChecked(scope),
        activeCheck(this.#namespaceId),
        await audit.entry(event),
      ]);
      recent.note();
      if (reply.kind === "applied") return "written";
    }
  }

  /** The item as it is now. Throws when the namespace is not active; first removes what a deleted entity has left over. */
  async #readToChange(
    scope: ConfigScope,
  ): Promise<{ readonly before: Attributes | undefined; readonly isPlanMissing: boolean }> {
    const { records, watch, removal } = this.#parts;
    const keys = [configKey(this.#namespaceId, scope), namespaceIdKey(this.#namespaceId)];
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `The configuration of ${auditIdOf(scope)}`);
      const [before, namespace, owner] = await records.getAll([...keys, ...this.#ownerKeys(scope)], {
        consistent: true,
      });
      watch.requireActive(this.#namespaceId, namespace);
      if ("planId" in scope) return { before, isPlanMissing: planOf(owner) === undefined };
      if (!("entityId" in scope) || !isBeingDeleted(owner)) return { before, isPlanMissing: false };
      await removal.finish(scope.entityId);
    }
  }

  #ownerKeys(scope: ConfigScope): readonly TableKey[] {
    if ("planId" in scope) return [planKey(this.#namespaceId, scope.planId)];
    return "entityId" in scope ? [entityKey(this.#namespaceId, scope.entityId)] : [];
  }

  #replaced(scope: ConfigScope, before: Attributes | undefined, after: Attributes | undefined): readonly RecordWrite[] {
    const key = configKey(this.#namespaceId, scope);
    if (after !== undefined) return [putRecord(key, after, before === undefined ? missing : saysStill(before))];
    return before === undefined ? [] : [deleteRecord(key, saysStill(before))];
  }

  #registered(
    scope: ConfigScope,
    before: Attributes | undefined,
    after: Attributes | undefined,
  ): readonly RecordWrite[] {
    const resource = configResource(scope);
    if (resource === undefined) return [];
    if ("entityId" in scope) {
      // An item that has only a policy is counted too.
      const change = Number(after !== undefined && !isHistoryOnly(after)) - Number(isCounted(before));
      return countConfigs(this.#namespaceId, { [resource]: change });
    }
    const isListed = hasLimits(after);
    // The original's provisioner lists nothing and counts no versions.
    const wasListed = hasLimits(before) && before?.[CONFIG_VERSION] !== undefined;
    return isListed === wasListed ? [] : [listResource(this.#namespaceId, resource, isListed)];
  }

  // Were the owner deleted meanwhile, its removal might already have passed this item. An entity need not have been made.
  #ownerChecked(scope: ConfigScope): readonly RecordWrite[] {
    const stands = "planId" in scope ? isPlan : isStill(DELETING, undefined);
    return this.#ownerKeys(scope).map((key) => checkRecord(key, stands));
  }
}

function saysStill(item: Attributes): Condition {
  const words = wordsIn(item);
  const names = new Set([...Object.keys(words), ...FLAGS]);
  return all(...[...names].map((name) => isStill(name, words[name])));
}
