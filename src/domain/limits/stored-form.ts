import { VersionError } from "../names/errors.ts";

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
      return this.fail("is not JSON");
    }
  }

  /** `length`: exactly so many. */
  list(value: unknown, length?: number): readonly unknown[] {
    if (Array.isArray(value) && (length === undefined || value.length === length)) return value;
    return this.fail(length === undefined ? "lacks a list" : `lacks a list of ${length}`);
  }

  text(value: unknown): string {
    return typeof value === "string" ? value : this.fail("lacks a string");
  }

  integer(value: unknown): number {
    // -0 is never written; reject it.
    const isWhole = Number.isSafeInteger(value) && !Object.is(value, -0);
    return isWhole ? (value as number) : this.fail("lacks a whole number");
  }

  natural(value: unknown): number {
    const integer = this.integer(value);
    return integer >= 0 ? integer : this.fail("has a negative number");
  }

  /** Null stands for what there is none of. */
  orNone<Value>(value: unknown, read: (value: unknown) => Value): Value | undefined {
    return value === null ? undefined : read(value);
  }

  oneOf<Value extends string>(value: unknown, all: readonly Value[]): Value {
    const found = all.find((one) => one === value);
    return found ?? this.fail(`lacks one of ${all.join(", ")}`);
  }

  fail(why: string): never {
    throw new VersionError(
      "stored_form_unknown",
      `${this.#what} ${why}: it was written by a newer version of zae-limiter, or is damaged. Upgrade zae-limiter.`,
    );
  }
}
