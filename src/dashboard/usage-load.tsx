import type { Kin } from "../domain/charge/own-usage.ts";
import type { Api } from "./api.ts";
import type { Entity, UsageSnapshot, UsageWindow } from "./shapes.ts";
import { chargedTo } from "./usage-levels.ts";
import { plural } from "./words.ts";

/** Of one question; more would not be looked at. */
export const SNAPSHOTS_MAX = 10_000;
const ENTITIES_MAX = 10_000;
/** Keys of a project that are asked for, one by one, so many at a time. */
const KEYS_MAX = 200;
const TOGETHER = 8;

export interface UsageQuestion {
  readonly window: UsageWindow;
  readonly entityId: string;
  readonly resource: string;
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
}

interface UsageRead {
  readonly items: readonly UsageSnapshot[];
  /** There is more than was read. */
  readonly more: boolean;
  readonly kin: Kin;
  /** All of it is of one entity: there are no levels to be taken apart. */
  readonly isOfOne: boolean;
  /** How many of those below were not asked for. */
  readonly unread: number;
}

export async function kinOf(api: Api, path: string): Promise<Kin> {
  const { items } = await api.all<Entity>(`${path}/entities`, {}, ENTITIES_MAX);
  return new Map(items.map((entity) => [entity.id, entity]));
}

export async function loadUsage(
  api: Api,
  path: string,
  question: UsageQuestion,
  kin: Kin,
  withKeys: boolean,
): Promise<UsageRead> {
  const { entityId } = question;
  const read = (id: string) => api.all<UsageSnapshot>(`${path}/usage`, { ...question, entityId: id }, SNAPSHOTS_MAX);
  const below = withKeys && entityId !== "" ? chargedTo(entityId, kin) : [];
  const ids = [entityId, ...below.slice(0, KEYS_MAX)];
  const found: Awaited<ReturnType<typeof read>>[] = [];
  for (let i = 0; i < ids.length; i += TOGETHER) {
    found.push(...(await Promise.all(ids.slice(i, i + TOGETHER).map(read))));
  }
  return {
    items: found.flatMap(({ items }) => items),
    more: found.some(({ more }) => more),
    kin,
    isOfOne: entityId !== "" && below.length === 0,
    unread: Math.max(0, below.length - KEYS_MAX),
  };
}

/** What those have who were not asked for stands with the entity above them. */
export function KeysMissing({ count }: { readonly count: number }) {
  if (count === 0) return null;
  return (
    <p class="note">
      The first {KEYS_MAX} children were read; usage of the other {plural(count, "entity", "entities")} is shown with
      the parent.
    </p>
  );
}
