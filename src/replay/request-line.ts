import { type Also, amountsOf, type Tokens } from "../domain/charge/amounts.ts";
import { LimiterError, ValidationError } from "../domain/names/errors.ts";
import { hintFor } from "../domain/names/known-names.ts";
import { checkEntityId, checkResource, shown } from "../domain/names/names.ts";
import { entityIdOf, resourceOf } from "../domain/names/text-names.ts";
import { alsoOf } from "../engine/acquire/also.ts";

/** A request as a line has it. */
export interface LineRequest {
  readonly atMs: number;
  readonly entityId: string;
  readonly resource: string;
  /** Undefined: one request. */
  readonly consume: Tokens | undefined;
  readonly also: Also | undefined;
  /** The totals that it was settled to; undefined: those that it took. */
  readonly actual: Tokens | undefined;
  /** When its work ended; the same as `atMs` if the log does not say. */
  readonly endMs: number;
}

/** A line of a log. `other`: an event that is no request. */
type ReadLine =
  | { readonly kind: "request"; readonly request: LineRequest }
  | { readonly kind: "other" }
  | { readonly kind: "unreadable"; readonly problem: string };

interface LineReading {
  readonly fields: FieldMap | undefined;
  readonly names: SharedNames;
}

/** Checks names, and keeps each once: a million lines have few of them. */
export class SharedNames {
  readonly #known = new Map<unknown, string>();

  of(value: unknown, check: (value: unknown) => string): string {
    const known = this.#known.get(value);
    if (known !== undefined) return known;
    const name = check(value);
    this.#known.set(value, name);
    return name;
  }
}

/** Reads one line: a request, or an event as `events follow` prints it. With a map of fields it is a line of another log. */
export function readLine(text: string, { fields, names }: LineReading): ReadLine {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "unreadable", problem: "it is no JSON" };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { kind: "unreadable", problem: `it is ${shown(value)}; give an object` };
  }
  const record = value as Record<string, unknown>;
  if (fields === undefined && isEvent(record)) return readEvent(record, names);
  try {
    const line = fields === undefined ? record : mapped(record, fields);
    return { kind: "request", request: requestOf(line, { fields, names }) };
  } catch (error) {
    return unreadable(error);
  }
}

/** A fault of a line, as the end of a sentence. */
class LineProblem extends Error {}

function unreadable(error: unknown): ReadLine {
  if (!(error instanceof LineProblem) && !(error instanceof LimiterError)) throw error;
  return { kind: "unreadable", problem: error.message.replace(/\.$/, "") };
}

function isEvent({ type, namespace, atMs }: Record<string, unknown>): boolean {
  return typeof type === "string" && typeof namespace === "string" && typeof atMs === "number";
}

/** One request has one event of these two: `acquired` of the entity that asked, or `refused`. */
function readEvent(event: Record<string, unknown>, names: SharedNames): ReadLine {
  const { type, role, asked, also } = event;
  if (type !== "refused" && (type !== "acquired" || role !== "entity")) return { kind: "other" };
  if (asked === undefined) {
    return {
      kind: "unreadable",
      problem: "the event has no `asked`; it is of an older service, which did not tell it",
    };
  }
  const { atMs, entityId, resource } = event;
  try {
    const line = { atMs, entityId, resource, also, consume: asked };
    return { kind: "request", request: requestOf(line, { fields: undefined, names }) };
  } catch (error) {
    return unreadable(error);
  }
}

/** The fields of a line of another log, by the names of ours. What is not mapped is read under its own name. */
function mapped(record: Record<string, unknown>, fields: FieldMap): Record<string, unknown> {
  const values: Record<string, unknown> = { ...record };
  for (const { name, measure, pointer } of fields) {
    const found = valueAt(record, pointer);
    if (measure === undefined) values[name] = found;
    else if (found !== undefined) values[name] = { ...amountsIn(values[name], record[name]), [measure]: found };
  }
  return values;
}

/** The amounts that were mapped so far. Those of the record itself are not among them: a measure is mapped in their place. */
function amountsIn(mappedSoFar: unknown, own: unknown): object {
  return mappedSoFar === own || typeof mappedSoFar !== "object" || mappedSoFar === null ? {} : mappedSoFar;
}

function requestOf(line: Record<string, unknown>, { fields, names }: LineReading): LineRequest {
  const atMs = instantOf(line);
  const isMapped = (name: string) => fields?.some((field) => field.name === name) === true;
  const entityId = names.of(line.entityId, isMapped("entityId") ? idOfOther : checkEntityId);
  const resource = names.of(line.resource, isMapped("resource") ? resourceOfOther : checkResource);
  const consume = tokensOf(line.consume, "consume");
  const also = (line.also ?? undefined) as Also | undefined;
  if (also !== undefined) alsoOf({ entityId, resource, also });
  const { endMs = atMs } = line;
  if (!isInstant(endMs) || endMs < atMs) {
    throw new LineProblem(`endMs is ${shown(endMs)}; give milliseconds since 1970 that are not before ${atMs}`);
  }
  const actual = tokensOf(line.actual, "settle");
  return { atMs, endMs: Math.floor(endMs), entityId, resource, consume, actual, also };
}

const idOfOther = (value: unknown) => entityIdOf(textOf(value));
const resourceOfOther = (value: unknown) => resourceOf(textOf(value));

/** Ids of other logs may be numbers. */
function textOf(value: unknown): string {
  return typeof value === "number" && Number.isSafeInteger(value) ? String(value) : (value as string);
}

function tokensOf(value: unknown, use: "consume" | "settle"): Tokens | undefined {
  if (value === undefined || value === null) return undefined;
  amountsOf(value as Tokens, use);
  return value as Tokens;
}

/** Instants without a zone are UTC. */
const ISO = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(Z|[+-]\d{2}(?::?\d{2})?)?)?$/;

function instantOf({ at, atMs }: Record<string, unknown>): number {
  if (atMs !== undefined) {
    if (isInstant(atMs)) return Math.floor(atMs);
    throw new LineProblem(`atMs is ${shown(atMs)}; give milliseconds since 1970`);
  }
  if (at === undefined) throw new LineProblem("it has neither `at` nor `atMs`; name the field with --field at=POINTER");
  const [found, zone] = (typeof at === "string" ? ISO.exec(at) : undefined) ?? [];
  const parsedMs =
    found === undefined
      ? Number.NaN
      : Date.parse(`${found.replace(" ", "T").replace(",", ".")}${zone === undefined && found.length > 10 ? "Z" : ""}`);
  if (Number.isNaN(parsedMs)) {
    throw new LineProblem(`at is ${shown(at)}; give an instant of ISO 8601, such as 2026-11-19T14:00:00Z`);
  }
  return parsedMs;
}

/** The last instant that a `Date` can name. */
const INSTANT_MAX_MS = 8.64e15;

function isInstant(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= INSTANT_MAX_MS;
}

/** The places of the fields in the lines of another log. */
export type FieldMap = readonly FieldPlace[];

interface FieldPlace {
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
