import { VersionError } from "./errors.ts";

/**
 * Reads what was written down in a compact form: throws where something else stands than what belongs there, so that damage, or
 * what a newer version has written, is never taken for a value.
 */
export class StoredForm {
  readonly #what: string;

  constructor(what: string) {
    this.#what = what;
  }

  parse(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      return this.fail("is no JSON");
    }
  }

  /** `length`: exactly so many. */
  list(value: unknown, length?: number): readonly unknown[] {
    if (Array.isArray(value) && (length === undefined || value.length === length)) return value;
    return this.fail(
      length === undefined ? "has no list where one belongs" : `has no list of ${length} where one belongs`,
    );
  }

  text(value: unknown): string {
    return typeof value === "string" ? value : this.fail("has no text where one belongs");
  }

  integer(value: unknown): number {
    // Nobody writes a nothing with a sign.
    const isWhole = Number.isSafeInteger(value) && !Object.is(value, -0);
    return isWhole ? (value as number) : this.fail("has no whole number where one belongs");
  }

  natural(value: unknown): number {
    const integer = this.integer(value);
    return integer >= 0 ? integer : this.fail("has a negative number where none belongs");
  }

  /** Null stands for what there is none of. */
  orNone<Value>(value: unknown, read: (value: unknown) => Value): Value | undefined {
    return value === null ? undefined : read(value);
  }

  oneOf<Value extends string>(value: unknown, all: readonly Value[]): Value {
    const found = all.find((one) => one === value);
    return found ?? this.fail(`has none of ${all.join(", ")} where one belongs`);
  }

  fail(why: string): never {
    throw new VersionError(
      "stored_form_unknown",
      `${this.#what} ${why}: it was written by a newer version of zae-limiter, or is damaged. Upgrade zae-limiter.`,
    );
  }
}
