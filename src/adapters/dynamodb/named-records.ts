import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Entity } from "../../domain/config/entity.ts";
import type { Plan } from "../../domain/config/plan.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import { type Decision, failAfterMaxConflicts } from "./changes.ts";
import type { Attributes, AttributeValue } from "./codec.ts";
import { DELETING } from "./entities-record.ts";
import { changeIn, type NamespaceParts, readActive } from "./namespace-parts.ts";
import { idOf, pageAfter, where } from "./paging.ts";
import { namespaceIndex } from "./records.ts";
import { keyIn } from "./records-write.ts";
import { META_SK, type TableKey } from "./schema.ts";

interface NamedKind<Value> {
  readonly pkOf: (namespaceId: string, id: string) => string;
  readonly decode: (item: Attributes | undefined) => Value | undefined;
  /** Finishes an interrupted deletion; `mark` is that of the deletion. */
  readonly finish: (id: string, mark: AttributeValue, atMs: number) => Promise<void>;
  /** The name of one of them in messages. */
  readonly what: (id: string) => string;
}

/** Entities or plans of one namespace: an item each, which is marked before it is deleted together with what belongs to it. */
export class NamedRecords<Value extends Plan | Entity> {
  readonly #parts: NamespaceParts;
  readonly #kind: NamedKind<Value>;

  constructor(parts: NamespaceParts, kind: NamedKind<Value>) {
    this.#parts = parts;
    this.#kind = kind;
  }

  key(id: string): TableKey {
    return { pk: this.#kind.pkOf(this.#parts.namespaceId, id), sk: META_SK };
  }

  async get(id: string): Promise<Value | undefined> {
    return this.#kind.decode(await this.#parts.records.get(this.key(id)));
  }

  list(page: PageRequest): Promise<Page<Value>> {
    return pageAfter(page, (after, count) => this.#after(after, count), idOf);
  }

  /** Decides about an item as it is now. An interrupted deletion of the same id is finished first. */
  change<Reply>(
    id: string,
    event: AuditEvent,
    decide: (item: Attributes | undefined) => Promise<Decision<Reply>>,
  ): Promise<Reply> {
    const { finish, what } = this.#kind;
    return changeIn(this.#parts, what(id), event, async () => {
      for (let attempt = 0; ; attempt++) {
        failAfterMaxConflicts(attempt, what(id));
        const [item] = await readActive(this.#parts, [this.key(id)]);
        if (item?.[DELETING] === undefined) return decide(item);
        await finish(id, item[DELETING], event.atMs);
      }
    });
  }

  /** Decides about the deletion of an item that exists; finishes one that was interrupted. */
  delete<Reply>(
    id: string,
    event: AuditEvent,
    decide: (item: Attributes) => Promise<Decision<Reply>>,
  ): Promise<Reply | { readonly kind: "missing" } | { readonly kind: "deleted" }> {
    const { finish, what } = this.#kind;
    type Deletion = Decision<Reply | { readonly kind: "missing" } | { readonly kind: "deleted" }>;
    return changeIn(this.#parts, what(id), event, async (): Promise<Deletion> => {
      const [item] = await readActive(this.#parts, [this.key(id)]);
      if (item === undefined) return { reply: { kind: "missing" } };
      if (item[DELETING] === undefined) return decide(item);
      await finish(id, item[DELETING], event.atMs);
      return { reply: { kind: "deleted" } };
    });
  }

  async *#after(after: string | undefined, count: number): AsyncGenerator<Value> {
    const { namespaceId, records } = this.#parts;
    const { pkOf, decode } = this.#kind;
    const first = pkOf(namespaceId, "");
    // `!` sorts before every character of an id, `$` right after the `#` before it.
    const from = after === undefined ? first : `${pkOf(namespaceId, after)}!`;
    const keys = records.query(namespaceIndex(namespaceId, { from, to: `${first.slice(0, -1)}$` }));
    // Other items of the same partition have the same index key.
    const metas = where(keys, (item) => keyIn(item).sk === META_SK);
    for await (const [, item] of records.lookUp(metas, count, keyIn)) {
      const value = decode(item);
      if (value !== undefined) yield value;
    }
  }
}
