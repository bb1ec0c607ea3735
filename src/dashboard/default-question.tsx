import type { Api } from "./api.ts";
import { Confirm } from "./dialog.tsx";
import type { BucketListing, Entity, Level } from "./shapes.ts";
import { isOfEntity, type Named } from "./stored-limits.ts";
import { plural } from "./words.ts";

/** So many entities and buckets are read to count; beyond, "more than" is enough. */
const COUNTED_MAX = 5_000;

/** Whom a level of everybody's limits reaches. */
export interface Reached {
  /** Undefined: it could not be counted. */
  readonly count: number | undefined;
  readonly isMore: boolean;
}

/** Entities that were created or have buckets; of a plan, those that are on it. Undefined: the level is of one entity. */
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
    // A token without the right to read may still change; it is asked without the number.
    return { count: undefined, isMore: false };
  }
}

export function reachedWords({ count, isMore }: Reached): string {
  if (count === undefined) return "every entity";
  return `${isMore ? "more than " : ""}${plural(count, "entity", "entities")}`;
}

/** Asks before limits are changed that are not of one entity, with the number of those that they are for. */
export function DefaultQuestion(props: {
  readonly reached: Reached;
  /** Of whom, and on what. */
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
