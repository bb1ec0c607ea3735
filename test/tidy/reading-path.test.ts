import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../../src/protocol/", import.meta.url));
const readme = readFileSync(join(folder, "README.md"), "utf8");
const files = globSync("**/*.ts", { cwd: folder }).filter((path) => !path.endsWith(".test.ts"));
const linesOf = (file: string) => readFileSync(join(folder, file), "utf8").split("\n").length - 1;

/** The rows of the table: a file, and how many lines it is said to have. */
const path = Array.from(readme.matchAll(/^\| \d+ \| `([^`]+)` \| (\d+) \|/gm), ([, file = "", lines]) => ({
  file,
  lines: Number(lines),
}));

/** The files that the page names below the table: of a folder, or of none. */
function lookedUp(): string[] {
  let in_ = "";
  return Array.from(
    readme.slice(readme.indexOf("The other files")).matchAll(/`([\w-]+\/|[\w-]+\.ts)`/g),
    ([, name]) => {
      if (name?.endsWith("/")) in_ = name;
      return name?.endsWith("/") ? "" : in_ + name;
    },
  ).filter((name) => name !== "");
}

test("files on the path of a take through the protocol have as many lines as its page says", () => {
  assert.ok(path.length > 10, "the table of the path was not found");
  for (const { file, lines } of path) {
    assert.ok(files.includes(file), `${file} of the path is not there`);
    const found = linesOf(file);
    assert.ok(Math.abs(found - lines) <= 10, `${file} has ${found} lines, src/protocol/README.md says ${lines}`);
  }
});

test("every file of the protocol is on the page, once, and every file on the page is there", () => {
  assert.deepEqual([...path.map(({ file }) => file), ...lookedUp()].sort(), files.sort());
});

test("nothing on the path is only for tables that the original writes too", () => {
  assert.deepEqual(
    path.filter(({ file }) => file.startsWith("shared/")),
    [],
  );
});
