import { isAllowed, type NameRule } from "./name-rules.ts";
import { LEGIBLE, PACKED } from "./read-text.ts";
import { escaped, packed, unescaped, unpacked } from "./text-forms.ts";

// Names that may stand for any text: what is allowed stays as it is, and any other text is written with a mark in front. A name
// that happens to be written in that way would stand for two texts; so it is itself written in that way, and every allowed name
// stands for exactly one text.

export function isItsOwnName(text: string, rule: NameRule): boolean {
  return isAllowed(rule, text) && textIn(text, rule) === undefined;
}

/** The text that a name was written for; undefined for a name that stands for itself. */
export function textIn(name: string, rule: NameRule): string | undefined {
  const text = name.startsWith(LEGIBLE)
    ? unescaped(name.slice(LEGIBLE.length))
    : name.startsWith(PACKED)
      ? unpacked(name.slice(PACKED.length))
      : undefined;
  // Of several ways to write a text only one counts. The text is shorter than the name, so this comes to an end.
  return text === undefined || text === "" || isItsOwnName(text, rule) || written(text, rule) !== name
    ? undefined
    : text;
}

/** A text as a name; undefined where it is too long. */
export function written(text: string, { lengthMax, laterCharacter }: NameRule): string | undefined {
  // No text gets shorter by being written; one that is far too long is not even tried.
  if (text.length > lengthMax) return undefined;
  const legible = LEGIBLE + escaped(text, laterCharacter);
  if (legible.length <= lengthMax) return legible;
  const short = PACKED + packed(text);
  return short.length <= lengthMax ? short : undefined;
}
