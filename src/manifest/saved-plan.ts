import { pieceKey } from "../domain/config/piece.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { requireShown } from "./live.ts";
import type { Change, Manifest } from "./manifest.ts";
import { basisOf, namespaceMismatch, type Plan, type PlanOptions } from "./plan.ts";

/** A plan that was written down, with the text of its manifest. Its changes are what was shown; they are compared, never made. */
export interface SavedPlan {
  readonly namespace: string;
  /** On which store it was planned, as whoever saved it names that. */
  readonly store: string | undefined;
  readonly options: PlanOptions;
  readonly manifest: string;
  readonly changes: readonly Change[];
}

const FORMAT = "zae-limiter plan 1";

/** A plan as a text, to be shown, approved and applied later. */
export function textOfPlan(plan: Plan, store: string | undefined): string {
  const { manifest, options } = basisOf(plan);
  if (manifest.text === undefined) {
    throw new ValidationError(
      "plan_invalid",
      "This plan cannot be saved, because its manifest was not read from text; plan a result of parseManifest.",
    );
  }
  const about = given({ format: FORMAT, store, options, manifest: manifest.text });
  return `${JSON.stringify({ ...plan, ...about }, undefined, 2)}\n`;
}

export function readSavedPlan(text: string): SavedPlan {
  const { format, namespace, store, options, manifest, changes } = objectIn(text);
  const isWhole =
    format === FORMAT &&
    typeof namespace === "string" &&
    (store === undefined || typeof store === "string") &&
    isOptions(options) &&
    typeof manifest === "string" &&
    Array.isArray(changes) &&
    changes.every(isChange);
  if (!isWhole) throw notAPlan();
  return { namespace, store, options, manifest, changes };
}

/** How a saved plan is made again, and on which store, named as it was when the plan was saved. */
interface Replanning {
  readonly store: string | undefined;
  readonly parse: (text: string) => Manifest;
  readonly plan: (manifest: Manifest, options: PlanOptions) => Promise<Plan>;
}

/** The plan as it would be made now, if it does nothing that the saved one did not show. */
export async function planAsSaved(saved: SavedPlan, { store, parse, plan }: Replanning): Promise<Plan> {
  if (saved.store !== undefined && store !== undefined && saved.store !== store) {
    throw new ValidationError(
      "plan_mismatch",
      `The plan was made on ${saved.store}, and this is ${store}; apply it there, or plan here.`,
    );
  }
  const now = await plan(parse(saved.manifest), saved.options);
  if (saved.namespace !== now.namespace) throw namespaceMismatch(saved.namespace, now.namespace);
  return asShown(now, saved.changes);
}

/** The plan, if it does nothing that was not shown. */
export function asShown(plan: Plan, shown: readonly Change[]): Plan {
  try {
    requireShown(shown, plan.changes);
  } catch (error) {
    // Values that no plan has: they were written by hand.
    throw error instanceof TypeError ? notAPlan() : error;
  }
  return plan;
}

function objectIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Told below.
  }
  throw notAPlan();
}

function isOptions(value: unknown): value is PlanOptions {
  if (typeof value !== "object" || value === null) return false;
  const { owner, keep, prune, takeOver, ...others } = value as Record<string, unknown>;
  const areFlags = [keep, prune, takeOver].every((flag) => flag === undefined || typeof flag === "boolean");
  return typeof owner === "string" && areFlags && Object.keys(others).length === 0;
}

function isChange(value: unknown): value is Change {
  if (typeof value !== "object" || value === null) return false;
  const { action, what, before, after } = value as Record<string, unknown>;
  if (typeof action !== "string" || typeof what !== "string" || before === undefined || after === undefined)
    return false;
  return typeof pieceKey(value as Change) === "string";
}

function notAPlan(): ValidationError {
  return new ValidationError(
    "plan_invalid",
    "This is not a plan saved by this version; save one with `zae-limiter limits plan -o FILE` (savePlan).",
  );
}
