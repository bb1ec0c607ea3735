import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  type Scalar,
} from "yaml";
import type { CronCheck } from "../domain/limits/schedule.ts";
import { nearestName } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import type { FileProblem, ManifestProblem, ProblemCode } from "./manifest.ts";

/** A value in a document, and the offsets of it and of its key. */
export interface DocumentEntry {
  readonly node: Node | undefined;
  /** The offset of the key, or of the item in a list. */
  readonly keyAt: number;
  readonly valueAt: number;
  readonly path: string;
}

export interface Member extends DocumentEntry {
  readonly key: string;
}

export type Members = ReadonlyMap<string, Member>;

/**
 * Reads a document and notes its problems. A wrong value is read as absent, so that the rest is checked too. `Own` are codes of problems
 * that only one kind of file has.
 */
export class Reading<Own extends string = never> {
  readonly calendar: CronCheck;
  readonly #document: Document;
  readonly #lines: LineCounter | undefined;
  readonly #problems: (FileProblem<ProblemCode | Own> & { readonly at: number })[] = [];

  /** `lines`: absent of a document that was no text, and has no places but paths. */
  constructor(document: Document, lines: LineCounter | undefined, calendar: CronCheck) {
    this.#document = document;
    this.#lines = lines;
    this.calendar = calendar;
  }

  get problems(): readonly FileProblem<ProblemCode | Own>[] {
    const inOrder = this.#problems.toSorted((a, b) => a.at - b.at);
    return inOrder.map(({ at: _, ...problem }) => problem);
  }

  fail(code: ProblemCode | Own, at: number, path: string, message: string): void {
    const least = this.#lines === undefined ? 0 : 1;
    const { line, col } = this.#lines?.linePos(at) ?? { line: 0, col: 0 };
    this.#problems.push({ at, line: Math.max(least, line), column: Math.max(least, col), path, code, message });
  }

  /** Notes a wrong value. */
  invalid({ valueAt, path }: DocumentEntry, message: string): undefined {
    this.fail("value_invalid", valueAt, path, message);
    return undefined;
  }

