/** What a stored text may have in it must not move the cursor, colour the screen, or turn the direction of what follows. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, "\ufffd");
}

/** The same for a text of several lines. */
export function printableLines(text: string): string {
  return text.split("\n").map(printable).join("\n");
}

/** JSON as the page fixes it: never is null, which is what JSON.stringify makes of Infinity; what a terminal would obey is escaped. */
export function jsonOf(value: unknown): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(UNPRINTABLE, escaped);
}

/** Controls, ends of lines, and what changes the direction of the text after it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;
