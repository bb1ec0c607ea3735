import type { Limit } from "../domain/limits/limit.ts";
import { limitOfText } from "../domain/limits/limit-text.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { nearestName } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import { Problem } from "./problem.ts";
import { parseItem, type z } from "./vendor.ts";

/** A fault at one place of the input, in the words of this package rather than of its validator. */
interface InputFault {
  readonly path: readonly PropertyKey[];
  readonly detail: string;
}

type Issue = z.core.$ZodIssue;

/** The faults of an input, names that are not known first: where one is misspelled, the other that is missing follows from it. */
function faultsIn(issues: readonly Issue[], schema: z.ZodObject, value: unknown): InputFault[] {
  const faults = issues.flatMap((issue) => faultsOf(issue, schema, value));
  return [...faults.filter(({ isUnknown }) => isUnknown), ...faults.filter(({ isUnknown }) => !isUnknown)];
}

interface Told extends InputFault {
  readonly isUnknown: boolean;
}

function faultsOf(issue: Issue, schema: z.ZodObject, value: unknown): Told[] {
  const { path } = issue;
  const told = (detail: string): Told[] => [{ path, detail, isUnknown: false }];
  switch (issue.code) {
    case "unrecognized_keys": {
      const known = namesAt(schema, path);
      return issue.keys.map((key) => ({ path: [...path, key], detail: unknownText(key, known), isUnknown: true }));
    }
    case "invalid_type":
      return told(wrongText(valueAt(value, path), [WANTED[issue.expected] ?? issue.expected]));
    case "invalid_value":
      return told(
        wrongText(
          valueAt(value, path),
          issue.values.map((each) => JSON.stringify(each)),
        ),
      );
    case "invalid_union": {
      const inner = issue.errors.map((branch) => branch as readonly Issue[]);
      // The form that was meant is the one whose fault lies deeper than its own type.
      const meant = inner.find((branch) => branch.some(({ path: at }) => at.length > 0));
      if (meant !== undefined) {
        return meant.flatMap((each) => faultsOf({ ...each, path: [...path, ...each.path] }, schema, value));
      }
      return told(wrongText(valueAt(value, path), inner.flatMap(wantedIn)));
    }
    case "too_big":
      return told(boundText(issue.origin, valueAt(value, path), `at most ${issue.maximum}`));
    case "too_small":
      return told(boundText(issue.origin, valueAt(value, path), `at least ${issue.minimum}`));
    default:
      return told(issue.message);
  }
}

const COUNTED: Readonly<Record<string, string>> = { string: "characters", array: "items" };

function boundText(origin: string, given: unknown, bound: string): string {
  const counted = COUNTED[origin];
  if (counted === undefined) return wrongText(given, [bound]);
  return `it has ${(given as { readonly length: number }).length} ${counted}; give ${bound}`;
}

const WANTED: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object of names and values",
};

function wantedIn(branch: readonly Issue[]): readonly string[] {
  return branch.flatMap((issue) => {
    if (issue.code === "invalid_type") return [WANTED[issue.expected] ?? issue.expected];
    return issue.code === "invalid_value" ? issue.values.map((each) => JSON.stringify(each)) : [];
  });
}

function wrongText(given: unknown, wanted: readonly string[]): string {
  const last = wanted.at(-1) ?? "another value";
  const give = wanted.length > 1 ? `${wanted.slice(0, -1).join(", ")} or ${last}` : last;
  return given === undefined ? `it is missing; give ${give}` : `it is ${shown(given)}; give ${give}`;
}

function unknownText(key: string, known: readonly string[]): string {
  const near = nearestName(key, known);
  if (near !== undefined) return `it is unknown; did you mean ${near}?`;
  return known.length === 0 ? "it is unknown" : `it is unknown; known: ${known.join(", ")}`;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (found, key) =>
      typeof found === "object" && found !== null ? (found as Record<PropertyKey, unknown>)[key] : undefined,
    value,
  );
}

/** The names that an object of the schema may have, there where the path leads. */
function namesAt(schema: z.ZodType, path: readonly PropertyKey[]): readonly string[] {
  const at = objectIn(schema);
  if (at === undefined) return [];
  const [key, ...rest] = path;
  if (key === undefined) return Object.keys(at.shape);
  const inner = at.shape[String(key)] as z.ZodType | undefined;
  return inner === undefined ? [] : namesAt(inner, typeof rest[0] === "number" ? rest.slice(1) : rest);
}

/** The object that a schema is about, whether it may be absent, stands in a list or is one of several forms. */
function objectIn(schema: z.ZodType): z.ZodObject | undefined {
  const { type, innerType, element, options } = schema.def as unknown as {
    readonly type: string;
    readonly innerType?: z.ZodType;
    readonly element?: z.ZodType;
    readonly options?: readonly z.ZodType[];
  };
  if (type === "object") return schema as z.ZodObject;
  const inner = innerType ?? element;
  if (inner !== undefined) return objectIn(inner);
  return options?.map(objectIn).find((found) => found !== undefined);
}

