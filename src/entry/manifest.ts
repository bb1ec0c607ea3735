import { KnownNames } from "../domain/known-names.ts";
import type { Limiter } from "../engine/limiter.ts";
import { type ExportOptions, exportDocument } from "../manifest/export.ts";
import type { Manifest } from "../manifest/manifest.ts";
import { parseWith } from "../manifest/parse.ts";
import { yamlOf } from "../manifest/yaml-text.ts";
import { calendar } from "./limits.ts";

// Declared limits: a YAML file says what a namespace's limits, policies and entities are.

export type { DeclaredPiece, EntityValue, LimitsValue, Piece, PieceValue, PlanValue } from "../domain/piece.ts";
export { type ApplyOptions, applyManifest } from "../manifest/apply.ts";
export type { Change } from "../manifest/change.ts";
export { type Drift, type DriftedPiece, driftOf } from "../manifest/drift.ts";
export type { ExportOptions } from "../manifest/export.ts";
export { type Manifest, ManifestInvalid, type ManifestProblem, type ProblemCode } from "../manifest/manifest.ts";
export { type Plan, type PlanOptions, planManifest } from "../manifest/plan.ts";
export { manifestSchema } from "../manifest/schema.ts";

/** Where a manifest came from. */
export interface ParseOptions {
  /** For messages. */
  readonly file?: string;
}

const PARSE_OPTIONS = new KnownNames<ParseOptions>({ file: true });

/** What a manifest declares. Throws `ManifestInvalid` with every problem, each with its line and column. */
export function parseManifest(text: string, options: ParseOptions = {}): Manifest {
  const { file } = PARSE_OPTIONS.check(options, "The options of parseManifest");
  return parseWith(text, file, calendar);
}

/** The namespace as the text of a manifest that names it, and no owner: planned there it finds nothing but adoptions. */
export async function exportManifest(limiter: Limiter, options: ExportOptions = {}): Promise<string> {
  return yamlOf(await exportDocument(limiter, options));
}
