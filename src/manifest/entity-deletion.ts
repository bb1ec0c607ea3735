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

interface Deletions {
  readonly deleted: readonly Piece[];
  readonly owned: ReadonlyMap<string, OwnedPiece>;
  readonly owner: string;
  readonly declared: ReadonlyMap<string, DeclaredPiece>;
}

type Configs = Awaited<ReturnType<typeof allConfigs>>;

/**
 * Why entities and plans cannot be deleted: everything below them would go too, also what somebody else has set. `configs` are all
 * that are stored; they are read when the first plan needs them, because a store has no list of those of one plan.
 */
export async function deletionBlockers(
  parts: LimiterParts,
  deletions: Deletions,
  configs: () => Promise<Configs>,
): Promise<readonly ConflictError[]> {
  const { deleted } = deletions;
  const gone = new Set(deleted.flatMap(({ what, entityId }) => (what === "entity" ? (entityId ?? []) : [])));
  const found: (ConflictError | undefined)[] = [];
  for (const entityId of gone) {
    found.push((await childOf(parts, entityId, deletions, gone)) ?? (await useOf(parts, entityId, deletions)));
  }
  for (const { what, planId = "" } of deleted) {
    if (what !== "plan") continue;
    found.push((await memberOf(parts, planId, deletions, gone)) ?? limitsOf(await configs(), planId, deletions));
  }
  return found.filter((blocker) => blocker !== undefined);
}

async function childOf(
  { deps }: LimiterParts,
  entityId: string,
  deletions: Deletions,
  gone: ReadonlySet<string>,
): Promise<ConflictError | undefined> {
  const children = await allOf((page) => deps.scope.entities.children(entityId, page));
  const child = children.find(({ id }) => !gone.has(id) && stays(id, "parentId", entityId, deletions));
  if (child === undefined) return undefined;
  return new ConflictError(
    "entity_has_children",
    `Entity ${entityId} is no longer declared but has children, such as ${child.id}; declare it, move them, or give --keep.`,
  );
}

async function memberOf(
  { deps }: LimiterParts,
  planId: string,
  deletions: Deletions,
  gone: ReadonlySet<string>,
): Promise<ConflictError | undefined> {
  const members = await allOf((page) => deps.scope.plans.listEntities(planId, page));
  const member = members.find(({ id }) => !gone.has(id) && stays(id, "planId", planId, deletions));
  if (member === undefined) return undefined;
  return new ConflictError(
    "plan_in_use",
    `The plan ${planId} is no longer declared but entities use it, such as ${member.id}; declare it, give them ` +
      "another, or give --keep.",
  );
}

/** Whether an entity keeps its parent or plan: it is not declared, or declared with the same. */
function stays(entityId: string, field: "parentId" | "planId", id: string, { declared }: Deletions): boolean {
  const value = declared.get(pieceKey({ what: "entity", entityId }))?.value as EntityValue | undefined;
  return value === undefined || value[field] === id;
}

async function useOf(parts: LimiterParts, entityId: string, deletions: Deletions): Promise<ConflictError | undefined> {
  const piece = foreignPiece(await allConfigs(parts, { entityId }), deletions);
  return piece && new ConflictError("entity_in_use", wouldGo(`Entity ${entityId}`, piece));
}

function limitsOf(configs: Configs, planId: string, deletions: Deletions): ConflictError | undefined {
  const own = configs.filter(({ scope }) => "planId" in scope && scope.planId === planId);
  const piece = foreignPiece(own, deletions);
  return piece && new ConflictError("plan_in_use", wouldGo(`The plan ${planId}`, piece));
}

/** The first stored piece that is not of this owner. */
function foreignPiece(configs: Configs, { owned, owner }: Deletions): Piece | undefined {
  const pieces = configs.flatMap(({ scope, config }) => {
    const set = ([isTotal(scope) ? "totals" : "limits", "access", "cascade"] as const).filter(
      (what) => valueInConfig(what, config) !== undefined,
    );
    return set.map((what) => pieceIn(what, scope));
  });
  return pieces.find((piece) => owned.get(pieceKey(piece))?.owner !== owner);
}

function wouldGo(what: string, piece: Piece): string {
  return (
    `${what} is no longer declared, but ${pieceText(piece)} would be deleted with it, which this manifest does not ` +
    "own; delete that first, declare it, or give --keep."
  );
}
