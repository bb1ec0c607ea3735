import {
  type DeclaredPiece,
  type EntityValue,
  isSameValue,
  type OwnedPiece,
  type Piece,
  type PieceValue,
  pieceKey,
  pieceText,
} from "../domain/config/piece.ts";
import { ConflictError, NotFoundError, ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { checkOwner } from "../domain/names/names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type LimiterParts, partsOf } from "../engine/limiter/limiter-parts.ts";
import type { Change } from "./change.ts";
import { entityBlockers } from "./entity-deletion.ts";
import { allConfigs, allOwned, liveValues } from "./live.ts";
import { type Manifest, OWNER_DEFAULT } from "./manifest.ts";
import { inOrder } from "./order.ts";
import { planBlockers } from "./plan-deletion.ts";

/** How to plan. */
export interface PlanOptions {
  /** The owner, if the manifest names none. Default: `"default"`. */
  readonly owner?: string;
  /** Whether pieces that are owned and no longer declared stay, without an owner. Default: `false`. */
  readonly keep?: boolean;
  /**
   * Whether pieces that are owned and no longer declared are deleted. Without `keep` or `prune` such a plan is
   * refused. Default: `false`.
   */
  readonly prune?: boolean;
  /** Whether pieces of other owners are taken over. Default: `false`. */
  readonly takeOver?: boolean;
}

/** What applying a manifest would do. */
export interface Plan {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The owner of the pieces. */
  readonly owner: string;
  /** The changes, in the order in which they are made. */
  readonly changes: readonly Change[];
  /** Pieces that belong to another owner. */
  readonly conflicts: readonly (Piece & { readonly owner: string })[];
  /** How many changes of each kind there are, and how many pieces stay. */
  readonly summary: Readonly<Record<Change["action"] | "unchanged", number>>;
  /** Declarations that can be applied but are probably mistakes. */
  readonly warnings: readonly string[];
}

/** What a plan was made of, to make it again when it is applied. */
export interface PlanBasis {
  readonly manifest: Manifest;
  readonly options: PlanOptions;
  /** Why it cannot be applied. */
  readonly refusal: ConflictError | undefined;
}

const OPTIONS = new KnownNames<PlanOptions>({ owner: true, keep: true, prune: true, takeOver: true });
const BASES = new WeakMap<Plan, PlanBasis>();

/** What applying a manifest would change. It only reads. */
export async function planManifest(limiter: Limiter, manifest: Manifest, options: PlanOptions = {}): Promise<Plan> {
  OPTIONS.check(options, "The options of planManifest");
  if (options.keep === true && options.prune === true) {
    throw new ValidationError("options_invalid", "keep and prune exclude each other; give one of them.");
  }
  return makePlan(partsOf(limiter), manifest, options);
}

export function basisOf(plan: Plan): PlanBasis {
  const basis = BASES.get(plan);
  if (basis !== undefined) return basis;
  throw new ValidationError("plan_invalid", "This is not a result of planManifest; plan again, then apply that.");
}

export async function makePlan(parts: LimiterParts, manifest: Manifest, options: PlanOptions): Promise<Plan> {
  const { namespace } = parts.settings;
  if (manifest.namespace !== undefined && manifest.namespace !== namespace) {
    throw new ValidationError(
      "namespace_mismatch",
      `The manifest is for the namespace ${manifest.namespace}, and this is ${namespace}; open the namespace that it names.`,
    );
  }
  const owner = ownerOf(manifest, options);
  await parts.settings.namespaceId;
  const owned = new Map((await allOwned(parts)).map((each) => [pieceKey(each.piece), each]));
  const declared = new Map(manifest.pieces.map((each) => [pieceKey(each.piece), each]));
  const left = [...owned.values()].filter((each) => each.owner === owner && !declared.has(pieceKey(each.piece)));
  const live = await liveValues(
    parts,
    [...manifest.pieces, ...left].map(({ piece }) => piece),
  );
  await requireParents(parts, manifest.pieces);
  await requirePlans(parts, manifest.pieces);
  const comparisons = manifest.pieces.map((each) => comparePiece(each, { owned, live, owner, options }));
  const needed = new Set(manifest.pieces.flatMap(({ piece }) => (piece.level === undefined ? [] : ownerKey(piece))));
  const gone = left.map((each) => leave(each, { needed, live, options }));
  const changes = inOrder([...comparisons.flatMap(({ change }) => change ?? []), ...gone]);
  const conflicts = comparisons.flatMap(({ conflict }) => conflict ?? []);
  const isDeleted = ({ what, action }: Change) => (what === "entity" || what === "plan") && action === "delete";
  const deletions = { deleted: changes.filter(isDeleted), owned, owner, declared };
  let configs: ReturnType<typeof allConfigs> | undefined;
  const blockers = [
    ...(await entityBlockers(parts, deletions)),
    ...(await planBlockers(parts, deletions, () => {
      configs ??= allConfigs(parts, {});
      return configs;
    })),
  ];
  const plan: Plan = {
    namespace,
    owner,
    changes,
    conflicts,
    summary: summaryOf(changes, manifest.pieces.length - comparisons.filter(isChangeOrConflict).length),
    warnings: [...manifest.warnings, ...blockers.map(({ message }) => message)],
  };
  BASES.set(plan, { manifest, options: { ...options, owner }, refusal: refusalOf(plan, options, blockers) });
  return plan;
}

function ownerOf(manifest: Manifest, options: PlanOptions): string {
  if (options.owner !== undefined) checkOwner(options.owner);
  const { owner = options.owner ?? OWNER_DEFAULT } = manifest;
  if (options.owner === undefined || options.owner === owner) return owner;
  throw new ValidationError(
    "owner_mismatch",
    `The manifest belongs to the owner ${owner}, and the owner option is ${options.owner}; leave the option out, or name the same.`,
  );
}

interface PieceComparison {
  readonly change?: Change;
  readonly conflict?: Piece & { readonly owner: string };
}

interface PieceContext {
  readonly owned: ReadonlyMap<string, OwnedPiece>;
  readonly live: ReadonlyMap<string, PieceValue>;
  readonly owner: string;
  readonly options: PlanOptions;
}

function comparePiece(declared: DeclaredPiece, { owned, live, owner, options }: PieceContext): PieceComparison {
  const { piece, ifAbsent = false } = declared;
  const key = pieceKey(piece);
  const record = owned.get(key);
  const now = live.get(key);
  // Whoever made it keeps it: only an entity that this owner created is deleted with what it declares.
  if (ifAbsent && now !== undefined && record?.owner !== owner) return {};
  const value = ifAbsent ? (now ?? declared.value) : declared.value;
  if (record !== undefined && record.owner !== owner && options.takeOver !== true) {
    return { conflict: { ...piece, owner: record.owner } };
  }
  const drift = record?.owner === owner && record.state === "applied" && !isSameValue(record.value, now);
  const change = (action: Change["action"]): PieceComparison => ({
    change: { action, ...piece, before: now ?? null, after: value, drift },
  });
  if (!isSameValue(now, value)) return change(now === undefined ? "create" : "update");
  const isKnown = record?.owner === owner && record.state === "applied" && !drift;
  return isKnown ? {} : change("adopt");
}

function leave(
  record: OwnedPiece,
  { needed, live, options }: Pick<PieceContext, "live" | "options"> & { readonly needed: ReadonlySet<string> },
): Change {
  const { piece } = record;
  const before = live.get(pieceKey(piece)) ?? null;
  const drift = record.state === "applied" && !isSameValue(record.value, before ?? undefined);
  // What is declared of an entity, or of a plan, would go with it.
  const isNeeded = (piece.what === "entity" || piece.what === "plan") && needed.has(ownerKey(piece));
  const isReleased = options.keep === true || before === null || isNeeded;
  return { action: isReleased ? "release" : "delete", ...piece, before, after: isReleased ? before : null, drift };
}

function ownerKey({ entityId = "", planId = "" }: Piece): string {
  return `${entityId}#${planId}`;
}

/** A parent is declared too, or is there. */
async function requireParents(parts: LimiterParts, pieces: readonly DeclaredPiece[]): Promise<void> {
  const entities = pieces.filter(({ piece }) => piece.what === "entity");
  const declared = new Set(entities.map(({ piece }) => piece.entityId));
  for (const { piece, value } of entities) {
    const { parentId } = value as EntityValue;
    if (parentId === undefined || declared.has(parentId)) continue;
    if ((await parts.deps.scope.entities.get(parentId)) !== undefined) continue;
    throw new NotFoundError(
      "parent_not_found",
      `The parent ${parentId} of ${piece.entityId} is not declared and does not exist; declare it, or create it first.`,
    );
  }
}

/** A plan is declared too, or is there: the plan of an entity, and of limits that are declared without it. */
async function requirePlans(parts: LimiterParts, pieces: readonly DeclaredPiece[]): Promise<void> {
  const declared = new Set(pieces.flatMap(({ piece }) => (piece.what === "plan" ? [piece.planId] : [])));
  for (const { piece, value } of pieces) {
    const planId = piece.what === "entity" ? (value as EntityValue).planId : piece.planId;
    if (planId === undefined || declared.has(planId)) continue;
    if ((await parts.deps.scope.plans.get(planId)) !== undefined) continue;
    throw new NotFoundError(
      "plan_not_found",
      `The plan ${planId} of ${piece.entityId} is not declared and does not exist; declare it, or create it first.`,
    );
  }
}

function refusalOf(
  plan: Plan,
  { prune, keep }: PlanOptions,
  [blocker]: readonly ConflictError[],
): ConflictError | undefined {
  const [conflict] = plan.conflicts;
  if (conflict !== undefined) return ownedByOther(conflict, conflict.owner);
  // No option of an apply gets it out of the way.
  if (blocker !== undefined) return blocker;
  const { delete: deletions } = plan.summary;
  if (deletions === 0 || prune === true || keep === true) return undefined;
  return new ConflictError(
    "deletions_need_prune",
    `${deletions} ${deletions === 1 ? "piece is" : "pieces are"} owned and no longer declared; delete them with --prune ` +
      "(prune: true), or keep them with --keep (keep: true).",
  );
}

export function ownedByOther(piece: Piece, owner: string): ConflictError {
  return new ConflictError(
    "owned_by_other",
    `${pieceText(piece)} is declared by the owner ${owner}; take it out of one of the manifests, or take it over with ` +
      "--take-over (takeOver: true).",
  );
}

function isChangeOrConflict({ change, conflict }: PieceComparison): boolean {
  return change !== undefined || conflict !== undefined;
}

function summaryOf(changes: readonly Change[], unchanged: number): Plan["summary"] {
  const counts = { create: 0, update: 0, delete: 0, adopt: 0, release: 0, unchanged };
  for (const { action } of changes) counts[action] += 1;
  return counts;
}
