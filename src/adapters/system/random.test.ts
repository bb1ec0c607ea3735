import assert from "node:assert/strict";
import { test } from "node:test";
import { systemRandom } from "./random.ts";

test("ids are 64 random bits, url-safe, never twice, and never read as an option", () => {
  const ids = Array.from({ length: 5_000 }, () => systemRandom.id());
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[A-Za-z0-9_][A-Za-z0-9_-]{10}$/);
});
