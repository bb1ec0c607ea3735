import { type Hierarchy, LEVELS_MAX, type ParentProblem, parentProblem } from "../../domain/config/entity.ts";
import { given } from "../../domain/names/given.ts";
import type { Attributes } from "./codec.ts";
import { CHILD_LINK, CHILD_SEQ, entityOf, parentIn, standsBelow } from "./entities-record.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { chunksOf, collected } from "./paging.ts";
import { childrenIndex, tablePartition } from "./records.ts";
import { checkRecord, keyIn, type RecordWrite, updateRecord } from "./records-write.ts";
import { childKeys, entityKey, entityPk, GSI1PK, GSI1SK, parseChildSk } from "./schema.ts";

/** Either the writes that keep a placement below a parent valid in its transaction, or the reason why it is refused. */
export type Placement =
  | { readonly kind: "allowed"; readonly writes: readonly RecordWrite[] }
  | { readonly kind: "refused"; readonly problem: ParentProblem };

type TableParts = Pick<NamespaceParts, "records" | "namespaceId">;

/**
 * Checks that `id` may be placed below `parentId`. The transaction verifies that every ancestor still has the parent
 * that was read, so that two concurrent moves cannot make a cycle. Descendants of `id` are read but not verified:
 * there may be any number.
 */
export async function checkPlacement(
  parts: TableParts,
  parentId: string,
  id: string,
  isNew: boolean,
): Promise<Placement> {
  const above = await chainAbove(parts, parentId, id);
  const below = isNew ? new Map<string, readonly string[]>() : await treeBelow(parts, id);
  const hierarchy: Hierarchy = {
    parentOf: (ancestorId) => {
      const item = above.get(ancestorId);
      return item && given({ parentId: parentIn(item) });
    },
    childrenOf: (childId) => below.get(childId) ?? [],
  };
  const problem = parentProblem(id, parentId, hierarchy);
  if (problem !== undefined) return { kind: "refused", problem };
  const writes = [...above].map(([ancestorId, item]) => {
    const key = entityKey(parts.namespaceId, ancestorId);
    // The deletion of the parent is conditional on this number, so it fails if a child was added meanwhile.
    return ancestorId === parentId
      ? updateRecord(key, { add: { [CHILD_SEQ]: { N: "1" } } }, standsBelow(item))
      : checkRecord(key, standsBelow(item));
  });
  return { kind: "allowed", writes };
}

async function chainAbove(
  { records, namespaceId }: TableParts,
  parentId: string,
  id: string,
): Promise<ReadonlyMap<string, Attributes>> {
  const chain = new Map<string, Attributes>();
  for (let above: string | undefined = parentId; above !== undefined && above !== id && !chain.has(above); ) {
    const item = await records.get(entityKey(namespaceId, above));
    if (item === undefined || entityOf(item) === undefined || chain.size > LEVELS_MAX) break;
    chain.set(above, item);
    above = parentIn(item);
  }
  return chain;
}

async function treeBelow(parts: TableParts, id: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const tree = new Map<string, readonly string[]>();
  let row: readonly string[] = [id];
  for (let level = 0; row.length > 0 && level <= LEVELS_MAX; level++) {
    const next: string[] = [];
    for (const some of chunksOf(row, AT_ONCE)) {
      const found = await Promise.all(some.map((each) => childrenOf(parts, each)));
      for (const [i, each] of some.entries()) tree.set(each, found[i] ?? []);
      next.push(...found.flat());
    }
    row = next.filter((each) => !tree.has(each));
  }
  return tree;
}

const AT_ONCE = 16;

/** The children of an entity. One that this library created is always found; one of the original may be missed for a moment. */
export async function childrenOf({ records, namespaceId }: TableParts, id: string): Promise<readonly string[]> {
  const links = tablePartition(entityPk(namespaceId, id), { prefix: CHILD_LINK });
  const linked = records.query({ ...links, keysOnly: true });
  const indexed = records.query(childrenIndex(childKeys(namespaceId, id, "")[GSI1PK] ?? ""));
  const ids = new Set((await collected(linked)).map((item) => keyIn(item).sk.slice(CHILD_LINK.length)));
  for (const item of await collected(indexed)) {
    const childId = parseChildSk(item[GSI1SK]?.S ?? "");
    if (childId !== undefined) ids.add(childId);
  }
  // Links may be stale and the index may lag, so the entities themselves decide.
  const items = await records.getAll([...ids].map((childId) => entityKey(namespaceId, childId)));
  return [...ids].filter((_, i) => entityOf(items[i])?.parentId === id);
}
