import { NotFoundError } from "../names/errors.ts";
import { given } from "../names/given.ts";
import { KnownNames } from "../names/known-names.ts";
import { checkPlanId } from "../names/names.ts";
import { checkDisplayName, checkMetadata, checkPatchNames } from "./entity.ts";

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

export function newPlan(plan: NewPlan, nowMs: number): Plan {
  const id = checkPlanId(plan?.id);
  NEW_PLAN.check(plan, "The plan to be created");
  const { name = id, metadata = {} } = planPatch(id, plan);
  return { id, name, metadata, version: 1, createdAtMs: nowMs, updatedAtMs: nowMs };
}

export function checkPlanPatch(id: string, patch: PlanPatch): PlanPatch {
  checkPatchNames(`the plan ${id}`, patch, ["name", "metadata"]);
  return planPatch(id, patch);
}

function planPatch(id: string, { name, metadata }: PlanPatch): PlanPatch {
  return given({
    name: name === undefined ? undefined : checkDisplayName(id, name),
    metadata: metadata === undefined ? undefined : checkMetadata(id, metadata),
  });
}

/** The plan as a change leaves it, or why the change cannot be made. */
export function planUpdate(plan: Plan | undefined, { patch, version, nowMs }: PlanChange): PlanUpdate {
  if (plan === undefined) return { kind: "missing" };
  if (version !== undefined && version !== plan.version) return { kind: "conflict", version: plan.version };
  return { kind: "updated", plan: { ...plan, ...patch, version: plan.version + 1, updatedAtMs: nowMs } };
}
