import assert from "node:assert/strict";
import { test } from "node:test";
import { TimeIsUp, thrownFor } from "./faults.ts";

test("a reason that is a sentence ends with one period", () => {
  const { message } = thrownFor(new TimeIsUp(50, false), "postgres://h:5432/db") as Error;
  assert.equal(
    message,
    "The store postgres://h:5432/db does not respond: No connection to the server could be had within 50 ms.",
  );
});
