import type { ListedRecord, RecordColumns, RecordKind, RecordPut, StoredRecord } from "../../ports/record-store.ts";
import { MemoryAudit } from "./audit.ts";
import { OrderedMap } from "./ordered-map.ts";

/** A record as memory has it. */
export interface MemoryRecord extends StoredRecord {
  readonly by: RecordPut["by"];
}

/** The text that a record is found by. A line break comes before every character of a name: so texts sort as keys do, part by part. */
export function textOf(key: readonly string[]): string {
  return key.join("\n");
}

/** So many texts are looked at before it is asked whether there are enough. */
const TEXTS_AT_ONCE = 256;

/** The limits of so many scopes may have been deleted and still be known: nobody may fill the memory with them. */
const DELETED_MAX = 10_000;

/** The records of one namespace, or of the registry of namespaces. */
export class RecordRows {
  readonly #kinds = new Map<RecordKind, OrderedMap<MemoryRecord>>();
  /** Records of lists that do not go by keys, by the name of the list and the place in it. */
  readonly #ordered = new OrderedMap<MemoryRecord>();
  /** Histories of scopes that have no limits any more: the longest without them first. */
  readonly #deleted = new Set<string>();
  readonly audit: MemoryAudit;

  constructor(auditKeepMs: number) {
    this.audit = new MemoryAudit(auditKeepMs);
  }

  of(kind: RecordKind): OrderedMap<MemoryRecord> {
    let found = this.#kinds.get(kind);
    if (found === undefined) {
      found = new OrderedMap();
      this.#kinds.set(kind, found);
    }
    return found;
  }

  *all(): Generator<MemoryRecord> {
    for (const records of this.#kinds.values()) yield* records.values();
  }

  put(record: MemoryRecord): void {
    const text = textOf(record.key);
    const records = this.of(record.kind);
    this.#takeOut(records.get(text));
    records.set(text, record);
    for (const place of placesOf(record)) this.#ordered.set(place, record);
    if (record.kind === "config" || record.kind === "history") this.#boundDeleted(text);
  }

  delete(kind: RecordKind, text: string): void {
    const records = this.of(kind);
    this.#takeOut(records.get(text));
    records.delete(text);
    if (kind === "config" || kind === "history") this.#boundDeleted(text);
  }

  at(list: string): MemoryRecord | undefined {
    return this.#ordered.get(list);
  }

  /**
   * Up to so many records of a list after a place, those that are meant. The list is of all records of a kind whose keys begin so, or one
   * that does not go by keys. The place is what comes behind that in the text.
   */
  after(
    list: { readonly kind?: RecordKind; readonly from: string; readonly isMeant?: (record: MemoryRecord) => boolean },
    after: readonly string[] | undefined,
    max: number,
  ): readonly ListedRecord[] {
    const { kind, from, isMeant } = list;
    const records = kind === undefined ? this.#ordered : this.of(kind);
    const found: ListedRecord[] = [];
    // The first may end where the others go on: then it comes right after the text without its last line break.
    let at = after === undefined ? from.slice(0, -1) : from + textOf(after);
    for (;;) {
      const texts = records.keysAfter(at, Math.min(max - found.length, TEXTS_AT_ONCE));
      for (const text of texts) {
        const record = records.get(text) as MemoryRecord;
        if (!text.startsWith(from)) return found;
        if (isMeant?.(record) === false) continue;
        found.push({ key: record.key, body: record.body, place: text.slice(from.length).split("\n") });
      }
      if (texts.length === 0 || found.length >= max) return found;
      at = texts.at(-1) as string;
    }
  }

  #takeOut(before: MemoryRecord | undefined): void {
    if (before !== undefined) for (const place of placesOf(before)) this.#ordered.delete(place);
  }

  #boundDeleted(text: string): void {
    this.#deleted.delete(text);
    const config = this.of("config").get(text)?.by as RecordColumns["config"] | undefined;
    if (config?.hasLimits || !this.of("history").has(text) || text.startsWith("stints\n")) return;
    this.#deleted.add(text);
    const [longest] = this.#deleted;
    if (this.#deleted.size > DELETED_MAX && longest !== undefined) this.delete("history", longest);
  }
}

/** Where a record stands in lists that do not go by keys. */
function placesOf({ kind, key, by }: Pick<MemoryRecord, "kind" | "key" | "by">): readonly string[] {
  switch (kind) {
    case "namespace": {
      const { status, name } = by as RecordColumns["namespace"];
      return [status === "active" ? `active\n${name}` : `orphan\n${key[0]}`];
    }
    case "entity": {
      const { parentId, planId } = by as RecordColumns["entity"];
      return [
        ...(parentId === undefined ? [] : [`parent\n${parentId}\n${key[0]}`]),
        ...(planId === undefined ? [] : [`plan\n${planId}\n${key[0]}`]),
      ];
    }
    case "config": {
      const { hasLimits } = by as RecordColumns["config"];
      return hasLimits && key[0] === "entity" && key[1] !== "" ? [`limits\n${key[2]}\n${key[1]}`] : [];
    }
    case "lease": {
      const { dueAtMs } = by as RecordColumns["lease"];
      return dueAtMs === undefined ? [] : [`due\n${sortable(dueAtMs)}\n${key[0]}`];
    }
    default:
      return [];
  }
}

/** Whole numbers of ms that sort as texts do. */
export function sortable(ms: number | string): string {
  return String(ms).padStart(16, "0");
}
