import { type RedisConnection, type Reply, scriptOf, textOf } from "./connection.ts";
import { type Hint, hintCommand, type NamespaceKeys } from "./keys.ts";
import { luaText } from "./lua-texts.ts";

/** So many changes of a namespace are kept: a process that has missed more reads everything again. */
const CHANGES_KEPT = 128;

/** What others do at the same time makes a script ask for something else at most this often. */
const TRIES_MAX = 20;

/** A write of one namespace, all of it or none. */
export interface SlotCommit {
  /** The generation that must be the present one; undefined: any. */
  readonly generation?: number;
  /** Keys and the versions that they must have; 0: none. */
  readonly guards: readonly { readonly key: string; readonly version: number }[];
  readonly bumps: boolean;
  /** What the change touches; undefined: everything. */
  readonly touched: readonly string[] | undefined;
  /** `rest`: the text behind the line of the version; empty: the key is emptied. */
  readonly puts: readonly { readonly key: string; readonly rest: string; readonly hints: readonly Hint[] }[];
  /** The index must have this many entries between two of its members. */
  readonly counts?: readonly {
    readonly index: string;
    readonly from: string;
    readonly to: string;
    readonly count: number;
  }[];
  /** The key by which the commit knows itself, where it may have been made before. */
  readonly known?: { readonly key: string; readonly sent: "first" | "again" };
}

export type SlotReply =
  | {
      readonly kind: "done";
      readonly generation: number;
      readonly version: number;
      /** The finds of each key until now, in the order of the puts. Empty: the commit was made before, as its event says. */
      readonly found: readonly string[];
    }
  | { readonly kind: "moved" }
  /** An index has another number of entries by now. */
  | { readonly kind: "count" };

/** An event of the audit log: its number, which follows the last one's, is found by asking. */
interface SlotEvent {
  readonly entityId: string;
  readonly rest: string;
}

const COMMIT = scriptOf("commit", luaText("commit"));

/** The numbers of audit events that this process knows of, by namespace. A wrong one costs a trip. */
export class AuditNumbers {
  readonly #counts = new Map<string, number>();

  /** The number of the next event, as far as is known. */
  next({ namespaceId }: NamespaceKeys): number {
    return (this.#counts.get(namespaceId) ?? 0) + 1;
  }

  note({ namespaceId }: NamespaceKeys, count: number): void {
    this.#counts.set(namespaceId, count);
  }
}

/** Runs `commit.lua`, again where what it needs was not there yet. Rejects with the error of the client. */
export async function runCommit(
  connection: RedisConnection,
  keys: NamespaceKeys,
  commit: SlotCommit,
  {
    event,
    numbers,
    answerMs,
  }: { readonly event?: SlotEvent; readonly numbers: AuditNumbers; readonly answerMs: number },
): Promise<SlotReply> {
  for (let tries = 1; ; tries++) {
    const number = event && numbers.next(keys);
    const logged =
      event === undefined || number === undefined
        ? []
        : [{ key: keys.audit(number), rest: event.rest, hints: keys.auditHints(number, event.entityId) }];
    const puts = [...commit.puts, ...logged];
    const hints = puts.flatMap((put) => put.hints);
    const { counts = [], guards, known } = commit;
    const names = [
      ...[keys.generation, keys.changes, keys.writes, keys.auditCount, known?.key ?? keys.generation],
      ...guards.map(({ key }) => key),
      ...puts.map(({ key }) => key),
      ...hints.map(({ index }) => index),
      ...counts.map(({ index }) => index),
    ];
    const args = [
      ...[commit.generation === undefined ? "" : String(commit.generation), commit.bumps ? "1" : "0"],
      ...[commit.touched === undefined ? "" : JSON.stringify(commit.touched), String(CHANGES_KEPT)],
      ...[number === undefined ? "" : String(number), known?.sent ?? ""],
      ...[guards.length, puts.length, hints.length, counts.length].map(String),
      ...guards.map(({ version }) => String(version)),
      ...puts.map(({ rest }) => rest),
      ...hints.map(({ member }) => member),
      ...counts.flatMap(({ from, to, count }) => [from, to, String(count)]),
    ];
    const { reply, aheadError } = await connection.run(
      COMMIT,
      names,
      args,
      { answerMs },
      { ahead: hints.map(hintCommand) },
    );
    const [kind, ...rest] = (reply as readonly Reply[]).map((part) => textOf(part) ?? "");
    switch (kind) {
      case "done":
        if (number !== undefined && rest.length > 2) numbers.note(keys, number);
        return { kind, generation: Number(rest[0]), version: Number(rest[1]), found: rest.slice(2) };
      case "moved":
      case "count":
        return { kind };
      case "audit":
        numbers.note(keys, Number(rest[0]));
        break;
      default:
        // An entry went in between, or could not be put.
        if (aheadError !== undefined) throw aheadError;
    }
    if (tries === TRIES_MAX) throw new Error(`BUSY ${TRIES_MAX} times others came in between; nothing was written`);
  }
}
