import { posix } from "node:path";

interface File {
  readonly path: string;
  readonly text: string;
}

const DECLARED = /^export (?:declare )?(?:abstract )?(?:async )?(?:interface|type|class|function\*?|const|let) (\w+)/gm;
const FROM = /^(?:import|export) ([^;"]*?)\s*from "(\.[^"]+)";/gm;
const DYNAMIC = /\bimport\(\s*(?:\/\*.*?\*\/\s*)?"(\.[^"]+)"\s*\)/g;

/** What is exported of the files in `src` and imported by none of all files: sentences, one for each. Entries are imported by users. */
export function unusedExports(files: readonly File[]): readonly string[] {
  const imported = new Map<string, Set<string> | "all">();
  const note = (importer: string, specifier: string, names: readonly string[] | "all") => {
    const path = posix.join(posix.dirname(importer), specifier);
    const known = imported.get(path) ?? new Set();
    imported.set(path, names === "all" || known === "all" ? "all" : new Set([...known, ...names]));
  };
  for (const { path, text } of files) {
    for (const [, clause = "", specifier = ""] of text.matchAll(FROM)) note(path, specifier, namesIn(clause));
    for (const [, specifier = ""] of text.matchAll(DYNAMIC)) note(path, specifier, "all");
  }
  return files
    .filter(({ path }) => path.startsWith("src/") && !path.startsWith("src/entry/"))
    .flatMap(({ path, text }) => {
      const used = imported.get(path) ?? new Set();
      if (used === "all") return [];
      const names = Array.from(text.matchAll(DECLARED), ([, name = ""]) => name);
      const unused = names.filter((name) => !used.has(name));
      return unused.map((name) => `${path} exports ${name}, which no file imports.`);
    });
}

/** The names between the braces of an import, as the other file calls them; all where it takes the whole. */
function namesIn(clause: string): readonly string[] | "all" {
  const braces = /\{([^}]*)\}/.exec(clause);
  if (clause.includes("*") || braces === null) return "all";
  return (braces[1] ?? "").split(",").map(
    (part) =>
      part
        .trim()
        .replace(/^type /, "")
        .split(" as ")[0]
        ?.trim() ?? "",
  );
}
