import type { RecordCommit, RecordKey, RecordPut } from "../../ports/record-store.ts";
import type { AuditNumbers, SlotCommit, SlotReply } from "./commit-script.ts";
import type { Connection } from "./connection.ts";
import type { Drop, DropQueue } from "./drops.ts";
import type { NamespaceKeys } from "./keys.ts";
import { byOf, hintsOf, restOf } from "./record-texts.ts";

/** Each of a change's writes, and the record that it is of, where it is of one. */
export type RecordWrite = SlotCommit["puts"][number] & { readonly record?: RecordKey; readonly by?: RecordPut["by"] };

/** The parts that the operations on records share. */
export interface RecordParts {
  readonly connection: Connection;
  readonly numbers: AuditNumbers;
  readonly drops: DropQueue;
  readonly answerMs: number;
  readonly keysOf: (namespaceId: string) => NamespaceKeys;
}

export function guardsIn(keys: NamespaceKeys, { guard }: RecordCommit): SlotCommit["guards"] {
  if (guard.kind === "generation") return [];
  return guard.versions.map((key) => ({ key: keys.record(key), version: key.version }));
}

export function putsIn(keys: NamespaceKeys, { puts }: RecordCommit): readonly RecordWrite[] {
  return puts.map((put) => ({
    ...{ key: keys.record(put), rest: restOf(put), hints: hintsOf(keys, put, put.by) },
    ...{ record: put, by: put.by },
  }));
}

export function deletesIn(keys: NamespaceKeys, { deletes }: RecordCommit): readonly RecordWrite[] {
  return deletes.flatMap((each) =>
    each.kind === "everythingOf" || each.kind === "someIn"
      ? []
      : [{ key: keys.record(each), rest: "", hints: [], record: each }],
  );
}

/** The mark by which a change knows that it was made: with the generation that it makes. */
export function eventPuts(keys: NamespaceKeys, { guard, event }: RecordCommit): SlotCommit["puts"] {
  if (event === undefined) return [];
  const { eventId, atMs } = event.event;
  const generation = guard.kind === "generation" ? guard.generation + 1 : 0;
  return [{ key: keys.event(eventId), rest: `\n${generation}`, hints: keys.eventHints(eventId, atMs) }];
}

/** What names in vain what was written: the entries by which it was found before, and keys that are empty now. */
export function clearedAfter(
  keys: NamespaceKeys,
  writes: readonly RecordWrite[],
  { version, found }: Extract<SlotReply, { readonly kind: "done" }>,
): readonly Drop[] {
  const last = new Map(writes.map((write) => [write.key, write]));
  return writes.flatMap(({ key, record }, i) => {
    const line = found[i];
    const { rest, by, hints: kept } = last.get(key) as RecordWrite;
    if (line === undefined || record === undefined) return rest === "" ? [{ key, version: "", hints: [] }] : [];
    const before = line === "" && by === undefined ? [] : hintsOf(keys, record, byOf(line));
    const stale =
      line === ""
        ? []
        : before.filter(({ index, member }) => !kept.some((one) => one.index === index && one.member === member));
    if (rest !== "" && stale.length === 0) return [];
    return [{ key, version: rest === "" ? "" : String(version), hints: stale }];
  });
}
