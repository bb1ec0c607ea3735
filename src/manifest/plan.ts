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
import { given } from "../domain/names/given.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { checkOwner } from "../domain/names/names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type LimiterParts, partsOf } from "../engine/limiter/limiter-parts.ts";
import { deletionBlockers } from "./entity-deletion.ts";
import { allOwned, configsOnce, livePieces } from "./live.ts";
import { type Change, type Manifest, OWNER_DEFAULT } from "./manifest.ts";

/**
 * The order in which changes are made: plans, then their limits; entities, parents first; the system; resources; what entities
 * have of their own; then what goes, an entity after everything of it and after its children, plans after all.
 */
function inOrder(changes: readonly Change[]): readonly Change[] {
  const depths = new Depths(changes);
  return changes.toSorted((a, b) => {
    const [one, other] = [placeOf(a, depths), placeOf(b, depths)];
    return one.rank - other.rank || one.depth - other.depth || compare(one.name, other.name);
  });
}

interface Rank {
  readonly rank: number;
  readonly depth: number;
  readonly name: string;
}

function placeOf(change: Change, depths: Depths): Rank {
  const { what, level, entityId = "", resource = "", planId = "" } = change;
  const name = `${planId}${entityId} ${resource} ${what}`;
  const goes = change.action === "delete" || change.action === "release";
  if (what === "plan") return { rank: goes ? 9 : -2, depth: 0, name };
  if (planId !== "") return { rank: goes ? 8 : -1, depth: 0, name };
  if (what === "entity") {
    const depth = depths.of(entityId);
    return goes ? { rank: 7, depth: -depth, name } : { rank: 0, depth, name };
  }
  const rank = level === "system" || level === "systemTotal" ? 1 : level === "resource" ? 2 : 3;
  return { rank: goes ? 7 - rank : rank, depth: 0, name };
}

/** How far below its root an entity stands, among those that are changed. */
class Depths {
  readonly #parents = new Map<string, string | undefined>();

  constructor(changes: readonly Change[]) {
    for (const { what, entityId, before, after } of changes) {
      if (what !== "entity" || entityId === undefined) continue;
      this.#parents.set(entityId, ((after ?? before) as EntityValue | null)?.parentId);
    }
  }

  of(entityId: string): number {
    let depth = 0;
    // Bounded: a circle is refused elsewhere, and must not hang here.
    for (let at = this.#parents.get(entityId); at !== undefined && depth < 100; at = this.#parents.get(at)) depth += 1;
    return depth;
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

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

/** The input of a plan, to make it again when it is applied. */
export interface PlanBasis {
  readonly manifest: Manifest;
  readonly options: PlanOptions;
  /** Why it cannot be applied. */
  readonly refusal: ConflictError | undefined;
}

const OPTIONS = new KnownNames<PlanOptions>({ owner: true, keep: true, prune: true, takeOver: true });
const BASES = new WeakMap<Plan, PlanBasis>();

export async function planManifest(limiter: Limiter, manifest: Manifest, options: PlanOptions): Promise<Plan> {
  OPTIONS.check(options, "The options of planManifest");
  if (options.keep === true && options.prune === true) {
    throw new ValidationError("options_invalid", "keep and prune exclude each other; give one of them.");
  }
  return makePlan(partsOf(limiter), manifest, options);
}

/** The plan, with its input remembered. */
export function withBasis(plan: Plan, basis: PlanBasis): Plan {
  BASES.set(plan, basis);
  return plan;
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
  const { values: live, hiddenUntilMs } = await livePieces(
    parts,
    [...manifest.pieces, ...left].map(({ piece }) => piece),
  );
  await requireOwners(parts, manifest.pieces);
  const comparisons = manifest.pieces.map((each) => comparePiece(each, { owned, live, owner, options }));
  const needed = new Set(manifest.pieces.flatMap(({ piece }) => (piece.level === undefined ? [] : ownerKey(piece))));
  const gone = left.map((each) => leave(each, { needed, live, options }));
  const changes = inOrder([...comparisons.flatMap(({ change }) => change ?? []), ...gone]).map((change) => ({
    ...change,
    ...given({ overrideUntilMs: hiddenUntilMs.get(pieceKey(change)) }),
  }));
  const conflicts = comparisons.flatMap(({ conflict }) => conflict ?? []);
  const isDeleted = ({ what, action }: Change) => (what === "entity" || what === "plan") && action === "delete";
  const deletions = { deleted: changes.filter(isDeleted), owned, owner, declared };
  const blockers = await deletionBlockers(parts, deletions, configsOnce(parts));
  const plan: Plan = {
    namespace,
    owner,
    changes,
    conflicts,
    summary: summaryOf(changes, manifest.pieces.length - comparisons.filter(isChangeOrConflict).length),
    warnings: [...manifest.warnings, ...blockers.map(({ message }) => message), ...changes.flatMap(hiddenWarning)],
  };
  return withBasis(plan, { manifest, options: { ...options, owner }, refusal: refusalOf(plan, options, blockers) });
}

/** A change counts only once what hides it has ended. */
function hiddenWarning(change: Change): readonly string[] {
  const { overrideUntilMs: untilMs } = change;
  if (untilMs === undefined) return [];
  const end = new Date(untilMs).toISOString();
  return [
    `${pieceText(change)} counts from ${end} on: until then what was set with an end hides it. End that with --override, or set it again.`,
  ];
}

export function namespaceMismatch(planned: string, here: string): ValidationError {
  return new ValidationError(
    "namespace_mismatch",
    `The plan is for the namespace ${planned}, and this is ${here}; plan again here.`,
  );
}

export function ownerOf(manifest: Manifest, options: PlanOptions): string {
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
  // An entity that somebody else made stays theirs: only what this owner created is deleted with its declaration.
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
  // Declared pieces of an entity or a plan would be deleted with it.
  const isNeeded = (piece.what === "entity" || piece.what === "plan") && needed.has(ownerKey(piece));
  const isReleased = options.keep === true || before === null || isNeeded;
  return { action: isReleased ? "release" : "delete", ...piece, before, after: isReleased ? before : null, drift };
}

function ownerKey({ entityId = "", planId = "" }: Piece): string {
  return `${entityId}#${planId}`;
}

/** Throws unless the parents and plans that pieces name are declared too, or exist. */
async function requireOwners({ deps }: LimiterParts, pieces: readonly DeclaredPiece[]): Promise<void> {
  const { entities, plans } = deps.scope;
  const declared = new Set(pieces.flatMap(({ piece }) => (piece.level === undefined ? [pieceKey(piece)] : [])));
  for (const { piece, value } of pieces) {
    const { parentId } = piece.what === "entity" ? (value as EntityValue) : {};
    if (parentId === undefined || declared.has(pieceKey({ what: "entity", entityId: parentId }))) continue;
    if ((await entities.get(parentId)) === undefined) throw ownerMissing("parent", parentId, piece);
  }
  for (const { piece, value } of pieces) {
    const { planId } = piece.what === "entity" ? (value as EntityValue) : piece;
    if (planId === undefined || declared.has(pieceKey({ what: "plan", planId }))) continue;
    if ((await plans.get(planId)) === undefined) throw ownerMissing("plan", planId, piece);
  }
}

function ownerMissing(owner: "parent" | "plan", id: string, { entityId }: Piece): NotFoundError {
  return new NotFoundError(
    `${owner}_not_found`,
    `The ${owner} ${id} of ${entityId} is not declared and does not exist; declare it, or create it first.`,
  );
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
