import type { AuditEvent } from "../../domain/config/audit.ts";
import { auditIdOf, type ConfigScope } from "../../domain/config/config.ts";
import { type ConfigChange, type Conflict, detailsOf } from "../../domain/config/config-change.ts";
import type { SetReply } from "../../ports/config-store.ts";
import { failAfterMaxConflicts } from "./changes.ts";
import type { Attributes } from "./codec.ts";
import {
  type ConfigPlace,
  countConfigs,
  encodeConfig,
  FLAGS,
  hasLimits,
  historyAfter,
  isCounted,
  isHistoryOnly,
  listResource,
  wordsIn,
} from "./config-codec.ts";
import { DELETING, isBeingDeleted, isPlan, planOf } from "./entities-record.ts";
import { finishRemoval } from "./entities-removal.ts";
import { changeIn, type NamespaceParts, readActive } from "./namespace-parts.ts";
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
import { CONFIG_VERSION, configKey, configOwnerKeys, configResource, type TableKey } from "./schema.ts";

/**
 * Makes a change of configuration: the item, both registries and the audit event in one transaction. Its condition is that
 * every configured attribute is as it was read. A version number would not do: the original replaces the whole item,
 * and the number would start again.
 */
export function changeConfig(
  parts: NamespaceParts,
  scope: ConfigScope,
  event: AuditEvent,
  decide: (before: Attributes | undefined) => ConfigChange | Conflict,
): Promise<SetReply> {
  const { namespaceId, recent, shared } = parts;
  return changeIn<SetReply>(parts, whatOf(scope), event, async () => {
    const { before, owner } = await readConfig(parts, scope);
    if ("planId" in scope && planOf(owner) === undefined) return { reply: "planMissing" };
    const changed = decide(before);
    if (changed.kind !== "changed") return { reply: changed.kind };
    recent.note();
    const history = shared ? undefined : historyAfter(before, changed.config, event.atMs);
    const place = { namespaceId, scope };
    const after = encodeConfig(changed.config, before, place, history);
    return {
      reply: "written",
      event: { ...event, details: detailsOf(event.details, changed) },
      writes: [
        ...itemWrites(configKey(namespaceId, scope), before, after),
        ...registryWrites(place, before, after),
        ...ownerChecks(place),
      ],
      onApplied: () => recent.note(),
    };
  });
}

/** The item, and its owner's. Finishes the removal of a deleted entity first. */
async function readConfig(parts: NamespaceParts, scope: ConfigScope) {
  const { namespaceId } = parts;
  for (let attempt = 0; ; attempt++) {
    failAfterMaxConflicts(attempt, whatOf(scope));
    const keys = [configKey(namespaceId, scope), ...configOwnerKeys(namespaceId, scope)];
    const [before, owner] = await readActive(parts, keys);
    if (!("entityId" in scope) || !isBeingDeleted(owner)) return { before, owner };
    await finishRemoval(parts, scope.entityId);
  }
}

function itemWrites(
  key: TableKey,
  before: Attributes | undefined,
  after: Attributes | undefined,
): readonly RecordWrite[] {
  if (after !== undefined) return [putRecord(key, after, before === undefined ? missing : isSameConfig(before))];
  return before === undefined ? [] : [deleteRecord(key, isSameConfig(before))];
}

function registryWrites(
  { namespaceId, scope }: ConfigPlace,
  before: Attributes | undefined,
  after: Attributes | undefined,
): readonly RecordWrite[] {
  const resource = configResource(scope);
  if (resource === undefined) return [];
  if ("entityId" in scope) {
    // Items with only a policy are counted too.
    const change = Number(after !== undefined && !isHistoryOnly(after)) - Number(isCounted(before));
    return countConfigs(namespaceId, { [resource]: change });
  }
  const isListed = hasLimits(after);
  // The original's provisioner neither lists resources nor counts versions.
  const wasListed = hasLimits(before) && before?.[CONFIG_VERSION] !== undefined;
  return isListed === wasListed ? [] : [listResource(namespaceId, resource, isListed)];
}

// If the owner was deleted meanwhile, its removal may have passed this item already. An entity need not exist.
function ownerChecks({ namespaceId, scope }: ConfigPlace): readonly RecordWrite[] {
  const stands = "planId" in scope ? isPlan : isStill(DELETING, undefined);
  return configOwnerKeys(namespaceId, scope).map((key) => checkRecord(key, stands));
}

function whatOf(scope: ConfigScope): string {
  return `The configuration of ${auditIdOf(scope)}`;
}

function isSameConfig(item: Attributes): Condition {
  const words = wordsIn(item);
  const names = new Set([...Object.keys(words), ...FLAGS]);
  return all(...[...names].map((name) => isStill(name, words[name])));
}
