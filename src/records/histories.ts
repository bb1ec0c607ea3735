import type { ChangeTime } from "../domain/config/change-number.ts";
import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import { type LimitsVersion, versionsText, withVersion } from "../domain/config/config-versions.ts";
import type { Entity } from "../domain/config/entity.ts";
import { stintsFrom, stintsText, withStint } from "../domain/config/plan-stints.ts";
import type { RecordPut, StoredRecord } from "../ports/record-store.ts";
import { historyKey, stintsKey } from "../stored/config-keys.ts";
import { knownVersions } from "../stored/known-versions.ts";
import { textOf } from "./bodies.ts";

/** What a scope said over time; undefined where nothing is known of it. */
export function versionsIn(record: StoredRecord | undefined): readonly LimitsVersion[] | undefined {
  const text = textOf(record);
  return text === undefined ? undefined : knownVersions(text);
}

/** What is to be written when a scope says something else; `history` is what is stored of it. */
export function versionPuts(
  scope: ConfigScope,
  history: StoredRecord | undefined,
  change: { readonly before: StoredConfig | undefined; readonly after: StoredConfig | undefined },
  time: ChangeTime,
): readonly RecordPut[] {
  const known = versionsIn(history);
  const versions = withVersion(known, change.before, change.after, time);
  if (versions === undefined || versions === known) return [];
  return [{ kind: "history", key: historyKey(scope), by: {}, body: versionsText(versions) }];
}

/** What is to be written when an entity was made, or changed: it may have come to another plan. */
export function stintPuts(
  history: StoredRecord | undefined,
  before: Entity | undefined,
  { id, planId }: Entity,
  time: ChangeTime,
): readonly RecordPut[] {
  if (before?.planId === planId) return [];
  const text = textOf(history);
  const stints = withStint(text === undefined ? undefined : stintsFrom(text), before?.planId, planId, time);
  return stints === undefined ? [] : [{ kind: "history", key: stintsKey(id), by: {}, body: stintsText(stints) }];
}
