import { KnownNames } from "../domain/names/known-names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type ExportOptions, exportDocument } from "../manifest/export.ts";
import type { Manifest } from "../manifest/manifest.ts";
import { parseWith } from "../manifest/parse.ts";
import type { Plan } from "../manifest/plan.ts";
import { planAsSaved, readSavedPlan, textOfPlan } from "../manifest/saved-plan.ts";
import { yamlOf } from "../manifest/yaml-text.ts";
import { calendar } from "./limits.ts";

// Declared limits: a YAML file says what a namespace's limits, policies and entities are.

export type { DeclaredPiece, EntityValue, LimitsValue, Piece, PieceValue, PlanValue } from "../domain/config/piece.ts";
export { type ApplyOptions, applyManifest } from "../manifest/apply.ts";
export type { Change } from "../manifest/change.ts";
export { type Drift, type DriftedPiece, driftOf } from "../manifest/drift.ts";
export type { ExportOptions } from "../manifest/export.ts";
export { type Manifest, ManifestInvalid, type ManifestProblem, type ProblemCode } from "../manifest/manifest.ts";
export { type Plan, type PlanOptions, planManifest } from "../manifest/plan.ts";
export { manifestSchema } from "../manifest/schema.ts";

/** Where a manifest came from. */
export interface ParseOptions {
  /** The name of the file, for messages. Default: none. */
  readonly file?: string;
}

const PARSE_OPTIONS = new KnownNames<ParseOptions>({ file: true });

/** Reads a manifest. Throws `ManifestInvalid` with every problem, each with its line and column. */
export function parseManifest(text: string, options: ParseOptions = {}): Manifest {
  const { file } = PARSE_OPTIONS.check(options, "The options of parseManifest");
  return parseWith(text, file, calendar);
}

/** Where a plan is saved and opened. */
export interface SavedPlanOptions {
  /**
   * The store that the plan is for, such as `dynamodb:limits`. A plan is opened only on the store that it was saved
   * for. Default: not recorded.
   */
  readonly store?: string;
}

const SAVED_OPTIONS = new KnownNames<SavedPlanOptions>({ store: true });

/** A plan as text (JSON), to show and approve. `openPlan` opens it again to apply it. */
export function savePlan(plan: Plan, options: SavedPlanOptions = {}): string {
  return textOfPlan(plan, SAVED_OPTIONS.check(options, "The options of savePlan").store);
}

/**
 * Opens a saved plan, to apply it. Throws `plan_outdated` if it would now do something that it did not show, or
 * replace another value.
 */
export async function openPlan(limiter: Limiter, text: string, options: SavedPlanOptions = {}): Promise<Plan> {
  const { store } = SAVED_OPTIONS.check(options, "The options of openPlan");
  return planAsSaved(limiter, readSavedPlan(text), { store, parse: (each) => parseWith(each, undefined, calendar) });
}

/**
 * The namespace as the text of a manifest that names the namespace and no owner. Planned on the same namespace, it
 * only adopts.
 */
export async function exportManifest(limiter: Limiter, options: ExportOptions = {}): Promise<string> {
  return yamlOf(await exportDocument(limiter, options));
}
