/** Which bucket: one per entity and resource, whatever limits it holds. */
export interface BucketKey {
  readonly entityId: string;
  readonly resource: string;
  /** Both in one string, for maps. Neither may contain the newline between them. */
  readonly id: string;
}

export function bucketKey(entityId: string, resource: string): BucketKey {
  return { entityId, resource, id: `${entityId}\n${resource}` };
}
