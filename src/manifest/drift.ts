import type { AuditAction, AuditEvent } from "../domain/config/audit.ts";
import { auditIdOf, planAuditId } from "../domain/config/config.ts";
import {
  isSameValue,
  type OwnedPiece,
  type Piece,
  type PieceValue,
  pieceKey,
  scopeOfPiece,
} from "../domain/config/piece.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { checkOwner } from "../domain/names/names.ts";
import { pagesOf } from "../domain/names/paging.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type LimiterParts, partsOf } from "../engine/limiter/limiter-parts.ts";
import { allOwned, livePieces } from "./live.ts";
import { OWNER_DEFAULT } from "./manifest.ts";

/** A piece whose stored value differs from the one that was last applied. */
export interface DriftedPiece extends Piece {
  /** The value that was last applied. */
  readonly applied: PieceValue;
  /** The stored value; `null`: none. */
  readonly live: PieceValue | null;
  /** The change that made the difference, as the audit trail has it. */
  readonly by?: {
    /** Who made the change. Absent: it did not say. */
    readonly principal?: string;
    /** What was done. */
    readonly action: AuditAction;
    /** When, in ms since 1970. */
    readonly atMs: number;
  };
}

/** Pieces whose stored value differs from the one that their owner last applied. */
export interface Drift {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The owner of the pieces. */
  readonly owner: string;
  /** When the last apply began, in ms since 1970. */
  readonly appliedAtMs: number;
  /** The pieces that differ; empty if there are none. */
  readonly drift: readonly DriftedPiece[];
}

/** Whose drift. */
export interface DriftOptions {
  /** The owner. Default: `"default"`. */
  readonly owner?: string;
}

const OPTIONS = new KnownNames<DriftOptions>({ owner: true });

export async function driftOf(limiter: Limiter, options: DriftOptions): Promise<Drift> {
  const parts = partsOf(limiter);
  const { owner = OWNER_DEFAULT } = OPTIONS.check(options, "The options of driftOf");
  const owned = (await allOwned(parts)).filter((each) => each.owner === owner);
  const record = await runOf(parts, owner, owned);
  const { values: live } = await livePieces(
    parts,
    owned.map(({ piece }) => piece),
  );
  const drift: DriftedPiece[] = [];
  for (const each of owned) {
    const now = live.get(pieceKey(each.piece));
    if (each.state === "pending" || isSameValue(each.value, now)) continue;
    const by = await lastChangeOf(parts, each);
    drift.push({ ...each.piece, applied: each.value, live: now ?? null, ...given({ by }) });
  }
  return { namespace: parts.settings.namespace, owner, appliedAtMs: record?.appliedAtMs ?? 0, drift };
}

/** The last apply of an owner; undefined where its record was lost. Throws for an owner that never applied anything. */
export async function runOf({ deps, settings }: LimiterParts, owner: string, owned: readonly OwnedPiece[]) {
  checkOwner(owner);
  const record = await deps.scope.manifests.getRun(owner);
  if (record !== undefined || owned.some((each) => each.owner === owner)) return record;
  throw new NotFoundError(
    "manifest_not_applied",
    `No manifest of the owner ${owner} was applied in the namespace ${settings.namespace}; apply one first, or correct the owner.`,
  );
}

/** More events of one entity than this since the last apply are not looked through. */
const LOOKED_AT_MAX = 10_000;
const PAGE = 100;

/** The last change of a piece since it was applied. */
async function lastChangeOf({ deps }: LimiterParts, { piece, atMs }: OwnedPiece): Promise<DriftedPiece["by"]> {
  const scope = scopeOfPiece(piece);
  const ownId = piece.what === "plan" ? planAuditId(piece.planId ?? "") : (piece.entityId ?? "");
  const entityId = scope === undefined ? ownId : auditIdOf(scope);
  let looked = 0;
  for await (const { items } of pagesOf((from) => deps.scope.audit.list({ entityId }, { limit: PAGE, ...from }))) {
    for (const event of items) {
      if (event.atMs < atMs) return undefined;
      if (!isAbout(event, piece)) continue;
      const { principal, action } = event;
      return given({ principal, action, atMs: event.atMs });
    }
    looked += items.length;
    if (looked >= LOOKED_AT_MAX) return undefined;
  }
  return undefined;
}

const ACTIONS: Readonly<Record<Piece["what"], readonly AuditAction[]>> = {
  limits: ["limits_set", "limits_deleted"],
  totals: ["totals_set", "totals_deleted"],
  onUnavailable: ["limits_set", "limits_deleted"],
  usageKeptDays: ["limits_set", "limits_deleted"],
  access: ["access_set"],
  cascade: ["cascade_set"],
  entity: ["entity_created", "entity_updated", "entity_deleted"],
  plan: ["plan_created", "plan_updated", "plan_deleted"],
};

function isAbout({ action, resource }: AuditEvent, piece: Piece): boolean {
  // Everything of an entity or a plan is deleted with it.
  if (action === "entity_deleted" || action === "plan_deleted") return true;
  if (!ACTIONS[piece.what].includes(action)) return false;
  return piece.level === undefined || piece.level === "system" || resource === piece.resource;
}
