import { posix } from "node:path";
import type { SourceFile } from "./rules.ts";
import { scan } from "./scan.ts";

/**
 * One sentence for each circle of imports: files of which each reaches every other. Imports of types count too: files that
 * name each other's types can only be read together.
 */
export function circles(files: readonly SourceFile[]): string[] {
  return components(importGraph(files))
    .filter((component) => component.length > 1)
    .map(
      (component) => `${component.join(", ")} import each other in a circle; move what they share into a file below.`,
    );
}

type Graph = ReadonlyMap<string, readonly string[]>;

function importGraph(files: readonly SourceFile[]): Graph {
  const paths = new Set(files.map(({ path }) => path));
  return new Map(
    files.map(({ path, text }) => {
      const targets = scan(text).imports.map(({ specifier = "" }) => posix.join(posix.dirname(path), specifier));
      return [path, targets.filter((target) => paths.has(target))];
    }),
  );
}

/** Tarjan's strongly connected components; the paths of each in order. */
function components(graph: Graph): string[][] {
  const found: string[][] = [];
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const visit = (path: string): number => {
    const index = order.size;
    order.set(path, index);
    lowest.set(path, index);
    stack.push(path);
    for (const target of graph.get(path) ?? []) {
      const reached = order.has(target) ? (stack.includes(target) ? order.get(target) : undefined) : visit(target);
      if (reached !== undefined) lowest.set(path, Math.min(lowest.get(path) as number, reached));
    }
    if (lowest.get(path) === index) found.push(stack.splice(stack.indexOf(path)).sort());
    return lowest.get(path) as number;
  };
  for (const path of graph.keys()) if (!order.has(path)) visit(path);
  return found;
}
