import { invalid } from "./check.ts";

/** A path of the service. `at` alone makes one: nothing that was joined by hand reaches `fetch`. */
export type Path = string & { readonly madeBy: typeof at };

/**
 * A path with names in it, such as at`entities/${id}/limits`; one that begins with `/` is below the address of the service, any
 * other below the namespace. Each name becomes one part of the path, as it is: it is encoded, and refused where it would be left out
 * of an address or lead to another.
 */
export function at({ raw }: TemplateStringsArray, ...names: readonly string[]): Path {
  const parts = names.map((name) => {
    if (/^\.{0,2}$/.test(name)) throw invalid("path", "A part of the path", name, "a name");
    return encodeURIComponent(name);
  });
  return String.raw({ raw }, ...parts) as Path;
}
