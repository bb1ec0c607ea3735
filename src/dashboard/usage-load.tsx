import type { Kin } from "../domain/charge/own-usage.ts";
import type { Api } from "./api.ts";
import type { Entity, UsageSnapshot, UsageWindow } from "./shapes.ts";
import { chargedTo } from "./usage-series.ts";
import { plural, TOTALS } from "./words.ts";

export const SNAPSHOTS_MAX = 10_000;
const ENTITIES_MAX = 10_000;
/** At most this many children are read, `TOGETHER` at a time. */
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
  /** What totals over all resources counted, unless one resource is asked for. */
  readonly totals: readonly UsageSnapshot[];
  readonly more: boolean;
  readonly kin: Kin;
  /** True if all usage is of one entity, so that there is one level. */
  readonly isOfOne: boolean;
  /** The number of children that were not read. */
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
  const read = (id: string, resource: string) =>
    api.all<UsageSnapshot>(`${path}/usage`, { ...question, entityId: id, resource }, SNAPSHOTS_MAX);
  const below = withKeys && entityId !== "" ? chargedTo(entityId, kin) : [];
  const ids = [entityId, ...below.slice(0, KEYS_MAX)];
  const on = async (resource: string) => {
    const found: Awaited<ReturnType<typeof read>>[] = [];
    for (let i = 0; i < ids.length; i += TOGETHER) {
      found.push(...(await Promise.all(ids.slice(i, i + TOGETHER).map((id) => read(id, resource)))));
    }
    return { items: found.flatMap(({ items }) => items), more: found.some(({ more }) => more) };
  };
  const asked = await on(question.resource);
  const totals = question.resource === "" ? await on(TOTALS) : { items: [], more: false };
  return {
    items: asked.items,
    totals: totals.items,
    more: asked.more || totals.more,
    kin,
    isOfOne: entityId !== "" && below.length === 0,
    unread: Math.max(0, below.length - KEYS_MAX),
  };
}

/** Says that the usage of children that were not read is shown with the parent. */
export function KeysMissing({ count }: { readonly count: number }) {
  if (count === 0) return null;
  return (
    <p class="note">
      The first {KEYS_MAX} children were read; usage of the other {plural(count, "entity", "entities")} is shown with
      the parent.
    </p>
  );
}
