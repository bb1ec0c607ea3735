import { NotFoundError, ValidationError } from "../names/errors.ts";
import { given, valueAfter } from "../names/given.ts";
import { hintFor, KnownNames } from "../names/known-names.ts";
import { checkEntityId, checkPlanId, shown } from "../names/names.ts";

/** A subject of limits: an API key, a user, a project. It need not be created to be limited; an unknown id has no parent. */
export interface Entity {
  /** Its name in every request. */
  readonly id: string;
  /** A name for people. */
  readonly name: string;
  /** The entity above it. Absent: it has none. */
  readonly parentId?: string;
  /**
   * The plan whose limits apply where it has none of its own; they apply neither to its children nor to its parents.
   * Absent: none.
   */
  readonly planId?: string;
  /** Whether tokens taken from this entity are taken from its parent too. Without a parent it has no effect. */
  readonly cascade: boolean;
  /** Texts of your own. The limiter does not read them. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Grows by one with every change. `updateEntity(id, patch, { version })` changes this version only. */
  readonly version: number;
  /** In ms since 1970. */
  readonly createdAtMs: number;
  /** In ms since 1970. */
  readonly updatedAtMs: number;
}

/** What `createEntity` and `ensureEntity` take. */
export interface NewEntity {
  /** Its name in every request. */
  readonly id: string;
  /** A name for people. Default: the id. */
  readonly name?: string;
  /** The entity above it, which must exist. Default: none. */
  readonly parentId?: string;
  /** The plan whose limits apply where it has none of its own; it must exist. Default: none. */
  readonly planId?: string;
  /** Whether tokens taken from it are taken from its parent too. Default: `true` with a `parentId`. */
  readonly cascade?: boolean;
  /** Texts of your own. Default: none. */
  readonly metadata?: Readonly<Record<string, string>>;
}

export function entityMissing(id: string): NotFoundError {
  return new NotFoundError(
    "entity_not_found",
    (ways) => `There is no entity ${id}; create it with ${ways.createEntity}.`,
  );
}

/**
 * What `updateEntity` changes. An entity without a parent that gets one also gets `cascade: true`, unless the patch
 * says otherwise.
 */
export interface EntityPatch {
  /** A name for people. Default: unchanged. */
  readonly name?: string;
  /** Another parent; `null`: none. Default: unchanged. */
  readonly parentId?: string | null;
  /** Another plan; `null`: none. Default: unchanged. */
  readonly planId?: string | null;
  /** Whether tokens taken from it are taken from its parent too. Default: unchanged. */
  readonly cascade?: boolean;
  /** Texts of your own, in place of all that are stored. Default: unchanged. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** At most this many levels from an entity to its root, itself included. */
export const LEVELS_MAX = 8;

const NEW_ENTITY = new KnownNames<NewEntity>({
  ...{ id: true, name: true, parentId: true, planId: true, cascade: true, metadata: true },
});

export function newEntity(entity: NewEntity, nowMs: number): Entity {
  if (typeof entity === "string") {
    throw new ValidationError(
      "options_invalid",
      `An entity must be an object, not ${shown(entity)}; give { id: ${shown(entity)} }.`,
    );
  }
  const id = checkEntityId(entity?.id);
  NEW_ENTITY.check(entity, "The entity to be created");
  const { name, cascade, metadata } = entity;
  const parentId = ifGiven(checkEntityId, entity.parentId);
  const planId = ifGiven(checkPlanId, entity.planId);
  return {
    id,
    name: name === undefined ? id : checkDisplayName(id, name),
    ...given({ parentId, planId }),
    // A parent that is named is charged; to belong to it and not be charged to it must be said (ADR 11).
    cascade: cascade === undefined ? parentId !== undefined : checkFlag(id, cascade),
    metadata: metadata === undefined ? {} : checkMetadata(id, metadata),
    version: 1,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  };
}

/** Checks a name that may be left out, or be `null` for none. */
function ifGiven(check: (name: unknown) => string, name: string | null | undefined): string | undefined {
  return name === undefined || name === null ? undefined : check(name);
}

/** Throws where a patch is no object, or has a name that cannot be changed. `what`: the thing to be changed. */
export function checkPatchNames(what: string, patch: object, known: readonly string[]): void {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) {
    const remedy = "give an object such as { name }";
    throw new ValidationError("patch_invalid", `The change to ${what} is ${shown(patch)}; ${remedy}.`);
  }
  const unknown = Object.keys(patch).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new ValidationError("patch_invalid", `"${unknown}" of ${what} cannot be changed; ${hintFor(unknown, known)}.`);
}

export function checkPatch(id: string, patch: EntityPatch): EntityPatch {
  checkPatchNames(id, patch, ["name", "parentId", "planId", "cascade", "metadata"]);
  if (patch.name !== undefined) checkDisplayName(id, patch.name);
  if (patch.cascade !== undefined) checkFlag(id, patch.cascade);
  if (patch.metadata !== undefined) checkMetadata(id, patch.metadata);
  ifGiven(checkEntityId, patch.parentId);
  ifGiven(checkPlanId, patch.planId);
  return patch;
}

