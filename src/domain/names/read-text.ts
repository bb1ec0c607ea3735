/** Before a text of which only the characters that are not allowed are changed: `text:auth0_7C42`. */
export const LEGIBLE = "text:";

/** Before a text that would be too long in that form, in which a character takes up to six: all of it packed, 3 bytes in 4. */
export const PACKED = "t64:";

/**
 * An entity id or a resource as its owner wrote it: for sentences that people read. Never throws. A name that only looks as if it
 * was made of a text is read as one, too, and half a character becomes a mark: what tells them apart is larger than all errors,
 * which every client loads.
 */
export function plainText(name: string): string {
  const [, form, rest = ""] = /^(text|t64):(.+)/.exec(name) ?? [];
  if (form === "text") {
    return rest.replace(/_u([\dA-F]{4})|_([\dA-F]{2})/g, (_, four, two) =>
      String.fromCharCode(Number.parseInt(four ?? two, 16)),
    );
  }
  if (form === undefined || !/^[\w-]+$/.test(rest) || rest.length % 4 === 1) return name;
  const bytes = atob(rest.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder().decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
}
