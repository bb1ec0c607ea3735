/** The codes of each class of errors, by the tables of docs/reference/errors.md. */
export function codesByClass(markdown: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const [, code = "", name = ""] of markdown.matchAll(/^\| `([a-z_]+)` \| `([A-Z]\w+)`/gm)) {
    found.set(name, [...(found.get(name) ?? []), code]);
  }
  return found;
}
