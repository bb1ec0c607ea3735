import type { ConfigScope } from "../../domain/config/config.ts";

/** Which limits of an entity or a plan. */
export interface EntityScope {
  /** Limits on this resource. Default: those for all resources that have none of their own. */
  readonly resource?: string;
}

export function entityScope(entityId: string, options: EntityScope): ConfigScope {
  // What is no object is refused where the options are checked.
  const resource = options?.resource;
  return resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
}
