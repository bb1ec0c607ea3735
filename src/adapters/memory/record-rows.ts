import type { AuditEvent } from "../../domain/config/audit.ts";
import type { ListedRecord, RecordColumns, RecordKind, RecordPut, StoredRecord } from "../../ports/record-store.ts";
import { OrderedMap } from "./ordered-map.ts";

/** The audit log of a namespace. What is older than `keepMs` leaves at the old end when something is added at the new one. */
class MemoryAudit {
  readonly #keepMs: number;
  /** Oldest first. */
  readonly #events: AuditEvent[] = [];
  /** The number of events that have left: the place of an event is its number in the whole log, so it stays right when old ones go. */
  #left = 0;

  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  get length(): number {
    return this.#events.length;
  }

  push(event: AuditEvent): void {
    this.#events.push(event);
    this.drop(event.atMs - this.#keepMs, Number.POSITIVE_INFINITY);
  }

  has(eventId: string): boolean {
    return this.#events.some((event) => event.eventId === eventId);
  }

  /** Newest first. */
  list(entityId: string | undefined, after: readonly string[] | undefined, max: number): readonly ListedRecord[] {
    const found: ListedRecord[] = [];
    let at = after === undefined ? this.#events.length : Number(after[0]) - this.#left - 1;
    while (at > 0 && found.length < max) {
      const event = this.#events[--at];
      if (event === undefined || (entityId !== undefined && event.entityId !== entityId)) continue;
      found.push({ key: [event.eventId], body: event, place: [String(this.#left + at + 1)] });
    }
    return found;
  }

  listOldest(after: readonly string[] | undefined, max: number): readonly ListedRecord[] {
    const from = after === undefined ? 0 : Math.max(0, Number(after[0]) - this.#left);
    const found = this.#events.slice(from, from + max);
    return found.map((event, i) => ({
      key: [event.eventId],
      body: event,
      place: [String(this.#left + from + i + 1)],
    }));
  }

  /** Drops up to so many of the oldest that are from before then; answers how many. */
  drop(beforeMs: number, max: number): number {
    let old = 0;
    while (old < max && (this.#events[old]?.atMs ?? beforeMs) < beforeMs) old++;
    if (old > 0) this.#events.splice(0, old);
    this.#left += old;
    return old;
  }
}

/** A record as memory has it. */
export interface MemoryRecord extends StoredRecord {
  readonly by: RecordPut["by"];
}

/** The text that a record is found by. A line break comes before every character of a name: so texts sort as keys do, part by part. */
export function textOf(key: readonly string[]): string {
  return key.join("\n");
}

/** More rows of the refusal log than a process writes at a time. */
const LOG_DROPPED_AT_ONCE = 1_000;

/** A list looks at this many texts before it checks whether it has enough. */
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
    list: {
      readonly kind?: RecordKind;
      readonly from: string;
      readonly isMeant?: (record: MemoryRecord) => boolean | "end";
    },
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
        const isWanted = text.startsWith(from) ? (isMeant?.(record) ?? true) : "end";
        if (isWanted === "end") return found;
        if (!isWanted) continue;
        found.push({ key: record.key, body: record.body, place: text.slice(from.length).split("\n") });
      }
      if (texts.length === 0 || found.length >= max) return found;
      at = texts.at(-1) as string;
    }
  }

  /** Up to so many leases and keys that are to be forgotten by then, the oldest first. */
  forgottenBy(nowMs: number, max: number): readonly MemoryRecord[] {
    const texts = this.#ordered.keysAfter("forget\n", max);
    const last = `forget\n${sortable(nowMs)}\v`;
    return texts
      .filter((text) => text.startsWith("forget\n") && text < last)
      .map((text) => this.#ordered.get(text) as MemoryRecord);
  }

  /** Drops rows of the refusal log of hours that began then or before, and the oldest beyond so many. */
  boundLog(untilMs: number, rowsMax: number): void {
    const log = this.of("refusalLog");
    for (const text of log.keysAfter("", LOG_DROPPED_AT_ONCE)) {
      const isOld = Number(text.slice(0, text.indexOf("\n"))) <= untilMs;
      if (!isOld && log.size <= rowsMax) return;
      this.delete("refusalLog", text);
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

/** The places of a record in lists that do not go by keys. */
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
      const { dueAtMs, forgottenAtMs } = by as RecordColumns["lease"];
      return [
        ...(dueAtMs === undefined ? [] : [`due\n${sortable(dueAtMs)}\n${key[0]}`]),
        ...(forgottenAtMs === undefined ? [] : [`forget\n${sortable(forgottenAtMs)}\nlease\n${key[0]}`]),
      ];
    }
    case "leaseKey":
      return [`forget\n${sortable((by as RecordColumns["leaseKey"]).forgottenAtMs)}\nkey\n${key[0]}`];
    case "refusalLog": {
      const [hour, entityId, id] = key;
      // The newest hour first.
      return [`log\n${sortable(Number.MAX_SAFE_INTEGER - Number(hour))}\n${entityId}\n${id}`];
    }
    default:
      return [];
  }
}

/** Whole numbers of ms that sort as texts do. */
export function sortable(ms: number | string): string {
  return String(ms).padStart(16, "0");
}
