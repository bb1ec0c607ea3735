import { isTotal } from "../domain/config/config.ts";
import {
  type DeclaredPiece,
  type EntityValue,
  type OwnedPiece,
  type Piece,
  pieceIn,
  pieceKey,
  pieceText,
  valueInConfig,
} from "../domain/config/piece.ts";
import { ConflictError } from "../domain/names/errors.ts";
import type { LimiterParts } from "../engine/limiter/limiter-parts.ts";
import { allConfigs, allOf } from "./live.ts";

export interface Deletions {
  readonly deleted: readonly Piece[];
  readonly owned: ReadonlyMap<string, OwnedPiece>;
  readonly owner: string;
  readonly declared: ReadonlyMap<string, DeclaredPiece>;
}

/** Why entities cannot be deleted: with an entity everything of it would go, also what somebody else has set. */
export async function entityBlockers(parts: LimiterParts, deletions: Deletions): Promise<readonly ConflictError[]> {
  const found: ConflictError[] = [];
  const gone = goneEntities(deletions);
  for (const entityId of gone) {
    const blocker = (await childOf(parts, entityId, deletions, gone)) ?? (await useOf(parts, entityId, deletions));
    if (blocker !== undefined) found.push(blocker);
  }
  return found;
}

/** Those that are deleted. */
export function goneEntities({ deleted }: Deletions): ReadonlySet<string> {
  return new Set(deleted.flatMap(({ what, entityId }) => (what === "entity" ? (entityId ?? []) : [])));
}

async function childOf(
  { deps }: LimiterParts,
  entityId: string,
  { declared }: Deletions,
  gone: ReadonlySet<string>,
): Promise<ConflictError | undefined> {
  const children = await allOf((page) => deps.scope.entities.children(entityId, page));
  const stays = children.find(({ id }) => {
    if (gone.has(id)) return false;
    const value = declared.get(pieceKey({ what: "entity", entityId: id }))?.value as EntityValue | undefined;
    return value === undefined || value.parentId === entityId;
  });
  if (stays === undefined) return undefined;
  return new ConflictError(
    "entity_has_children",
    `Entity ${entityId} is no longer declared but has children, such as ${stays.id}; declare it, move them, or give --keep.`,
  );
}

async function useOf(
  parts: LimiterParts,
  entityId: string,
  { owned, owner }: Deletions,
): Promise<ConflictError | undefined> {
  for (const { scope, config } of await allConfigs(parts, { entityId })) {
    const limits = isTotal(scope) ? "totals" : "limits";
    for (const what of [limits, "access", "cascade"] as const) {
      const piece = pieceIn(what, scope);
      if (valueInConfig(what, config) === undefined || owned.get(pieceKey(piece))?.owner === owner) continue;
      return new ConflictError(
        "entity_in_use",
        `Entity ${entityId} is no longer declared, but ${pieceText(piece)} would be deleted with it, which this manifest does not ` +
          "own; delete that first, declare it, or give --keep.",
      );
    }
  }
  return undefined;
}
