import assert from "node:assert/strict";
import { test } from "node:test";
import { type Page, pagesOf } from "./paging.ts";

/** Three pages, and the cursors that they were asked for with. */
function threePages() {
  const asked: (string | undefined)[] = [];
  const next: Readonly<Record<string, Page<string>>> = {
    "": { items: ["a", "b"], cursor: "1" },
    "1": { items: [], cursor: "2" },
    "2": { items: ["c"] },
  };
  const fetch = async ({ cursor }: { readonly cursor?: string }) => {
    asked.push(cursor);
    return next[cursor ?? ""] as Page<string>;
  };
  return { asked, fetch };
}

test("pages follow each other by their cursors, an empty one in between too, until one has none", async () => {
  const { asked, fetch } = threePages();
  const pages: (readonly string[])[] = [];
  for await (const { items } of pagesOf(fetch)) pages.push(items);
  assert.deepEqual(pages, [["a", "b"], [], ["c"]]);
  assert.deepEqual(asked, [undefined, "1", "2"]);
});

test("a reader that stops asks for no further page", async () => {
  const { asked, fetch } = threePages();
  for await (const { items } of pagesOf(fetch)) if (items.includes("a")) break;
  assert.deepEqual(asked, [undefined]);
});
