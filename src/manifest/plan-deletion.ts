import { isTotal } from "../domain/config/config.ts";
import { type EntityValue, pieceIn, pieceKey, pieceText } from "../domain/config/piece.ts";
import { ConflictError } from "../domain/names/errors.ts";
import type { LimiterParts } from "../engine/limiter/limiter-parts.ts";
import { type Deletions, goneEntities } from "./entity-deletion.ts";
import { type allConfigs, allOf } from "./live.ts";

/**
 * Why plans cannot be deleted: an entity refers to one, or somebody else has set limits of it. `configs` are all there are, read
 * when the first plan asks for them.
 */
export async function planBlockers(
  parts: LimiterParts,
  deletions: Deletions,
  configs: () => ReturnType<typeof allConfigs>,
): Promise<readonly ConflictError[]> {
  const found: ConflictError[] = [];
  const gone = goneEntities(deletions);
  for (const { what, planId = "" } of deletions.deleted) {
    if (what !== "plan") continue;
    const blocker = (await memberOf(parts, planId, deletions, gone)) ?? useOf(await configs(), planId, deletions);
    if (blocker !== undefined) found.push(blocker);
  }
  return found;
}

async function memberOf(
  { deps }: LimiterParts,
  planId: string,
  { declared }: Deletions,
  gone: ReadonlySet<string>,
): Promise<ConflictError | undefined> {
  const members = await allOf((page) => deps.scope.plans.listEntities(planId, page));
  const stays = members.find(({ id }) => {
    if (gone.has(id)) return false;
    const value = declared.get(pieceKey({ what: "entity", entityId: id }))?.value as EntityValue | undefined;
    return value === undefined || value.planId === planId;
  });
  if (stays === undefined) return undefined;
  return new ConflictError(
    "plan_in_use",
    `The plan ${planId} is no longer declared but entities use it, such as ${stays.id}; declare it, give them ` +
      "another, or give --keep.",
  );
}

function useOf(
  configs: Awaited<ReturnType<typeof allConfigs>>,
  planId: string,
  { owned, owner }: Deletions,
): ConflictError | undefined {
  for (const { scope } of configs) {
    if (!("planId" in scope) || scope.planId !== planId) continue;
    const piece = pieceIn(isTotal(scope) ? "totals" : "limits", scope);
    if (owned.get(pieceKey(piece))?.owner === owner) continue;
    return new ConflictError(
      "plan_in_use",
      `The plan ${planId} is no longer declared, but ${pieceText(piece)} would be deleted with it, which this manifest does not ` +
        "own; delete that first, declare it, or give --keep.",
    );
  }
  return undefined;
}
