import { type Hierarchy, LEVELS_MAX, type ParentProblem, parentProblem } from "../../domain/config/entity.ts";
import type { Attributes } from "./codec.ts";
import { CHILD_LINK, CHILD_SEQ, entityOf, parentIn, standsBelow } from "./entities-record.ts";
import { chunksOf, collected } from "./paging.ts";
import type { Records } from "./records.ts";
import { checkRecord, keyIn, type RecordWrite, updateRecord } from "./records-write.ts";
import { CHILDREN_INDEX, childKeys, entityKey, entityPk, GSI1PK, GSI1SK, PK, parseChildSk, SK } from "./schema.ts";

/** Whether an entity may be placed below a parent: the writes that keep it true in the transaction, or why it may not. */
type Placement =
  | { readonly kind: "allowed"; readonly writes: readonly RecordWrite[] }
  | { readonly kind: "refused"; readonly problem: ParentProblem };

/** The hierarchy of one namespace, read as it stands. */
export class DynamoHierarchy {
  readonly #records: Records;
  readonly #namespaceId: string;

  constructor(records: Records, namespaceId: string) {
    this.#records = records;
    this.#namespaceId = namespaceId;
  }

  /**
   * Whether `id` may be placed below `parentId`. The transaction checks that every ancestor still has the parent that was read,
   * so that two moves at once cannot make a circle. Descendants of `id` are read, not checked: there may be any number.
   */
  async checkPlacement(parentId: string, id: string, isNew: boolean): Promise<Placement> {
    const above = await this.#chainAbove(parentId, id);
    const below = isNew ? new Map<string, readonly string[]>() : await this.#treeBelow(id);
    const hierarchy: Hierarchy = {
      parentOf: (ancestorId) => {
        const item = above.get(ancestorId);
        if (item === undefined) return undefined;
        const grandparentId = parentIn(item);
        return grandparentId === undefined ? {} : { parentId: grandparentId };
      },
      childrenOf: (childId) => below.get(childId) ?? [],
    };
    const problem = parentProblem(id, parentId, hierarchy);
    if (problem !== undefined) return { kind: "refused", problem };
    const writes = [...above].map(([ancestorId, item]) => {
      const key = entityKey(this.#namespaceId, ancestorId);
      // A deletion of the parent goes by this number, and fails when a child came meanwhile.
      return ancestorId === parentId
        ? updateRecord(key, { add: { [CHILD_SEQ]: { N: "1" } } }, standsBelow(item))
        : checkRecord(key, standsBelow(item));
    });
    return { kind: "allowed", writes };
  }

  /** The first child by id. A child that this library made is never overlooked; one of the original may be, for a moment. */
  async firstChild(id: string): Promise<string | undefined> {
    const [first] = (await this.childrenOf(id)).toSorted();
    return first;
  }

  async #chainAbove(parentId: string, id: string): Promise<ReadonlyMap<string, Attributes>> {
    const chain = new Map<string, Attributes>();
    for (let above: string | undefined = parentId; above !== undefined && above !== id && !chain.has(above); ) {
      const item = await this.#records.get(entityKey(this.#namespaceId, above));
      if (item === undefined || entityOf(item) === undefined || chain.size > LEVELS_MAX) break;
      chain.set(above, item);
      above = parentIn(item);
    }
    return chain;
  }

  async #treeBelow(id: string): Promise<ReadonlyMap<string, readonly string[]>> {
    const tree = new Map<string, readonly string[]>();
    let row: readonly string[] = [id];
    for (let level = 0; row.length > 0 && level <= LEVELS_MAX; level++) {
      const next: string[] = [];
      for (const some of chunksOf(row, AT_ONCE)) {
        const found = await Promise.all(some.map((each) => this.childrenOf(each)));
        for (const [i, each] of some.entries()) tree.set(each, found[i] ?? []);
        next.push(...found.flat());
      }
      row = next.filter((each) => !tree.has(each));
    }
    return tree;
  }

  /** The children of an entity. One that this library made is never overlooked; one of the original may be, for a moment. */
  async childrenOf(id: string): Promise<readonly string[]> {
    const linked = this.#records.query({
      partition: [PK, entityPk(this.#namespaceId, id)],
      range: { name: SK, prefix: CHILD_LINK },
      keysOnly: true,
      consistent: true,
    });
    const indexed = this.#records.query({
      index: CHILDREN_INDEX,
      partition: [GSI1PK, childKeys(this.#namespaceId, id, "")[GSI1PK] ?? ""],
    });
    const ids = new Set((await collected(linked)).map((item) => keyIn(item).sk.slice(CHILD_LINK.length)));
    for (const item of await collected(indexed)) {
      const childId = parseChildSk(item[GSI1SK]?.S ?? "");
      if (childId !== undefined) ids.add(childId);
    }
    // Neither is asked alone: a link may be left over, and the index may be behind.
    const items = await this.#records.getAll(
      [...ids].map((childId) => entityKey(this.#namespaceId, childId)),
      { consistent: true },
    );
    return [...ids].filter((_, i) => entityOf(items[i])?.parentId === id);
  }
}

const AT_ONCE = 16;
