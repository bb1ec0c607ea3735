import type { LimitStanding } from "../charge/limit-standing.ts";

/**
 * Reads how limits stand from the two header fields that `rate-limit-headers.ts` writes. Of a policy without a resource the
 * resource is "". `t` becomes `fullInMs`. What is not of that form is left out.
 */
export function standingsOfFields(policy: string, state: string): readonly LimitStanding[] {
  const states = new Map(itemsOf(state));
  return itemsOf(policy).flatMap(([name, { q, w }]) => {
    const { r, t } = states.get(name) ?? {};
    if (q === undefined || r === undefined) return [];
    const [, resource = "", limit = "", level = "0"] = /^(?:(.*)\/)?([^/]*?)(?:\^(\d+))?$/.exec(name) ?? [];
    return [
      {
        ...{ entityId: level, resource, limit, level: Number(level) },
        ...{ available: r, capacity: q, windowMs: msOf(w), fullInMs: msOf(t) },
      },
    ];
  });
}

/** The items of a list, each a string with parameters that are integers; parameters of another type are left out. */
function itemsOf(field: string): readonly (readonly [string, Readonly<Record<string, number>>])[] {
  return Array.from(field.matchAll(/"((?:[^"\\]|\\.)*)"((?:;\w+=(?:-?\d+|"(?:[^"\\]|\\.)*"))*)/g), ([, name, rest]) => [
    (name ?? "").replace(/\\(.)/g, "$1"),
    Object.fromEntries(
      // Text in quotes is matched first, so that nothing in it is taken for a parameter.
      Array.from((rest ?? "").matchAll(/;(\w+)=(?:(-?\d+)|"(?:[^"\\]|\\.)*")/g), ([, key, value]) => [key, value])
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => [key, Number(value)]),
    ),
  ]);
}

function msOf(seconds: number | undefined): number | null {
  return seconds === undefined ? null : seconds * 1000;
}
