import { ValidationError } from "./errors.ts";
import { shown } from "./names.ts";

/**
 * The names that an object of options may have. Made from the keys of its type, so that a name which the type gains or loses
 * does not compile until it is gained or lost here.
 */
export class KnownNames<Options> {
  readonly #names: ReadonlySet<string>;

  constructor(names: { readonly [Name in keyof Required<Options>]: unknown }) {
    this.#names = new Set(Object.keys(names));
  }

  /** The options as given. Throws for what is no object, and for a name that is not known: it would be ignored otherwise. */
  check<Given extends Options>(given: Given, what: string): Given {
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
      throw new ValidationError(
        "options_invalid",
        `${what} must be an object, not ${shown(given)}; known names: ${[...this.#names].join(", ")}.`,
      );
    }
    for (const name in given) if (!this.#names.has(name)) throw this.#unknown(name, what);
    return given;
  }

  /** Whether `check` would find nothing in an object. */
  areAll(given: object): boolean {
    for (const name in given) if (!this.#names.has(name)) return false;
    return true;
  }

  /** The known ones among options that are handed to several callees. */
  pick<Given extends Partial<Options>>(given: Given): Pick<Given, keyof Options & keyof Given> {
    const known = Object.entries(given).filter(([name]) => this.#names.has(name));
    return Object.fromEntries(known) as Pick<Given, keyof Options & keyof Given>;
  }

  #unknown(name: string, what: string): ValidationError {
    return new ValidationError(
      "option_unknown",
      `${what} ${/\b(options|terms)\b/.test(what) ? "have" : "has"} the unknown name ${shown(name)}; ` +
        `${hintFor(name, [...this.#names])}.`,
    );
  }
}

/** Throws `option_invalid` unless the value of an option can be used; `wanted` says what to give. */
export function requireOption(name: string, value: unknown, isValid: boolean, wanted: string): void {
  if (!isValid) throw new ValidationError("option_invalid", `${name} is ${shown(value)}; give ${wanted}.`);
}

/** The end of a sentence about a name that is not known: which one was probably meant, and which there are. */
export function hintFor(name: string, known: readonly string[]): string {
  const near = nearestName(name, known);
  const all = known.join(", ");
  return near === undefined ? `known: ${all}` : `did you mean \`${near}\`? Known: ${all}`;
}

/** The known name that was probably meant: one that only differs in case or dashes, begins or ends alike, or is a few letters away. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const plain = plainly(name);
  let nearest: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const other = plainly(candidate);
    const distance = lettersApart(plain, other);
    const farthest = Math.max(1, Math.floor(Math.min(plain.length, other.length) / 3));
    if (distance >= least || (distance > farthest && !isPartOf(plain, other)) || areSiblings(plain, other)) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

/** Short names that differ in their first letter are meant so: `rpm` and `tpm`, `day` and `pay`. Nobody mistypes the first of three. */
function areSiblings(one: string, other: string): boolean {
  return one.length <= 3 && one !== other && one.slice(1) === other.slice(1);
}

function plainly(name: string): string {
  return name.slice(0, NAME_COMPARED_MAX).toLowerCase().replace(/[_-]/g, "");
}

/** Names are compared by so many letters: nobody mistypes a longer one, and comparing takes the product of both lengths. */
const NAME_COMPARED_MAX = 40;

/** Whether one is how the other begins or ends: `parent` and `parentId`, `abortSignal` and `signal`. */
function isPartOf(one: string, other: string): boolean {
  const [short, long] = one.length < other.length ? [one, other] : [other, one];
  return short.length >= 3 && (long.startsWith(short) || long.endsWith(short));
}

/** The number of letters that must be added, left out, replaced or swapped with their neighbour. */
function lettersApart(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, j) => j);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1];
      let least = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      if (swapped) least = Math.min(least, (before[j - 2] ?? 0) + 1);
      row.push(least);
    }
    before = last;
    last = row;
  }
  return last[other.length] ?? 0;
}
