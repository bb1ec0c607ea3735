import { bucketKey } from "../domain/bucket-key.ts";
import { noLimits } from "../domain/charge-errors.ts";
import type { LevelExplanation } from "../entry/index.ts";
import type { CommandLimiter } from "./command-limiter.ts";

/** What applies to an entity itself. Throws where it has no limits there, whatever its parents have. */
export async function ownLevel(
  limiter: CommandLimiter,
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
): Promise<LevelExplanation> {
  const [own] = (await limiter.explain({ entityId, resource })).levels;
  if (own === undefined || own.limits.length === 0) throw noLimits([{ bucket: bucketKey(entityId, resource) }]);
  return own;
}
