import { checkName, invalid } from "./check.ts";

/** A path of the service. `at` and `requestOf` alone make one: nothing that was joined by hand reaches `fetch`. */
export type Path = string & { readonly madeBy: typeof at };

/**
 * A path with names in it, such as at`leases/${id}/settle`; one that begins with `/` is below the address of the service, any
 * other below the namespace. Each name becomes one part of the path, as it is: it is encoded, and refused where it would be left out
 * of an address or lead to another.
 */
export function at({ raw }: TemplateStringsArray, ...names: readonly string[]): Path {
  return String.raw({ raw }, ...names.map(partOf)) as Path;
}

/**
 * The request of an operation with the arguments of its method. Each name in braces becomes a part of the path, and each name after `?` a
 * field of the query: `GET entities/{entityId}/limits`, `GET limits/effective?entityId&resource`. They are the first arguments, in that order.
 */
export function requestOf(http: string, given: readonly unknown[]) {
  const rest = [...given];
  const [method, template, fields] = http.split(/[ ?]/) as [string, string, string?];
  const next = (field: string) => checkName(field as "resource", rest.shift() as string);
  const path = template.replace(/{(\w+)}/g, (_, field) => partOf(next(field))) as Path;
  const query = Object.fromEntries((fields?.split("&") ?? []).map((field) => [field, next(field)]));
  return { method, path, query, rest };
}

function partOf(name: string): string {
  if (/^\.{0,2}$/.test(name)) throw invalid("path", "A part of the path", name, "a name");
  return encodeURIComponent(name);
}
