import assert from "node:assert/strict";
import { test } from "node:test";
import { useOldest } from "./oldest-peers.ts";

// Before anything imports Nest.
useOldest(/^(@nestjs\/|rxjs$|reflect-metadata$)/);
const { tellNestStories } = await import("./nest-stories.ts");

tellNestStories("10");

test("it is the oldest Nest that these stories are told of", () => {
  for (const name of ["@nestjs/common", "@nestjs/core", "rxjs"]) {
    assert.match(import.meta.resolve(name), /\/test\/oldest\//);
  }
});
