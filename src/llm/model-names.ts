// What may follow the name of a listed model, after `-`, `@` or `:`, so that it is still the same model. A bare small number after
// a dash is none: `claude-opus-4-5` is another model than `claude-opus-4`, at another price.
const DATE = String.raw`\d{4}-?\d{2}-?\d{2}|\d{2}-\d{2}|\d{2}-\d{4}|\d{4}`;
const VERSION = String.raw`v\d{1,3}(?:\.\d{1,3}){0,2}|\d{1,3}(?:\.\d{1,3}){1,2}|\d{3}`;
const SUFFIX = new RegExp(String.raw`^(?:[-@:](?:${DATE}|latest|preview|${VERSION})|[@:]\d{1,3})+$`);

/** The listed model that a name stands for: itself, or the longest that it begins with, where a date, a version, `latest` or `preview` follows. */
export function listedModel(model: string, listed: ReadonlyMap<string, unknown>): string | undefined {
  if (listed.has(model)) return model;
  for (let end = model.length - 1; end > 0; end--) {
    const name = model.slice(0, end);
    if (listed.has(name) && SUFFIX.test(model.slice(end))) return name;
  }
  return undefined;
}
