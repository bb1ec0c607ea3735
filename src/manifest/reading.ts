import { type Document, isAlias, isMap, isScalar, isSeq, type LineCounter, type Node, type Scalar } from "yaml";
import { nearestName } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import type { ManifestProblem, ProblemCode } from "./manifest.ts";

/** A value in a document, and the offsets of it and of its key. */
export interface DocumentEntry {
  readonly node: Node | undefined;
  /** Of the key; of the item itself in a list. */
  readonly keyAt: number;
  readonly valueAt: number;
  readonly path: string;
}

/** A member of a map. */
export interface Member extends DocumentEntry {
  readonly key: string;
}

/** Looks at a document and notes what is wrong with it; what is wrong is read as absent, so that the rest is looked at too. */
export class Reading {
  readonly #document: Document.Parsed;
  readonly #lines: LineCounter;
  readonly #problems: (ManifestProblem & { readonly at: number })[] = [];

  constructor(document: Document.Parsed, lines: LineCounter) {
    this.#document = document;
    this.#lines = lines;
  }

  get problems(): readonly ManifestProblem[] {
    const inOrder = this.#problems.toSorted((a, b) => a.at - b.at);
    return inOrder.map(({ at: _, ...problem }) => problem);
  }

  fail(code: ProblemCode, at: number, path: string, message: string): void {
    const { line, col } = this.#lines.linePos(at);
    const column = Math.max(1, col);
    this.#problems.push({ at, line: Math.max(1, line), column, path, code, message });
  }

  /** Of a value that is not what it should be. */
  invalid({ valueAt, path }: DocumentEntry, message: string): undefined {
    this.fail("value_invalid", valueAt, path, message);
    return undefined;
  }

  root(): DocumentEntry {
    const node = this.#document.contents ?? undefined;
    return { node: node as Node | undefined, keyAt: 0, valueAt: node?.range?.[0] ?? 0, path: "" };
  }

  /** The members of a map, each key once; those that are not known are told and left out. `known` undefined: any name. */
  members(
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

  /** The items of a list that has any. */
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

  /** The value of a scalar; undefined of anything else. */
  scalar({ node }: DocumentEntry): unknown {
    const resolved = this.#resolved(node);
    return isScalar(resolved) ? resolved.value : undefined;
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

  // A key such as 42 or true is a name all the same, as it is written.
  #keyText(node: Node | null): string | undefined {
    const resolved = this.#resolved(node ?? undefined);
    if (!isScalar(resolved)) return undefined;
    const { value, source } = resolved as Scalar;
    return typeof value === "string" ? value : (source ?? undefined);
  }
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
