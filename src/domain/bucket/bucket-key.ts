/** The resource that totals over all resources are shown and named under; no other resource can be called so. */
export const TOTAL_RESOURCE = "*";

/** Names a bucket: there is one per entity and resource, whatever limits it holds. */
export interface BucketKey {
  readonly entityId: string;
  readonly resource: string;
  /** Both in one string, for maps. Neither may contain the newline between them. */
  readonly id: string;
}

export function bucketKey(entityId: string, resource: string): BucketKey {
  return { entityId, resource, id: `${entityId}\n${resource}` };
}
