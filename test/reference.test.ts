import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { libraryReference } from "../scripts/reference/library.ts";
import { PAGES } from "../scripts/reference/library-pages.ts";

// References are made from what they describe: from doc comments, schemas and tables of the source.

const root = fileURLToPath(new URL("..", import.meta.url));

const library = libraryReference();

test("docs/reference/library*.md say what the doc comments say", () => {
  const there = globSync("library*.md", { cwd: join(root, "docs/reference") });
  assert.deepEqual(there.sort(), [...library.keys()].sort());
  for (const [path, text] of library) {
    assert.equal(read(`docs/reference/${path}`), text, `${path}: run \`node scripts/library-reference.ts\``);
  }
});

test("every entry point of the package has a page", () => {
  const { exports } = JSON.parse(read("package.json")) as { exports: Readonly<Record<string, unknown>> };
  const names = Object.keys(exports).filter((name) => !name.endsWith(".json"));
  assert.deepEqual(
    PAGES.map(({ entry }) => (entry === "index" ? "." : `./${entry}`)),
    names,
  );
});

test("no page of the library has two headings of one anchor", () => {
  for (const [path, text] of library) {
    const anchors = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.toLowerCase());
    assert.deepEqual(
      anchors.filter((anchor, i) => anchors.indexOf(anchor) !== i),
      [],
      path,
    );
  }
});

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}
