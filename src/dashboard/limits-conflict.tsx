import type { Api } from "./api.ts";
import { levelChanges } from "./audit-change.ts";
import { Confirm } from "./dialog.tsx";
import { Button, ChangeList } from "./parts.tsx";
import type { AuditEvent, BucketListing, Entity, Level, Listed, StoredLimits } from "./shapes.ts";
import { isOfEntity, isTotal, levelsOf, type Named } from "./stored-limits.ts";
import { plural, stampWords } from "./words.ts";

/** A level as another user has stored it, and the audit event of that change. */
export interface Theirs {
  readonly stored: StoredLimits | undefined;
  readonly event: AuditEvent | undefined;
}

const EVENTS_READ = 50;

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

/** Says who changed the level meanwhile, and asks what to do with the changes of this user. */
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
        <Button kind="small" testid="conflict-theirs" disabled={isBusy} onClick={onTheirs}>
          Discard my changes
        </Button>
        <Button kind="small danger" testid="conflict-mine" disabled={isBusy} onClick={onMine}>
          Overwrite with my changes
        </Button>
      </div>
    </div>
  );
}

/** At most this many entities and buckets are read to count; a larger number is shown as "more than". */
const COUNTED_MAX = 5_000;

/** The number of entities that a level of many entities reaches. */
export interface Reached {
  /** Undefined if they could not be counted. */
  readonly count: number | undefined;
  readonly isMore: boolean;
}

/** Counts entities that were created or have buckets, or those of a plan. Undefined for a level of one entity. */
export async function reachedBy(
  api: Api,
  path: string,
  level: Level,
  { planId, resource }: Named,
): Promise<Reached | undefined> {
  if (isOfEntity(level)) return undefined;
  const ofPlan = /^plan/.test(level);
  try {
    const entities = await api.all<Entity>(`${path}/entities`, ofPlan ? { planId } : {}, COUNTED_MAX);
    const ids = new Set(entities.items.map(({ id }) => id));
    if (ofPlan) return { count: ids.size, isMore: entities.more };
    const on = level === "resource" ? { resource } : {};
    const buckets = await api.all<BucketListing>(`${path}/buckets`, on, COUNTED_MAX);
    for (const { entityId } of buckets.items) ids.add(entityId);
    return { count: ids.size, isMore: entities.more || buckets.more };
  } catch {
    // A token that may not read may still write; the question then has no number.
    return { count: undefined, isMore: false };
  }
}

export function reachedWords({ count, isMore }: Reached): string {
  if (count === undefined) return "every entity";
  return `${isMore ? "more than " : ""}${plural(count, "entity", "entities")}`;
}

/** Asks before the limits of many entities are changed, with their number. */
export function DefaultQuestion(props: {
  readonly reached: Reached;
  readonly whom: string;
  readonly act: () => Promise<void>;
  readonly onClose: () => void;
}) {
  const { reached, whom, act, onClose } = props;
  const words = reachedWords(reached);
  const known = `${words} ${reached.count === 1 ? "is" : "are"}`;
  return (
    <Confirm title={`Change the limits of ${words}?`} submit="Change them" {...{ act, onClose }}>
      <p data-testid="default-reached" data-count={reached.count}>
        This changes the limits of <b class="wrap">{whom}</b>
        {reached.count === undefined ? "" : `, of which ${known} known`}. Entities with limits of their own keep those.
        To change one entity alone, cancel and choose a level of that entity.
      </p>
    </Confirm>
  );
}
