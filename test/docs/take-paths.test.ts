import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { filesOnPage, PATHS, type TracedStore, tracedPath } from "../../scripts/reference/take-paths.ts";
import { atDepth } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";

const page = readFileSync(new URL("../../docs/reference/take-paths.md", import.meta.url), "utf8");

for (const store of atDepth<readonly TracedStore[]>(["memory"], ["memory", "sqlite", "postgres"])) {
  test(`a warm take on ${store} enters the files that its page names, and no more than its bound`, async () =>
    sameAsPage(store, await tracedPath(store)));
}

if (atDepth(false, true)) {
  await describeDynamo("a take that is traced", ({ endpoint }) => {
    test("a warm take on dynamodb enters the files that its page names, and no more than its bound", async () =>
      sameAsPage("dynamodb", await tracedPath("dynamodb", endpoint)));
  });
}

function sameAsPage(store: TracedStore, files: readonly string[]): void {
  const named = filesOnPage(page, store);
  assert.deepEqual(named.toSorted(), files.toSorted(), "run `node scripts/take-paths.ts`");
  assert.ok(files.length <= PATHS[store], `${files.length} files, at most ${PATHS[store]} are wanted`);
}
