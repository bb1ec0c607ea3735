import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import { runningAccess, runningOverride } from "../domain/config/overrides.ts";
import {
  isSameValue,
  type OwnedPiece,
  type Piece,
  type PieceValue,
  pieceKey,
  pieceText,
  scopeOfPiece,
  valueInConfig,
  valueOfEntity,
  valueOfPlan,
} from "../domain/config/piece.ts";
import { ConflictError } from "../domain/names/errors.ts";
import { type Page, type PageRequest, pagesOf } from "../domain/names/paging.ts";
import type { LimiterParts } from "../engine/limiter/limiter-parts.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { Change } from "./manifest.ts";

/** Reads of a store over a network that are under way together. */
const READS_MAX = 16;
const PAGE = 1_000;

/** The stored values of pieces, by key. */
interface LivePieces {
  /** Pieces without a value are left out. Those that something hides until an instant have the value that counts afterwards. */
  readonly values: ReadonlyMap<string, PieceValue>;
  /** The instants until which pieces are hidden. */
  readonly hiddenUntilMs: ReadonlyMap<string, number>;
}

export async function livePieces(parts: LimiterParts, pieces: readonly Piece[]): Promise<LivePieces> {
  const live = new Map<string, PieceValue>();
  const hidden = new Map<string, number>();
  const nowMs = parts.deps.clock.now();
  const groups = new Map<string, Piece[]>();
  for (const piece of pieces) {
    // Everything of a level is read at once.
    const level = pieceKey({ ...piece, what: piece.level === undefined ? piece.what : "limits" });
    groups.set(level, [...(groups.get(level) ?? []), piece]);
  }
  await inParallel([...groups.values()], async (group) => {
    const [first] = group;
    const scope = first === undefined ? undefined : scopeOfPiece(first);
    if (scope === undefined) {
      const { value } = first === undefined ? {} : await livePiece(parts, first);
      if (first !== undefined && value !== undefined) live.set(pieceKey(first), value);
      return;
    }
    const config = await parts.deps.scope.config.get(scope);
    for (const piece of group) {
      const value = valueInConfig(piece.what, config);
      if (value !== undefined) live.set(pieceKey(piece), value);
      const untilMs = overrideEndMs(piece.what, config, nowMs);
      if (untilMs !== undefined) hidden.set(pieceKey(piece), untilMs);
    }
  });
  return { values: live, hiddenUntilMs: hidden };
}

/** The instant until which something hides a piece of a level; undefined: nothing does. */
export function overrideEndMs(
  what: Piece["what"],
  config: StoredConfig | undefined,
  nowMs: number,
): number | undefined {
  if (what === "access") return runningAccess(config, nowMs)?.untilMs;
  return what === "limits" || what === "totals" ? runningOverride(config, nowMs)?.untilMs : undefined;
}

/** Pieces of all owners. */
export function allOwned({ deps }: LimiterParts): Promise<readonly OwnedPiece[]> {
  return allOf((page) => deps.scope.manifests.list(page));
}

export function allConfigs(
  { deps }: LimiterParts,
  filter: { readonly entityId?: string },
): Promise<readonly { readonly scope: ConfigScope; readonly config: StoredConfig }[]> {
  return allOf((page) => deps.scope.manifests.listConfigs(filter, page));
}

/** Reads all configurations once, when they are first asked for. */
export function configsOnce(parts: LimiterParts): () => ReturnType<typeof allConfigs> {
  let configs: ReturnType<typeof allConfigs> | undefined;
  return () => {
    configs ??= allConfigs(parts, {});
    return configs;
  };
}

export async function allOf<Item>(fetch: (page: PageRequest) => MaybePromise<Page<Item>>): Promise<readonly Item[]> {
  const found: Item[] = [];
  for await (const { items } of pagesOf((from) => fetch({ limit: PAGE, mayBeShort: true, ...from }))) {
    for (const item of items) found.push(item);
  }
  return found;
}

async function inParallel<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < items.length) await work(items[next++] as Item);
  };
  await Promise.all(Array.from({ length: Math.min(READS_MAX, items.length) }, worker));
}

/** Throws if a change was not shown, or shown with another value before it. */
export function requireShown(shown: readonly Change[], now: readonly Change[]): void {
  const known = new Map(shown.map((change) => [pieceKey(change), change]));
  for (const change of now) {
    const before = known.get(pieceKey(change));
    if (before === undefined || !isSameChange(before, change)) throw outdated(change, 0);
  }
}

function isSameChange(one: Change, other: Change): boolean {
  return (
    one.action === other.action &&
    isSameValue(one.before ?? undefined, other.before ?? undefined) &&
    isSameValue(one.after ?? undefined, other.after ?? undefined)
  );
}

/** The stored value of a piece; for an entity or a plan also its version, for a conditional write. */
export interface LivePiece {
  readonly value: PieceValue | undefined;
  readonly version?: number;
}

export async function livePiece({ deps }: LimiterParts, piece: Piece): Promise<LivePiece> {
  const { what, entityId = "", planId = "" } = piece;
  if (what === "entity") {
    const entity = await deps.scope.entities.get(entityId);
    return entity === undefined ? { value: undefined } : { value: valueOfEntity(entity), version: entity.version };
  }
  if (what === "plan") {
    const plan = await deps.scope.plans.get(planId);
    return plan === undefined ? { value: undefined } : { value: valueOfPlan(plan), version: plan.version };
  }
  const scope = scopeOfPiece(piece);
  return { value: scope === undefined ? undefined : valueInConfig(what, await deps.scope.config.get(scope)) };
}

/** Whether a change may still be made: the piece has the value that was shown, or already the new one. */
export function isAsShown({ before, after }: Change, { value }: LivePiece): boolean {
  return isSameValue(before ?? undefined, value) || isSameValue(after ?? undefined, value);
}

export function outdated(change: Change, done: number): ConflictError {
  const what = `${change.action} ${pieceText(change)}`;
  return new ConflictError(
    "plan_outdated",
    done === 0
      ? `The plan is outdated: it would now ${what}, which it did not show. Nothing was changed; plan again.`
      : `The plan is outdated: to ${what} would replace a value that it did not show. ` +
          `${done} ${done === 1 ? "change was" : "changes were"} made before; plan again for the rest.`,
  );
}
