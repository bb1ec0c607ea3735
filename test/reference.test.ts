import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { bodyExamples, httpReference } from "../scripts/reference/http.ts";
import { libraryReference } from "../scripts/reference/library.ts";
import { PAGES } from "../scripts/reference/library-pages.ts";
import { routes } from "../src/server/routes.ts";

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

test("docs/reference/http.md says what the schemas of the service say", () => {
  assert.equal(read("docs/reference/http.md"), httpReference(), "run `node scripts/http-reference.ts`");
});

test("every body that docs/reference/http.md shows is one that its route takes", () => {
  const examples = bodyExamples();
  assert.deepEqual(
    routes.filter(({ body }) => body !== undefined).length,
    examples.length,
    "a route has a body and no example",
  );
  for (const { route, example } of examples) {
    const { error } = route.body?.safeParse(example) ?? {};
    assert.equal(error, undefined, `${route.method} ${route.path}: ${error?.message}`);
  }
});

test("no generated page has two headings of one anchor", () => {
  for (const [path, text] of [...library, ["http.md", read("docs/reference/http.md")] as const]) {
    const anchors = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.toLowerCase());
    assert.deepEqual(
      anchors.filter((anchor, i) => anchors.indexOf(anchor) !== i),
      [],
      path,
    );
  }
});

test("docs/reference/errors.md names the class that each code is thrown with", () => {
  const rows = new Map(
    [...read("docs/reference/errors.md").matchAll(/^\| `([a-z_]+)` \| ([^|]*`[A-Z][^|]*) \|/gm)].map(
      ([, code = "", classes = ""]) => [code, classes],
    ),
  );
  assert.ok(rows.size > 100, `only ${rows.size} rows were found`);
  const wrong: string[] = [];
  for (const file of globSync("src/**/*.ts", { cwd: root })) {
    if (file.endsWith(".test.ts") || file.startsWith("src/testing/") || file.startsWith("src/cli/")) continue;
    for (const [, name = "", code = ""] of read(file).matchAll(/new ([A-Z]\w*Error|LeaseClosed)\(\s*"([a-z_]+)"/g)) {
      const classes = rows.get(code);
      // Codes of the command line have an exit status in that place.
      if (classes !== undefined && !classes.includes(`\`${name}\``))
        wrong.push(`${code}: ${file} throws a ${name}, not ${classes}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test("every code of a problem in a manifest is explained", () => {
  const declared = library.get("library-manifest.md")?.split("### ProblemCode")[1]?.split("```")[1] ?? "";
  const codes = [...declared.matchAll(/"([a-z_]+)"/g)].map(([, code = ""]) => code);
  assert.ok(codes.length > 5);
  const [, list = ""] = read("docs/reference/errors.md").split("has a code of its own:");
  const explained = [...(list.split("\n## ")[0] ?? "").matchAll(/`([a-z_]+)`/g)].map(([, code = ""]) => code);
  assert.deepEqual(explained.sort(), codes.sort());
});

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}
