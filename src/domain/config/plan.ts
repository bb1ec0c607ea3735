import { NotFoundError, ValidationError } from "../names/errors.ts";
import { hintFor, KnownNames } from "../names/known-names.ts";
import { checkPlanId, shown } from "../names/names.ts";
import { checkDisplayName, checkMetadata } from "./entity.ts";

/** A named set of limits that entities refer to. A change of the plan is one write, however many entities refer to it. */
export interface Plan {
  /** What entities name as their `planId`. */
  readonly id: string;
  /** A name for people. */
  readonly name: string;
  /** Texts of your own. The limiter does not read them. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Grows by one with every change. `updatePlan(id, patch, { version })` changes this version only. */
  readonly version: number;
  /** In ms since 1970. */
  readonly createdAtMs: number;
  /** In ms since 1970. */
  readonly updatedAtMs: number;
}

/** What `createPlan` takes. */
export interface NewPlan {
  /** What entities name as their `planId`. */
  readonly id: string;
  /** A name for people. Default: the id. */
  readonly name?: string;
  /** Texts of your own. Default: none. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** What `updatePlan` changes. */
export interface PlanPatch {
  /** A name for people. Default: unchanged. */
  readonly name?: string;
  /** Texts of your own, in place of all that are stored. Default: unchanged. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** A change of a plan; with a `version` it is made only while the plan is at that version. */
export interface PlanChange {
  readonly patch: PlanPatch;
  readonly version: number | undefined;
  readonly nowMs: number;
}

export type PlanUpdate =
  | { readonly kind: "updated"; readonly plan: Plan }
  | { readonly kind: "missing" }
  | { readonly kind: "conflict"; readonly version: number };

const NEW_PLAN = new KnownNames<NewPlan>({ id: true, name: true, metadata: true });

export function planMissing(id: string): NotFoundError {
  return new NotFoundError("plan_not_found", (ways) => `There is no plan ${id}; create it with ${ways.createPlan}.`);
}

export function newPlan(given: NewPlan, nowMs: number): Plan {
  const id = checkPlanId(given?.id);
  NEW_PLAN.check(given, "The plan to be created");
  return {
    id,
    name: given.name === undefined ? id : checkDisplayName(id, given.name),
    metadata: given.metadata === undefined ? {} : checkMetadata(id, given.metadata),
    version: 1,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  };
}

export function checkPlanPatch(id: string, patch: PlanPatch): PlanPatch {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) {
    throw new ValidationError(
      "patch_invalid",
      `The change to the plan ${id} is ${shown(patch)}; give an object such as { name }.`,
    );
  }
  const known = ["name", "metadata"];
  const unknown = Object.keys(patch).find((key) => !known.includes(key));
  if (unknown !== undefined) {
    throw new ValidationError(
      "patch_invalid",
      `"${unknown}" of the plan ${id} cannot be changed; ${hintFor(unknown, known)}.`,
    );
  }
  const { name, metadata } = patch;
  return {
    ...(name === undefined ? {} : { name: checkDisplayName(id, name) }),
    ...(metadata === undefined ? {} : { metadata: checkMetadata(id, metadata) }),
  };
}

/** The plan as a change leaves it, or why the change cannot be made. */
export function planUpdate(plan: Plan | undefined, { patch, version, nowMs }: PlanChange): PlanUpdate {
  if (plan === undefined) return { kind: "missing" };
  if (version !== undefined && version !== plan.version) return { kind: "conflict", version: plan.version };
  return { kind: "updated", plan: { ...plan, ...patch, version: plan.version + 1, updatedAtMs: nowMs } };
}