export function patched(entity: Entity, patch: EntityPatch, nowMs: number): Entity {
  const { parentId: parentBefore, planId: planBefore, ...rest } = entity;
  const parentId = valueAfter(patch.parentId, parentBefore);
  const planId = valueAfter(patch.planId, planBefore);
  // Without a parent the flag meant nothing. The first one is charged, as it would be had the entity been created below it.
  const cascade = parentBefore === undefined && parentId !== undefined ? true : entity.cascade;
  return {
    ...rest,
    ...given({
      parentId,
      planId,
      name: patch.name === undefined ? undefined : checkDisplayName(entity.id, patch.name),
    }),
    cascade: patch.cascade ?? cascade,
    ...given({ metadata: patch.metadata && { ...patch.metadata } }),
    version: entity.version + 1,
    updatedAtMs: nowMs,
  };
}

/** A change of an entity; with a `version` it is made only while the entity is at that version. */
export interface EntityChange {
  readonly patch: EntityPatch;
  readonly version: number | undefined;
  readonly nowMs: number;
}

export type EntityUpdate =
  | { readonly kind: "updated"; readonly entity: Entity }
  | { readonly kind: "missing" }
  | { readonly kind: "conflict"; readonly version: number }
  | PlanProblem
  | ParentProblem;

/** Why an entity cannot have a plan. */
export type PlanProblem = { readonly kind: "planMissing"; readonly planId: string };

/** The entity as a change leaves it, or why the change cannot be made. */
export function updateOf(
  entity: Entity | undefined,
  change: EntityChange,
  hierarchy: Hierarchy & PlansKnown,
): EntityUpdate {
  if (entity === undefined) return { kind: "missing" };
  const { patch, version, nowMs } = change;
  if (version !== undefined && version !== entity.version) return { kind: "conflict", version: entity.version };
  const { parentId } = patch;
  const problem =
    (typeof parentId === "string" ? parentProblem(entity.id, parentId, hierarchy) : undefined) ??
    planProblem(patch.planId, hierarchy);
  return problem ?? { kind: "updated", entity: patched(entity, patch, nowMs) };
}

/** A store as the check of a plan needs it, inside the transaction that will write the entity. */
export interface PlansKnown {
  hasPlan(id: string): boolean;
}

/** Why an entity cannot have this plan; undefined where it may, or names none. */
export function planProblem(planId: string | null | undefined, plans: PlansKnown): PlanProblem | undefined {
  return typeof planId !== "string" || plans.hasPlan(planId) ? undefined : { kind: "planMissing", planId };
}

/** Why an entity cannot hang below a parent. */
export type ParentProblem =
  | { readonly kind: "parentMissing"; readonly parentId: string }
  | { readonly kind: "cycle"; readonly path: readonly string[] }
  | { readonly kind: "tooDeep"; readonly levels: number };

/** A store as the check of a parent needs it, inside the transaction that will write the entity. */
export interface Hierarchy {
  parentOf(id: string): { readonly parentId?: string } | undefined;
  childrenOf(id: string): readonly string[];
}

/** Why `id` cannot hang below `parentId`, looking up to the root and down to the leaves; undefined where it may. */
export function parentProblem(id: string, parentId: string, hierarchy: Hierarchy): ParentProblem | undefined {
  const path = [id];
  for (let above: string | undefined = parentId; above !== undefined; ) {
    path.push(above);
    if (above === id) return { kind: "cycle", path };
    const entity = hierarchy.parentOf(above);
    if (entity === undefined) return { kind: "parentMissing", parentId: above };
    if (path.length > LEVELS_MAX) return { kind: "tooDeep", levels: path.length };
    above = entity.parentId;
  }
  const levels = path.length + heightBelow(id, hierarchy, LEVELS_MAX);
  return levels > LEVELS_MAX ? { kind: "tooDeep", levels } : undefined;
}

function heightBelow(id: string, hierarchy: Hierarchy, levelsMax: number): number {
  let height = 0;
  for (let row = hierarchy.childrenOf(id); row.length > 0 && height < levelsMax; height++) {
    row = row.flatMap((child) => hierarchy.childrenOf(child));
  }
  return height;
}

export function checkDisplayName(id: string, name: unknown): string {
  if (typeof name !== "string" || name.length > 256) {
    throw new ValidationError(
      "name_invalid",
      `The name of ${id} is ${shown(name)}; give a string of at most 256 characters.`,
    );
  }
  return name === "" ? id : name;
}

function checkFlag(id: string, cascade: unknown): boolean {
  if (typeof cascade !== "boolean") {
    throw new ValidationError("cascade_invalid", `cascade of ${id} is ${shown(cascade)}; give true or false.`);
  }
  return cascade;
}

export function checkMetadata(id: string, metadata: unknown): Readonly<Record<string, string>> {
  const bad = (): never => {
    throw new ValidationError(
      "metadata_invalid",
      `The metadata of ${id} is ${shown(metadata)}; give an object whose values are strings.`,
    );
  };
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata)) return bad();
  for (const value of Object.values(metadata)) if (typeof value !== "string") return bad();
  return { ...(metadata as Record<string, string>) };
}
