import type { Amount } from "../charge/amounts.ts";
import { ConflictError, ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";

export function keyInProgress(key: string): ConflictError {
  return new ConflictError(
    "idempotency_in_progress",
    `A request with the idempotency key ${shown(key)} is still running; repeat it in a second for its result.`,
  );
}

export function keyReused(key: string): ValidationError {
  return new ValidationError(
    "idempotency_key_reused",
    `The idempotency key ${shown(key)} was used for another request; use a new key for a new request.`,
  );
}

/** Checks the key of a request, under which its answer is remembered. */
export function checkKey(key: unknown): string {
  if (typeof key === "string" && /^[\x20-\x7e]{1,255}$/.test(key)) return key;
  throw new ValidationError(
    "idempotency_key_invalid",
    `idempotencyKey is ${shown(key)}; use 1 to 255 printable ASCII characters, such as a UUID.`,
  );
}

/** Checks the key of an operation, which its bucket remembers: `null` is no way to say that there is none. */
export function checkIdempotencyKey(value: unknown): string {
  if (typeof value === "string" && /^[A-Za-z0-9._:-]{1,64}$/.test(value)) return value;
  throw new ValidationError(
    "idempotency_key_invalid",
    `idempotencyKey is ${shown(value)}; use 1 to 64 letters, digits and . _ : -`,
  );
}

/** A text by which two requests can be told apart: the same for the same values, in whatever order their names stand. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(",")}}`;
}

/** The record of an operation. */
export interface Operated {
  /** The text of the request. Absent: nobody compares it. */
  readonly asks?: string | undefined;
  /** The gain of each limit. */
  readonly amounts: readonly Amount[];
}

export function operatedText({ asks, amounts }: Operated): string {
  return JSON.stringify(asks === undefined ? amounts : { asks, amounts });
}

export function operated(amounts: readonly Amount[], asks: string | undefined): Operated {
  return asks === undefined ? { amounts } : { asks, amounts };
}

/** Reads the text of a record; undefined where it is none. */
export function operatedOfText(text: unknown): Operated | undefined {
  if (typeof text !== "string") return undefined;
  try {
    const found: unknown = JSON.parse(text);
    const { asks, amounts } = (Array.isArray(found) ? { amounts: found } : found) as Partial<Operated>;
    const isText = asks === undefined || typeof asks === "string";
    return isText && Array.isArray(amounts) && amounts.every(isAmount) ? operated(amounts, asks) : undefined;
  } catch {
    return undefined;
  }
}

function isAmount(value: unknown): value is Amount {
  if (typeof value !== "object" || value === null) return false;
  const { limit, milli } = value as Partial<Amount>;
  return typeof limit === "string" && Number.isSafeInteger(milli);
}
