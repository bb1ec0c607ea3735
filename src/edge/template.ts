import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { ENTITY_ID, type NameRule, RESOURCE } from "../domain/names/names.ts";
import { nameOfText } from "../domain/names/text-names.ts";

/** A text of an entry; bytes where they are no UTF-8. */
export type EntryText = string | Uint8Array;

/** A text with places for values: `ip-{remote_address}`. */
export interface Template {
  readonly text: string;
  /** The texts before the first place, between the places, and after the last: one more than there are keys. */
  readonly literals: readonly [string, ...string[]];
  readonly keys: readonly string[];
}

/** The bytes as a text; as they are where they are no UTF-8. */
export function entryText(bytes: Buffer): EntryText {
  return isUtf8(bytes) ? bytes.toString("utf8") : bytes;
}

/** The template of a text; undefined where a brace has no partner. */
export function templateOf(text: string): Template | undefined {
  const literals: [string, ...string[]] = [""];
  const keys: string[] = [];
  for (const piece of text.split(/(\{[^{}]*\})/)) {
    if (/^\{[^{}]+\}$/.test(piece)) {
      keys.push(piece.slice(1, -1));
      literals.push("");
    } else if (/[{}]/.test(piece)) return undefined;
    else literals[literals.length - 1] += piece;
  }
  return { text, literals, keys };
}

/** Whether two places have nothing between them that tells their values apart. */
export function isAmbiguous({ literals }: Template): boolean {
  return literals.slice(1, -1).some((between) => !/[-.:/|@]/.test(between));
}

type Values = ReadonlyMap<string, EntryText>;

export function entityIdFrom(template: Template, values: Values): string {
  return idFrom(template, values, ENTITY_ID);
}

export function resourceFrom(template: Template, values: Values): string {
  return idFrom(template, values, RESOURCE);
}

function idFrom(template: Template, values: Values, rule: NameRule): string {
  const [first] = template.literals;
  // Without a place it is the id itself, which was checked with the file.
  return template.keys.length === 0 ? first : idOfText(filled(template, values), rule);
}

function filled({ literals, keys }: Template, values: Values): EntryText {
  const [before, after = ""] = literals;
  if (keys.length === 1) {
    const value = values.get(keys[0] as string) ?? "";
    if (typeof value === "string") return before === "" && after === "" ? value : before + value + after;
    return Buffer.concat([Buffer.from(before), value, Buffer.from(after)]);
  }
  return keys.reduce((text, key, i) => text + escaped(values.get(key) ?? "") + literals[i + 1], before as string);
}

/** A value among others: every byte but those of `A-Za-z0-9_` as `%XX`, so that no value has what stands between two. */
function escaped(value: EntryText): string {
  if (typeof value === "string" && /^\w*$/.test(value)) return value;
  return Array.from(Buffer.from(value as string), (byte) => {
    const character = String.fromCharCode(byte);
    return /^\w$/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}

/** A text that reads as a hash is hashed, too: nobody can choose the id of somebody else's long text. */
const READS_AS_HASH = /^hash:[0-9a-f]{32}$/;

/** An id for any text: two texts never share one, and none is an error. */
function idOfText(text: EntryText, rule: NameRule): string {
  const name = typeof text === "string" ? nameOfText(text, rule) : undefined;
  if (name !== undefined && !(name.startsWith("hash:") && READS_AS_HASH.test(name))) return name;
  return `hash:${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
}
