import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import {
  type OwnedPiece,
  type Piece,
  type PieceValue,
  pieceKey,
  scopeOfPiece,
  valueInConfig,
  valueOfEntity,
  valueOfPlan,
} from "../domain/config/piece.ts";
import { type Page, type PageRequest, pagesOf } from "../domain/names/paging.ts";
import type { LimiterParts } from "../engine/limiter/limiter-parts.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";

/** Reads of a store over a network that are under way together. */
const READS_MAX = 16;
const PAGE = 1_000;

/** What pieces say now, by their keys; those that say nothing are not in it. */
export async function liveValues(
  { deps }: LimiterParts,
  pieces: readonly Piece[],
): Promise<ReadonlyMap<string, PieceValue>> {
  const live = new Map<string, PieceValue>();
  const groups = new Map<string, Piece[]>();
  for (const piece of pieces) {
    // Everything of a level is read at once.
    const level = pieceKey({ ...piece, what: piece.level === undefined ? piece.what : "limits" });
    groups.set(level, [...(groups.get(level) ?? []), piece]);
  }
  await inParallel([...groups.values()], async (group) => {
    const [first] = group;
    const scope = first === undefined ? undefined : scopeOfPiece(first);
    if (first?.what === "plan") {
      const plan = await deps.scope.plans.get(first.planId ?? "");
      if (plan !== undefined) live.set(pieceKey(first), valueOfPlan(plan));
      return;
    }
    if (scope === undefined) {
      const entity = await deps.scope.entities.get(first?.entityId ?? "");
      if (first !== undefined && entity !== undefined) live.set(pieceKey(first), valueOfEntity(entity));
      return;
    }
    const config = await deps.scope.config.get(scope);
    for (const piece of group) {
      const value = valueInConfig(piece.what, config);
      if (value !== undefined) live.set(pieceKey(piece), value);
    }
  });
  return live;
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