  root(): DocumentEntry {
    const node = (this.#document.contents ?? undefined) as Node | undefined;
    return { node, keyAt: 0, valueAt: node?.range?.[0] ?? 0, path: "" };
  }

  /** The members of a map with known keys. `reasons` says why a key is not allowed here, for some that are allowed elsewhere. */
  known(entry: DocumentEntry, keys: readonly string[], reasons: Readonly<Record<string, string>> = {}): Members {
    return new Map(this.#membersOf(entry, keys, reasons).map((member) => [member.key, member]));
  }

  /** The members of a map with any keys. */
  members(entry: DocumentEntry): readonly Member[] {
    return this.#membersOf(entry, undefined, {});
  }

  /** Reads each member of a map whose keys are names. None if there is no map. */
  eachNamed<Item>(
    entry: DocumentEntry | undefined,
    check: (name: string) => void,
    read: (member: Member) => readonly Item[],
  ): readonly Item[] {
    if (entry === undefined) return [];
    return this.members(entry).flatMap((member) => (this.isNamed(member, check) ? read(member) : []));
  }

  /** Whether the key of a member is a valid name. */
  isNamed({ key, keyAt, path }: Member, check: (name: string) => void): boolean {
    try {
      check(key);
      return true;
    } catch (error) {
      this.fail("name_invalid", keyAt, path, sentence(error));
      return false;
    }
  }

  /** Each key once. A key that is there twice or unknown is noted and left out. */
  #membersOf(
    entry: DocumentEntry,
    known: readonly string[] | undefined,
    reasons: Readonly<Record<string, string>>,
  ): readonly Member[] {
    const node = this.#resolved(entry.node);
    if (!isMap(node)) {
      this.invalid(entry, `give a map here, not ${shownNode(node)}`);
      return [];
    }
    const seen = new Set<string>();
    return node.items.flatMap((pair): readonly Member[] => {
      const keyNode = pair.key as Node | null;
      const keyAt = keyNode?.range?.[0] ?? entry.valueAt;
      const key = this.#keyText(keyNode);
      if (key === undefined) {
        this.fail("name_invalid", keyAt, entry.path, "a key must be a plain string");
        return [];
      }
      const path = `${entry.path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      if (seen.has(key)) {
        this.fail("key_duplicate", keyAt, path, `the key "${key}" is here twice; keep one of them`);
        return [];
      }
      seen.add(key);
      if (known !== undefined && !known.includes(key)) {
        this.fail("key_unknown", keyAt, path, unknownText(key, known, reasons));
        return [];
      }
      const value = pair.value as Node | null;
      return [{ key, node: value ?? undefined, keyAt, valueAt: value?.range?.[0] ?? keyAt, path }];
    });
  }

  /** The items of a list, which must not be empty. */
  items(entry: DocumentEntry, what: string): readonly DocumentEntry[] {
    const node = this.#resolved(entry.node);
    if (!isSeq(node) || node.items.length === 0) {
      this.invalid(entry, `give a list of ${what} here, not ${shownNode(node)}`);
      return [];
    }
    return node.items.map((item, i) => {
      const at = (item as Node | null)?.range?.[0] ?? entry.valueAt;
      return { node: (item as Node | null) ?? undefined, keyAt: at, valueAt: at, path: `${entry.path}/${i}` };
    });
  }

  isMap({ node }: DocumentEntry): boolean {
    return isMap(this.#resolved(node));
  }

  /** The value of a scalar. Undefined: it is a map, a list or absent. */
  scalar({ node }: DocumentEntry): unknown {
    const resolved = this.#resolved(node);
    return isScalar(resolved) ? resolved.value : undefined;
  }

  /** A text that passes a check of the library. */
  checked(entry: DocumentEntry | undefined, check: (text: string) => string): string | undefined {
    const text = entry && this.text(entry);
    if (entry === undefined || text === undefined) return undefined;
    try {
      return check(text);
    } catch (error) {
      return this.invalid(entry, sentence(error));
    }
  }

  text(entry: DocumentEntry): string | undefined {
    const value = this.scalar(entry);
    if (typeof value === "string") return value;
    return this.invalid(entry, `give a string, not ${this.shown(entry)}; put it in quotes if it is one`);
  }

  flag(entry: DocumentEntry): boolean | undefined {
    const value = this.scalar(entry);
    return typeof value === "boolean" ? value : this.invalid(entry, `give true or false, not ${this.shown(entry)}`);
  }

  whole(
    entry: DocumentEntry,
    what: string,
    { least, most }: { readonly least: number; readonly most: number },
  ): number | undefined {
    const value = this.scalar(entry);
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= least && value <= most) return value;
    return this.invalid(entry, `give ${what} from ${least} to ${most}, not ${this.shown(entry)}`);
  }

  shown({ node }: DocumentEntry): string {
    return shownNode(this.#resolved(node));
  }

  #resolved(node: Node | undefined): Node | undefined {
    return isAlias(node) ? (node.resolve(this.#document) as Node | undefined) : node;
  }

  /** A key such as 42 or true is a name, too, as it is written. */
  #keyText(node: Node | null): string | undefined {
    const resolved = this.#resolved(node ?? undefined);
    if (!isScalar(resolved)) return undefined;
    const { value, source } = resolved as Scalar;
    return typeof value === "string" ? value : (source ?? undefined);
  }
}

export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function unknownText(key: string, known: readonly string[], reasons: Readonly<Record<string, string>>): string {
  const reason = Object.hasOwn(reasons, key) ? reasons[key] : undefined;
  if (reason !== undefined) return `"${key}" is not allowed here: ${reason}`;
  const near = nearestName(key, known);
  return `unknown key "${key}"; ${near === undefined ? `known: ${known.join(", ")}` : `did you mean "${near}"?`}`;
}

function shownNode(node: Node | undefined): string {
  if (isScalar(node)) return node.value === null ? "nothing" : shown(node.value);
  if (isMap(node)) return "a map";
  return isSeq(node) ? "a list" : "nothing";
}

/** Opens the one YAML document of a file; its problems, where it cannot be read at all. `Own`: as of `Reading`. */
export function openReading<Own extends string>(
  text: string,
  calendar: CronCheck,
  messages: { readonly nothing: string; readonly second: string },
): Reading<Own> | readonly ManifestProblem[] {
  const lines = new LineCounter();
  // Duplicate keys are reported with the other problems, by position.
  const documents = parseAllDocuments(text.replace(/^\uFEFF/, ""), { lineCounter: lines, uniqueKeys: false });
  const [document, second] = "empty" in documents ? [] : documents;
  if (document === undefined) return [problemAt(1, 1, ["empty", messages.nothing])];
  const broken = document.errors.map(({ pos, message }): ManifestProblem => {
    const { line, col } = lines.linePos(pos[0]);
    const [what = message] = message.split(/ at line \d+/);
    return problemAt(line, col, ["yaml_syntax", what]);
  });
  if (broken.length > 0) return broken;
  const reading = new Reading<Own>(document, lines, calendar);
  if (second !== undefined) reading.fail("yaml_syntax", second.range[0], "", messages.second);
  return reading;
}

/** A problem of the document as a whole. */
export function problemAt(
  line: number,
  column: number,
  [code, message]: readonly [ProblemCode, string],
): ManifestProblem {
  return { line, column, path: "", code, message };
}
