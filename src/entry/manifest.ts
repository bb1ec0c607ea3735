import type { ClientLimiter } from "../client/client.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { ApplyOptions } from "../manifest/apply.ts";
import type { Drift, DriftOptions } from "../manifest/drift.ts";
import { type ExportOptions, yamlOf } from "../manifest/export.ts";
import type { Manifest } from "../manifest/manifest.ts";
import { manifestsOf } from "../manifest/manifests.ts";
import { parseWith } from "../manifest/parse.ts";
import type { Plan, PlanOptions } from "../manifest/plan.ts";
import { planAsSaved, readSavedPlan, textOfPlan } from "../manifest/saved-plan.ts";
import { calendar } from "./limits.ts";

// Declared limits: a YAML file says what a namespace's limits, policies and entities are.

export type { DeclaredPiece, EntityValue, LimitsValue, Piece, PieceValue, PlanValue } from "../domain/config/piece.ts";
export type { ApplyOptions } from "../manifest/apply.ts";
export type { Drift, DriftedPiece, DriftOptions } from "../manifest/drift.ts";
export type { ExportOptions } from "../manifest/export.ts";
export type { Change } from "../manifest/manifest.ts";
export { type Manifest, ManifestInvalid, type ManifestProblem, type ProblemCode } from "../manifest/manifest.ts";
export type { Plan, PlanOptions } from "../manifest/plan.ts";
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

/** What applying a manifest would change. It only reads. A client of a service asks the service, with the scope `admin`. */
export async function planManifest(
  limiter: Limiter | ClientLimiter,
  manifest: Manifest,
  options: PlanOptions = {},
): Promise<Plan> {
  return manifestsOf(limiter).plan(manifest, options);
}

/**
 * Makes the changes of a plan, one after another, and stops at the first that fails. Planned and applied again, it
 * goes on there. It skips a change that somebody else made meanwhile. If the store changed so that it would do
 * something that the plan does not show, or replace another value, it throws `plan_outdated`: before the first change,
 * and again at each piece. A service makes the changes for some seconds at a time; `onChange` hears of them then.
 */
export async function applyManifest(
  limiter: Limiter | ClientLimiter,
  plan: Plan,
  options: ApplyOptions = {},
): Promise<Plan> {
  return manifestsOf(limiter).apply(plan, options);
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
export async function openPlan(
  limiter: Limiter | ClientLimiter,
  text: string,
  options: SavedPlanOptions = {},
): Promise<Plan> {
  const { store } = SAVED_OPTIONS.check(options, "The options of openPlan");
  const { plan } = manifestsOf(limiter);
  return planAsSaved(readSavedPlan(text), { store, plan, parse: (each) => parseWith(each, undefined, calendar) });
}

/**
 * Pieces of an owner whose stored values differ from the ones that were last applied, and who changed them. A piece
 * that an apply is just writing is left out.
 */
export async function driftOf(limiter: Limiter | ClientLimiter, options: DriftOptions = {}): Promise<Drift> {
  return manifestsOf(limiter).drift(options);
}

/**
 * The namespace as the text of a manifest that names the namespace, and the owner of its pieces. Planned on the same
 * namespace, it only adopts what has no owner. If several owners have pieces, pick one: `owned: "platform"`.
 */
export async function exportManifest(limiter: Limiter | ClientLimiter, options: ExportOptions = {}): Promise<string> {
  return yamlOf(await manifestsOf(limiter).export(options));
}
