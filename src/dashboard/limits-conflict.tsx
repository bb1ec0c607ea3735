import type { Api } from "./api.ts";
import { levelChanges } from "./audit-change.ts";
import { ChangeList } from "./change-list.tsx";
import type { AuditEvent, Level, Listed, StoredLimits } from "./shapes.ts";
import { isOfEntity, isTotal, levelsOf, type Named } from "./stored-limits.ts";
import { stampWords } from "./words.ts";

/** What somebody else made of a level, and the event that tells who. */
export interface Theirs {
  readonly stored: StoredLimits | undefined;
  readonly event: AuditEvent | undefined;
}

const EVENTS_READ = 50;

/** A level as it is now, and who changed it last. */
export async function theirsAt(api: Api, path: string, level: Level, names: Named): Promise<Theirs> {
  const entityId = auditIdOf(level, names);
  const [{ items }, trail] = await Promise.all([
    levelsOf(api, path, names, undefined),
    api.get<Listed<AuditEvent>>(`${path}/audit`, { entityId, limit: EVENTS_READ }),
  ]);
  const resource = level === "entity" || level === "plan" || level === "resource" ? names.resource : undefined;
  const isOfLevel = (event: AuditEvent) =>
    event.resource === resource && (isTotal(level) ? /^totals_/ : /^(limits|access|cascade)_/).test(event.action);
  return { stored: items.find((item) => item.level === level), event: trail.items.find(isOfLevel) };
}

/** The name of a level in the audit trail. */
function auditIdOf(level: Level, { entityId, planId, resource }: Named): string {
  if (isOfEntity(level)) return entityId;
  if (/^plan/.test(level)) return `$PLAN:${planId}`;
  return level === "resource" ? `$RESOURCE:${resource}` : "$SYSTEM";
}

/** Somebody else was faster: who, when and what, and what is to be done about one's own changes. */
export function LimitsConflict(props: {
  readonly before: StoredLimits | undefined;
  readonly theirs: Theirs;
  readonly isBusy: boolean;
  readonly onTheirs: () => void;
  readonly onMine: () => void;
}) {
  const { before, theirs, isBusy, onTheirs, onMine } = props;
  const { principal, atMs } = theirs.event ?? {};
  const changes = levelChanges(before, theirs.stored);
  return (
    <div class="note conflict" role="alert" data-testid="limits-conflict" data-principal={principal}>
      <strong>
        {principal ?? "Somebody"} changed these limits while you were editing
        {atMs === undefined ? "" : `, on ${stampWords(atMs)}`}.
      </strong>
      {changes.length > 0 && <ChangeList changes={changes} />}
      <span class="quiet">Your changes are not saved.</span>
      <div class="page-actions">
        <button type="button" class="button small" data-testid="conflict-theirs" disabled={isBusy} onClick={onTheirs}>
          Discard my changes
        </button>
        <button
          type="button"
          class="button small danger"
          data-testid="conflict-mine"
          disabled={isBusy}
          onClick={onMine}
        >
          Overwrite with my changes
        </button>
      </div>
    </div>
  );
}
