import { type Api, ApiError } from "./api.ts";
import type { Level, StoredLimits } from "./shapes.ts";

/** Which of the four levels a query of `NS/limits` means. */
export interface LevelQuery {
  readonly entityId?: string;
  readonly resource?: string;
}

/** The most specific first, as they are asked. */
export const LEVELS: readonly Level[] = ["entity", "entityDefault", "resource", "system"];

/** Undefined where the level cannot be named: it needs an entity or a resource that was not given. */
export function queryOf(level: Level, entityId: string, resource: string): LevelQuery | undefined {
  switch (level) {
    case "system":
      return {};
    case "resource":
      return resource === "" ? undefined : { resource };
    case "entityDefault":
      return entityId === "" ? undefined : { entityId };
    case "entity":
      return entityId === "" || resource === "" ? undefined : { entityId, resource };
  }
}

/** Undefined where nothing is stored at that level. */
export async function storedAt(
  api: Api,
  path: string,
  query: LevelQuery,
  signal: AbortSignal | undefined,
): Promise<StoredLimits | undefined> {
  try {
    return await api.get<StoredLimits>(`${path}/limits`, { ...query }, signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404 && error.code !== "namespace_not_found") return undefined;
    throw error;
  }
}
