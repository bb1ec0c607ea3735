import assert from "node:assert/strict";
import { test } from "node:test";
import { faultOf, leavesConnection, NotConnected, TimeIsUp, thrownFor } from "./faults.ts";

test("a reason that is a sentence ends with one period", () => {
  const { message } = thrownFor(new TimeIsUp(50, false), "postgres://h:5432/db") as Error;
  assert.equal(
    message,
    "The store postgres://h:5432/db does not respond: No connection to the server could be had within 50 ms.",
  );
});

const told = (code: string, severity?: string) => Object.assign(new Error("told"), { code, severity });

test("a full disk that ends a statement is certain not to have changed anything, one that stops the server is not", () => {
  for (const code of ["53100", "53200", "58030"]) {
    assert.equal(faultOf(told(code, "ERROR")), "notApplied");
    assert.equal(faultOf(told(code)), "notApplied");
    // A commit may be on the disk when the room for the next one is missing. In German it is PANIK.
    for (const severity of ["PANIC", "PANIK"]) {
      assert.equal(faultOf(told(code, severity)), "unknown");
      assert.equal(leavesConnection(told(code, severity)), false);
      assert.equal(faultOf(new NotConnected("No connection.", { cause: told(code, severity) })), "notApplied");
    }
    assert.equal(leavesConnection(told(code, "ERROR")), true);
  }
  assert.equal(faultOf(told("XX000", "PANIC")), "unknown");
  assert.equal(faultOf(told("XX000", "ERROR")), "other");
  // Too many connections is told with FATAL before anything is sent.
  assert.equal(faultOf(told("53300", "FATAL")), "notApplied");
});
