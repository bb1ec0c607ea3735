import type { AuditEvent } from "../../src/domain/config/audit.ts";
import type { ItemCall, ItemKey, ItemStore, ItemWrite, WriteTrace } from "../../src/ports/item-store.ts";

/** Whose client sent a write. */
export type Side = "ours" | "theirs";

/** A write as it was sent. */
export interface Sent {
  readonly side: Side;
  readonly owner: string;
  readonly write: ItemWrite;
  /** The version of configuration that its client is writing into items just then; undefined: it is not. */
  readonly version: number | undefined;
}

/** Remembers who sent which write, so that whoever watches the table can tell. */
export class Wires {
  readonly #sent = new WeakMap<WriteTrace, Sent>();
  /** Which version a client is writing into items, by its name. */
  readonly versions = new Map<string, number>();

  of(trace: WriteTrace | undefined): Sent | undefined {
    return trace === undefined ? undefined : this.#sent.get(trace);
  }

  /** The same line, with its writes remembered. */
  tap(line: ItemStore, side: Side, owner: string): ItemStore {
    return {
      write: (write: ItemWrite, call: ItemCall) => line.write(this.#signed(write, side, owner), call),
      transact: (
        writes: readonly ItemWrite[],
        options: { readonly token: string; readonly event: AuditEvent | undefined },
        call: ItemCall,
      ) =>
        line.transact(
          writes.map((write) => this.#signed(write, side, owner)),
          options,
          call,
        ),
      read: (keys: readonly ItemKey[], options: { readonly consistent: boolean }, call: ItemCall) =>
        line.read(keys, options, call),
      listKeys: (owner, page) => line.listKeys(owner, page),
      listBuckets: (resource, page) => line.listBuckets(resource, page),
    };
  }

  #signed(write: ItemWrite, side: Side, owner: string): ItemWrite {
    // The same write sent again has the same trace, and is remembered as it was first sent.
    const trace = write.trace ?? { form: "operation", readingMs: Number.NaN, parts: [], spare: [] };
    const signed = { ...write, trace };
    if (!this.#sent.has(trace))
      this.#sent.set(trace, { side, owner, write: signed, version: this.versions.get(owner) });
    return signed;
  }
}
