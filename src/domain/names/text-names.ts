import { ValidationError } from "./errors.ts";
import { isAllowed, type NameRule } from "./name-rules.ts";
import { checkName, ENTITY_ID, RESOURCE, shown } from "./names.ts";
import { LEGIBLE, PACKED } from "./shown.ts";

// Two ways to write any text with letters, digits, `-` and `_`. Both keep halves of characters (lone surrogates), which UTF-8 has
// no room for, and both are read back only as far as they are written: what else is there is for the caller to compare.

/** The text with everything that is not allowed, and `_`, as `_7C` (below 256) or `_u20AC`, one UTF-16 unit after the other. */
function escaped(text: string, allowed: RegExp): string {
  let form = "";
  for (let i = 0; i < text.length; i++) {
    const unit = text.charAt(i);
    const code = text.charCodeAt(i);
    if (unit !== "_" && allowed.test(unit)) form += unit;
    else form += code < 256 ? `_${hex(code, 2)}` : `_u${hex(code, 4)}`;
  }
  return form;
}

function unescaped(form: string): string | undefined {
  let text = "";
  for (let i = 0; i < form.length; i++) {
    if (form.charAt(i) !== "_") {
      text += form.charAt(i);
      continue;
    }
    const [whole, four, two] = /^_(?:u([0-9A-F]{4})|([0-9A-F]{2}))/.exec(form.slice(i, i + 6)) ?? [];
    if (whole === undefined) return undefined;
    text += String.fromCharCode(Number.parseInt(four ?? two ?? "", 16));
    i += whole.length - 1;
  }
  return text;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** The bytes of the text, six bits a digit. */
function packed(text: string): string {
  let form = "";
  let bits = 0;
  let held = 0;
  for (const byte of bytesOf(text)) {
    held = (held << 8) | byte;
    for (bits += 8; bits >= 6; bits -= 6) form += DIGITS.charAt((held >> (bits - 6)) & 63);
    held &= (1 << bits) - 1;
  }
  return bits === 0 ? form : form + DIGITS.charAt((held << (6 - bits)) & 63);
}

function unpacked(form: string): string | undefined {
  const bytes: number[] = [];
  let bits = 0;
  let held = 0;
  for (const digit of form) {
    const value = DIGITS.indexOf(digit);
    if (value < 0) return undefined;
    held = (held << 6) | value;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push(held >> bits);
    held &= (1 << bits) - 1;
  }
  return textOfBytes(bytes);
}

/** UTF-8, in which half a character is written like a whole one of its number. */
function bytesOf(text: string): number[] {
  const bytes: number[] = [];
  for (const character of text) {
    const code = character.codePointAt(0) as number;
    const more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x1_0000 ? 2 : 3;
    bytes.push(more === 0 ? code : ((0xf00 >> (more + 1)) & 0xff) | (code >> (6 * more)));
    for (let i = more - 1; i >= 0; i--) bytes.push(0x80 | ((code >> (6 * i)) & 0x3f));
  }
  return bytes;
}

function textOfBytes(bytes: readonly number[]): string | undefined {
  let text = "";
  for (let i = 0; i < bytes.length; ) {
    const first = bytes[i++] as number;
    const more = first < 0x80 ? 0 : first < 0xc0 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf8 ? 3 : -1;
    if (more < 0 || i + more > bytes.length) return undefined;
    let code = more === 0 ? first : first & (0x3f >> more);
    for (let j = 0; j < more; j++) code = (code << 6) | ((bytes[i++] as number) & 0x3f);
    if (code > 0x10_ffff) return undefined;
    text += String.fromCodePoint(code);
  }
  return text;
}

function hex(code: number, digits: number): string {
  return code.toString(16).toUpperCase().padStart(digits, "0");
}

// Names that may stand for any text: what is allowed stays as it is, and any other text is written with a mark in front. A name
// that happens to be written in that way would stand for two texts; so it is itself written in that way, and every allowed name
// stands for exactly one text.

function isItsOwnName(text: string, rule: NameRule): boolean {
  return isAllowed(rule, text) && textIn(text, rule) === undefined;
}

/** The text that a name was written for; undefined for a name that stands for itself. */
function textIn(name: string, rule: NameRule): string | undefined {
  const text = name.startsWith(LEGIBLE)
    ? unescaped(name.slice(LEGIBLE.length))
    : name.startsWith(PACKED)
      ? unpacked(name.slice(PACKED.length))
      : undefined;
  // A text has one valid form among several. The text is shorter than the name, so this comes to an end.
  return text === undefined || text === "" || isItsOwnName(text, rule) || written(text, rule) !== name
    ? undefined
    : text;
}

/** A text as a name; undefined where it is too long. */
function written(text: string, { lengthMax, laterCharacter }: NameRule): string | undefined {
  // No text gets shorter by being written; one that is far too long is not even tried.
  if (text.length > lengthMax) return undefined;
  const legible = LEGIBLE + escaped(text, laterCharacter);
  if (legible.length <= lengthMax) return legible;
  const short = PACKED + packed(text);
  return short.length <= lengthMax ? short : undefined;
}

/**
 * Makes an entity id from any text, such as `auth0|42`, `a+b@x.org` or `::1`. A text that is a valid id stays as it
 * is. The same text always gives the same id, and two texts never give the same one. `textOfEntityId` is the way back.
 * An empty text, or one that is too long, is refused.
 *
 * ```ts
 * entityIdOf("key-1"); // "key-1"
 * entityIdOf("auth0|42"); // "text:auth0_7C42"
 * ```
 */
export function entityIdOf(text: string): string {
  return nameOf(text, ENTITY_ID);
}

/**
 * Makes a resource from any text: `resourceOf("GET /users")` is `"text:GET_20/users"`. A text that is a valid resource
 * stays as it is. Two texts never give the same resource. `textOfResource` is the way back. An empty text, or one that
 * is too long, is refused.
 */
export function resourceOf(text: string): string {
  return nameOf(text, RESOURCE);
}

/** The text that an entity id was made from. An id that `entityIdOf` did not change is its own text. */
export function textOfEntityId(entityId: string): string {
  return textIn(checkName(ENTITY_ID, entityId), ENTITY_ID) ?? entityId;
}

/** The text that a resource was made from. A resource that `resourceOf` did not change is its own text. */
export function textOfResource(resource: string): string {
  return textIn(checkName(RESOURCE, resource), RESOURCE) ?? resource;
}

/** A name for a text; undefined where the text is empty or too long. */
export function nameOfText(text: string, rule: NameRule): string | undefined {
  return isItsOwnName(text, rule) ? text : text === "" ? undefined : written(text, rule);
}

function nameOf(text: string, rule: NameRule): string {
  if (typeof text !== "string") {
    throw new ValidationError(rule.code, `No ${rule.what} can be made of ${shown(text)}; give a string.`);
  }
  // A header or a field that is not there would give everybody without it one bucket.
  if (text === "") {
    throw new ValidationError(
      rule.code,
      `No ${rule.what} can be made of an empty string: all callers without one would share a bucket. Refuse them, or give each a string.`,
    );
  }
  const name = nameOfText(text, rule);
  if (name !== undefined) return name;
  throw new ValidationError(
    rule.code,
    `The text ${shown(text)} of ${text.length} characters is too long: as ${rule.what} it needs more than ` +
      `${rule.lengthMax} characters. Use a shorter text, or a hash of this one.`,
  );
}
