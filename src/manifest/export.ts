import { isTotal } from "../domain/config/config.ts";
import {
  type Piece,
  type PieceValue,
  pieceIn,
  pieceKey,
  valueInConfig,
  valueOfEntity,
  valueOfPlan,
} from "../domain/config/piece.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import { documentOf, type ManifestDocument } from "./document.ts";
import { allConfigs, allOf, allOwned } from "./live.ts";

/** What to export. */
export interface ExportOptions {
  /** Only pieces of this owner; `true`: only pieces that have an owner. Default: `false`, all pieces. */
  readonly owned?: boolean | string;
}

const OPTIONS = new KnownNames<ExportOptions>({ owned: true });

/** The namespace as a manifest that names it, and no owner: planned there it finds nothing but adoptions. */
export async function exportDocument(limiter: Limiter, options: ExportOptions = {}): Promise<ManifestDocument> {
  const { owned = false } = OPTIONS.check(options, "The options of exportManifest");
  const parts = partsOf(limiter);
  const found: { readonly piece: Piece; readonly value: PieceValue }[] = [];
  for (const entity of await allOf((page) => parts.deps.scope.entities.list(page))) {
    found.push({ piece: { what: "entity", entityId: entity.id }, value: valueOfEntity(entity) });
  }
  for (const plan of await allOf((page) => parts.deps.scope.plans.list(page))) {
    found.push({ piece: { what: "plan", planId: plan.id }, value: valueOfPlan(plan) });
  }
  for (const { scope, config } of await allConfigs(parts, {})) {
    const limits = isTotal(scope) ? "totals" : "limits";
    for (const what of ["onUnavailable", "usageKeptDays", limits, "access", "cascade"] as const) {
      const value = valueInConfig(what, config);
      if (value !== undefined) found.push({ piece: pieceIn(what, scope), value });
    }
  }
  const records = owned === false ? [] : await allOwned(parts);
  const wanted = new Set(
    records.filter(({ owner }) => owned === true || owner === owned).map(({ piece }) => pieceKey(piece)),
  );
  const pieces = owned === false ? found : found.filter(({ piece }) => wanted.has(pieceKey(piece)));
  return documentOf(parts.settings.namespace, pieces);
}
