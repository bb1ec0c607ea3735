import type { AuditEvent } from "../../domain/config/audit.ts";
import type { RecordColumns, RecordKey, RecordKind, RecordPut } from "../../ports/record-store.ts";
import { type Reply, textOf } from "./connection.ts";
import { ForeignValue } from "./faults.ts";
import type { Hint, NamespaceKeys } from "./keys.ts";

/** A record as it is kept: `VERSION\nBY\nBODY`, both as JSON; an empty text where it was deleted. */
export interface KeptRecord {
  readonly version: number;
  readonly by: RecordPut["by"];
  readonly body: unknown;
}

/** The text of a record behind the line of its version, which the script writes. */
export function restOf({ by, body }: Pick<RecordPut, "by" | "body">): string {
  return `${JSON.stringify(by)}\n${JSON.stringify(body)}`;
}

/** The same of an event of the audit log, which is found by its number. */
export function auditRest(event: AuditEvent): string {
  return `\n${JSON.stringify(event)}`;
}

export function keptIn(reply: Reply | undefined): KeptRecord | undefined {
  const text = textOf(reply);
  if (text === undefined) return undefined;
  const byAt = text.indexOf("\n") + 1;
  const bodyAt = text.indexOf("\n", byAt) + 1;
  const version = Number(text.slice(0, byAt - 1));
  if (byAt === 0 || bodyAt === 0 || !Number.isSafeInteger(version)) {
    throw new ForeignValue("a value is not of the form VERSION, BY, BODY");
  }
  return { version, by: byOf(text.slice(byAt, bodyAt - 1)), body: JSON.parse(text.slice(bodyAt)) };
}

/** By what a record is found, from its line. */
export function byOf(line: string): RecordPut["by"] {
  return line === "" ? {} : (JSON.parse(line) as RecordPut["by"]);
}

/** The entries of indexes by which a record is found. */
export function hintsOf(keys: NamespaceKeys, { kind, key }: RecordKey, by: RecordPut["by"]): readonly Hint[] {
  const [one = "", two = "", three = "", four = ""] = key;
  switch (kind) {
    case "namespace":
      return [keys.hint("namespaces", one), keys.hint("namespacesByName", (by as By<"namespace">).name, one)];
    case "entity": {
      const { parentId, planId } = by as By<"entity">;
      return [
        keys.hint("entities", one),
        ...(parentId === undefined ? [] : [keys.hint("entitiesByParent", parentId, one)]),
        ...(planId === undefined ? [] : [keys.hint("entitiesByPlan", planId, one)]),
      ];
    }
    case "plan":
      return [keys.hint("plans", one)];
    case "config":
      return [keys.hint("configs", one, two, three), keys.hint("configsByResource", one, three, two)];
    case "history":
      return [keys.hint("histories", one, two, three)];
    case "owner":
      return [keys.hint("owners", one)];
    case "owned":
      return [keys.hint("owned", one)];
    case "lease": {
      const { dueAtMs, forgottenAtMs } = by as By<"lease">;
      return keys.leaseHints(one, dueAtMs, forgottenAtMs);
    }
    case "leaseKey":
      return keys.leaseKeyHints(one, (by as By<"leaseKey">).forgottenAtMs);
    case "refusalLog":
      return [
        keys.hint("refusalLogs", Number(one), two, three),
        keys.hint("refusalLogsByEntity", two, Number(one), three),
      ];
    case "refusal":
      return [
        keys.hint("refusals", Number(one), two, three, four),
        keys.hint("refusalsByEntity", two, Number(one), three, four),
      ];
    case "caller":
      return [
        keys.hint("callers", Number(one), two, three, four),
        keys.hint("callersByEntity", two, Number(one), three, four),
      ];
  }
}

type By<Kind extends RecordKind> = RecordColumns[Kind];
