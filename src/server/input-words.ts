import { nearestName } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import type { z } from "./vendor.ts";

/** What is wrong at one place of the input, in the words of this package rather than of its validator. */
interface InputFault {
  readonly path: readonly PropertyKey[];
  readonly detail: string;
}

type Issue = z.core.$ZodIssue;

/** The faults of an input, names that are not known first: where one is misspelled, the other that is missing follows from it. */
export function faultsIn(issues: readonly Issue[], schema: z.ZodObject, value: unknown): InputFault[] {
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
