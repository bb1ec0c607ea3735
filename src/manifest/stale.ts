import {
  isSameValue,
  type PieceValue,
  pieceKey,
  pieceText,
  scopeOfPiece,
  valueInConfig,
  valueOfEntity,
  valueOfPlan,
} from "../domain/config/piece.ts";
import { ConflictError } from "../domain/names/errors.ts";
import type { LimiterParts } from "../engine/limiter/limiter-parts.ts";
import type { Change } from "./change.ts";

/** Refuses what would be done now and was not shown: a change is the same only if what it replaces is the same, too. */
export function requireShown(shown: readonly Change[], now: readonly Change[]): void {
  const known = new Map(shown.map((change) => [pieceKey(change), change]));
  for (const change of now) {
    const before = known.get(pieceKey(change));
    if (before === undefined || !isSameChange(before, change)) throw outdated(change, 0);
  }
}

function isSameChange(one: Change, other: Change): boolean {
  return (
    one.action === other.action &&
    isSameValue(one.before ?? undefined, other.before ?? undefined) &&
    isSameValue(one.after ?? undefined, other.after ?? undefined)
  );
}

/** What a piece is now; `version` of an entity and of a plan, for a write that goes by it. */
export interface LivePiece {
  readonly value: PieceValue | undefined;
  readonly version?: number;
}

export async function livePiece({ deps }: LimiterParts, change: Change): Promise<LivePiece> {
  const { what, entityId = "", planId = "" } = change;
  if (what === "entity") {
    const entity = await deps.scope.entities.get(entityId);
    return entity === undefined ? { value: undefined } : { value: valueOfEntity(entity), version: entity.version };
  }
  if (what === "plan") {
    const plan = await deps.scope.plans.get(planId);
    return plan === undefined ? { value: undefined } : { value: valueOfPlan(plan), version: plan.version };
  }
  const scope = scopeOfPiece(change);
  return { value: scope === undefined ? undefined : valueInConfig(what, await deps.scope.config.get(scope)) };
}

/** Whether a change may still be made: the piece is as it was shown, or already as it shall be. */
export function isAsShown({ before, after }: Change, { value }: LivePiece): boolean {
  return isSameValue(before ?? undefined, value) || isSameValue(after ?? undefined, value);
}

export function outdated(change: Change, done: number): ConflictError {
  const what = `${change.action} ${pieceText(change)}`;
  return new ConflictError(
    "plan_outdated",
    done === 0
      ? `The plan is outdated: it would now ${what}, which it did not show. Nothing was changed; plan again.`
      : `The plan is outdated: to ${what} would replace a value that it did not show. ` +
          `${done} ${done === 1 ? "change was" : "changes were"} made before; plan again for the rest.`,
  );
}