/** The query, checked: unknown names, and names given twice, are refused. */
export function readQuery(url: string, schema: z.ZodObject | undefined): unknown {
  const mark = url.indexOf("?");
  if (mark < 0 && schema === undefined) return undefined;
  const given = new Map<string, string>();
  for (const [name, value] of mark < 0 ? [] : new URLSearchParams(url.slice(mark + 1).split("#", 1)[0])) {
    if (given.has(name)) throw invalid([{ pointer: `?${name}`, detail: "it is given twice" }]);
    given.set(name, value);
  }
  if (schema === undefined) {
    const [name] = given.keys();
    if (name === undefined) return undefined;
    throw invalid([{ pointer: `?${name}`, detail: "this route takes no query" }]);
  }
  return checked(schema, Object.fromEntries(given), (path) => `?${path.join("/")}`);
}

/** The text of a body; undefined where there is none and none is wanted. */
export function readBody(
  request: Request,
  schema: z.ZodObject | undefined,
  bytesMax: number,
  isFetch: boolean,
): Promise<string> | undefined {
  const { headers } = request;
  const length = headers.get("content-length");
  const hasBody =
    length === null ? headers.has("transfer-encoding") || (isFetch && request.body !== null) : length !== "0";
  if (!hasBody) {
    if (schema === undefined) return undefined;
    throw new Problem("body_invalid", "The body is empty; send a JSON object.");
  }
  requireJson(headers.get("content-type"));
  if (length !== null && Number(length) > bytesMax) throw tooLarge(bytesMax);
  // With a length the server counts; without one we do.
  if (length === null) return boundedText(request, bytesMax);
  return isFetch ? countedText(request, bytesMax) : request.text();
}

/** The JSON object of a body, checked. */
export function parseBody(text: string, schema: z.ZodObject | undefined): unknown {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new Problem("body_invalid", `The body is not JSON: ${(error as Error).message}.`);
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new Problem("body_invalid", "The body is JSON, but not an object; send { ... }.");
  }
  // Such a key would be dropped on the way, and no limit or field has it.
  if (text.includes("__proto__")) throw new Problem("body_invalid", 'The body has the key "__proto__"; remove it.');
  if (schema === undefined) {
    const [name] = Object.keys(body);
    if (name === undefined) return undefined;
    throw invalid([{ pointer: `/${name}`, detail: "this route takes no body" }]);
  }
  return checked(schema, body, (path) => `/${path.map(escaped).join("/")}`);
}

function checked(schema: z.ZodObject, value: object, pointerOf: (path: readonly PropertyKey[]) => string): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const faults = faultsIn(result.error.issues, schema, value).slice(0, ERRORS_MAX);
  throw invalid(faults.map(({ path, detail }) => ({ pointer: pointerOf(path), detail })));
}

/** A body can be wrong in thousands of places; some of them say enough. */
const ERRORS_MAX = 20;

/** Input of the right form with a value that this service does not take. */
export function invalid(errors: readonly { readonly pointer: string; readonly detail: string }[]): Problem {
  const [first] = errors;
  const sentence = `${first?.pointer}: ${first?.detail}`;
  const more = errors.length > 1 ? ` And ${errors.length - 1} more.` : "";
  return new Problem("request_invalid", `${sentence}${sentence.endsWith("?") ? "" : "."}${more}`, {
    members: { errors },
  });
}

function escaped(key: PropertyKey): string {
  return String(key).replaceAll("~", "~0").replaceAll("/", "~1");
}

function requireJson(type: string | null): void {
  const media = type?.split(";", 1)[0]?.trim().toLowerCase();
  if (media === "application/json") return;
  throw new Problem("content_type_unsupported", "Bodies are JSON; send Content-Type: application/json.");
}

/** Counts, because a request from another program may be longer than its header says. */
async function countedText(request: Request, bytesMax: number): Promise<string> {
  const text = await request.text();
  if (text.length > bytesMax) throw tooLarge(bytesMax);
  return text;
}

async function boundedText(request: Request, bytesMax: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function tooLarge(bytesMax: number): Problem {
  return new Problem(
    "body_too_large",
    `The body has more than ${bytesMax} bytes; send less, or start the service with a larger --body-max.`,
    {
      // The rest of the body is not read.
      headers: { connection: "close" },
    },
  );
}

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

/** The header fields of an answer; `replayed`: it repeats an earlier one. */
export function replayedFields(
  replayed: boolean,
  headers: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return replayed ? { ...headers, "idempotency-replayed": "true" } : headers;
}

function quoted(field: string): string | undefined {
  try {
    const [value] = parseItem(field);
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The limits of a body: objects, and texts such as `rpm:100/min` as on the command line. The library checks what they say. */
export function givenLimits(limiter: Limiter, limits: readonly (object | string)[]): readonly Limit[] {
  const { calendar } = partsOf(limiter).deps;
  return limits.map((limit) => (typeof limit === "string" ? limitOfText(limit, calendar) : (given(limit) as Limit)));
}
