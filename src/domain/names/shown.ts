/** A text without what stands between the scheme and the host of an address, where passwords are. */
export function withoutSecrets(text: string): string {
  return text.replace(/(:\/|\/\/)[^\s"'`]*@/g, "$1***@");
}

/** A value as an error message shows it: quoted, cut after 50 characters, without passwords. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(cut(value));
  if (typeof value === "bigint") return `${value}n`;
  const isPlain = typeof value === "object" || typeof value === "boolean";
  return isPlain ? cut(jsonOf(value)) : String(value);
}

function cut(secret: string): string {
  const text = withoutSecrets(secret);
  return text.length > 50 ? `${text.slice(0, 50)}...` : text;
}

// A circle, or a bigint inside: showing a wrong value must not fail in its own way.
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}
