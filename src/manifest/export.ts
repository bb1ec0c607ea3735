import { stringify } from "yaml";
import { isTotal } from "../domain/config/config.ts";
import {
  type OwnedPiece,
  type Piece,
  type PieceValue,
  pieceIn,
  pieceKey,
  pieceText,
  valueInConfig,
  valueOfEntity,
  valueOfPlan,
} from "../domain/config/piece.ts";
import { ConflictError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type LimiterParts, partsOf } from "../engine/limiter/limiter-parts.ts";
import { documentOf, type ManifestDocument } from "./document.ts";
import { runOf } from "./drift.ts";
import { allConfigs, allOf, allOwned, overrideEndMs } from "./live.ts";

/** What to export. */
export interface ExportOptions {
  /** Only pieces of this owner; `true`: only pieces that have an owner. Default: `false`, also pieces that have none. */
  readonly owned?: boolean | string;
}

const OPTIONS = new KnownNames<ExportOptions>({ owned: true });

/** A namespace as a manifest, and what that does not say. */
export interface Exported {
  readonly document: ManifestDocument;
  /** Limits and access that have an end, a sentence each: a manifest has what counts afterwards. */
  readonly warnings: readonly string[];
}

/**
 * The namespace as a manifest that names it, and the owner of its pieces: planned there, it only adopts what has no owner. A manifest has
 * one owner, so that of several one must be picked.
 */
export async function exportDocument(limiter: Limiter, options: ExportOptions): Promise<Exported> {
  const { owned = false } = OPTIONS.check(options, "The options of exportManifest");
  const parts = partsOf(limiter);
  const records = await allOwned(parts);
  const owner = await ownerIn(parts, records, owned);
  const found: { readonly piece: Piece; readonly value: PieceValue }[] = [];
  const hidden: { readonly piece: Piece; readonly untilMs: number }[] = [];
  const nowMs = parts.deps.clock.now();
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
      const piece = pieceIn(what, scope);
      if (value !== undefined) found.push({ piece, value });
      const untilMs = overrideEndMs(what, config, nowMs);
      if (untilMs !== undefined) hidden.push({ piece, untilMs });
    }
  }
  const wanted = new Set(records.filter((each) => each.owner === owner).map(({ piece }) => pieceKey(piece)));
  const isWanted = ({ piece }: { readonly piece: Piece }) => owned === false || wanted.has(pieceKey(piece));
  const document = documentOf({ namespace: parts.settings.namespace, ...given({ owner }) }, found.filter(isWanted));
  return { document, warnings: hidden.filter(isWanted).map(warningOf) };
}

/** The owner whose manifest is exported; undefined: no piece has one. */
async function ownerIn(
  parts: LimiterParts,
  records: readonly OwnedPiece[],
  owned: boolean | string,
): Promise<string | undefined> {
  if (typeof owned === "string") {
    await runOf(parts, owned, records);
    return owned;
  }
  const owners = [...new Set(records.map(({ owner }) => owner))].toSorted();
  if (owners.length < 2) return owners[0];
  const named = `${owners.slice(0, OWNERS_NAMED).join(", ")}${owners.length > OWNERS_NAMED ? " and others" : ""}`;
  throw new ConflictError(
    "owners_several",
    `The pieces of the namespace ${parts.settings.namespace} have ${owners.length} owners, ${named}, and a manifest has one; ` +
      "pick one with --owner (owned).",
  );
}

const OWNERS_NAMED = 5;

function warningOf({ piece, untilMs }: { readonly piece: Piece; readonly untilMs: number }): string {
  const end = new Date(untilMs).toISOString();
  return `${pieceText(piece)}: what runs until ${end} is not exported, but what counts afterwards.`;
}

/** A manifest as a file, with the line by which editors find its schema, and what it does not say as comments. */
export function yamlOf({ document, warnings }: Exported): string {
  const schema = "# yaml-language-server: $schema=./node_modules/zae-limiter/manifest.schema.json\n";
  const notes = warnings.map((warning) => `# ${warning}\n`).join("");
  return `${schema}${notes}${stringify(document, { lineWidth: 0, aliasDuplicateObjects: false })}`;
}
