import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import { parseItem } from "./vendor.ts";

/** The `Idempotency-Key` of a request (draft-07): a quoted string, or a plain word; undefined where there is none. */
export function idempotencyKeyOf({ headers }: Request): string | undefined {
  const field = headers.get("idempotency-key");
  if (field === null) return undefined;
  if (/^[A-Za-z0-9._:-]{1,64}$/.test(field)) return field;
  const text = quoted(field);
  if (text !== undefined && text.length >= 1 && text.length <= 255) return text;
  throw new ValidationError(
    "idempotency_key_invalid",
    `Idempotency-Key is ${shown(field)}; give a quoted string, or 1 to 64 letters, digits and . _ : -`,
  );
}

function quoted(field: string): string | undefined {
  try {
    const [value] = parseItem(field);
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}
