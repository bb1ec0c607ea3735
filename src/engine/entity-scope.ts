import type { ConfigScope } from "../domain/config.ts";

/** Where in the hierarchy limits of an entity stand: one resource, or all that have none of their own. */
export interface EntityScope {
  /** Default: all that have none of their own. */
  readonly resource?: string;
}

export function entityScope(entityId: string, options: EntityScope): ConfigScope {
  // What is no object is refused where the options are checked.
  const resource = options?.resource;
  return resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
}
