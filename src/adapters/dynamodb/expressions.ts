/** Placeholders for attribute names, by number: names may have dots and dashes, or be key words of DynamoDB. */
export class NamePlaceholders {
  /** The names by their placeholders, as a request has them. */
  readonly names: Record<string, string> = {};
  readonly #known = new Map<string, string>();

  name(name: string): string {
    let placeholder = this.#known.get(name);
    if (placeholder === undefined) {
      placeholder = `#${this.#known.size}`;
      this.#known.set(name, placeholder);
      this.names[placeholder] = name;
    }
    return placeholder;
  }
}

/** The actions of an update, by clause; a clause without actions is left out. */
export function updateExpression(clauses: {
  readonly SET: readonly string[];
  readonly ADD: readonly string[];
  readonly DELETE: readonly string[];
  readonly REMOVE: readonly string[];
}): string {
  return Object.entries(clauses)
    .flatMap(([word, actions]) => (actions.length === 0 ? [] : [`${word} ${actions.join(", ")}`]))
    .join(" ");
}
