import { ValidationError } from "../domain/names/errors.ts";
import { hintFor } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";

/** The places of the fields in the lines of another log. */
export type FieldMap = readonly FieldPlace[];

interface FieldPlace {
  /** A field of a request. */
  readonly name: string;
  /** The measure whose amount is there, for `consume.tpm`. Undefined: the whole field. */
  readonly measure: string | undefined;
  /** The keys on the way, from the outermost. */
  readonly pointer: readonly string[];
}

const NAMES = ["at", "atMs", "entityId", "resource", "consume", "actual", "endMs", "also"];

/** Reads texts such as `entityId=/user/id` and `consume.tpm=/usage/total_tokens`. Undefined: there are none. */
export function fieldMapOf(texts: readonly string[]): FieldMap | undefined {
  const places = texts.map(placeOf);
  const twice = places.find(({ name, measure }, i) =>
    places.slice(0, i).some((before) => before.name === name && before.measure === measure),
  );
  if (twice === undefined) return places.length === 0 ? undefined : places;
  const { name, measure } = twice;
  throw invalid(`The field ${measure === undefined ? name : `${name}.${measure}`} is mapped twice; map it once.`);
}

function placeOf(text: string): FieldPlace {
  const [, field = "", pointer = ""] = /^([^=]*)=(.*)$/s.exec(text) ?? [];
  const [, name = "", measure] = /^(consume|actual)\.(.+)$/.exec(field) ?? [undefined, field, undefined];
  if (!NAMES.includes(name)) {
    throw invalid(`The field ${shown(text)} is not known; ${hintFor(field, NAMES)}, as entityId=/user/id.`);
  }
  if (pointer !== "" && !pointer.startsWith("/")) {
    throw invalid(`The place of ${field} is ${shown(pointer)}; give a JSON pointer, which begins with a slash.`);
  }
  const keys = pointer.split("/").slice(1);
  return { name, measure, pointer: keys.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~")) };
}

function invalid(message: string): ValidationError {
  return new ValidationError("option_invalid", message);
}

/** The value at a place (RFC 6901); undefined if there is none, or `null`. */
export function valueAt(record: unknown, pointer: readonly string[]): unknown {
  let value = record;
  for (const key of pointer) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value ?? undefined;
}
