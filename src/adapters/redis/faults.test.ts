import assert from "node:assert/strict";
import { test } from "node:test";
import { faultOf, isUnknownScript, NotConnected, TimeIsUp } from "./faults.ts";

/** As GLIDE says what a server began with a code. */
const signalled = (kind: string, words: string) =>
  new Error(`An error was signalled by the server: - ${kind}: ${words}`);

const withCode = (code: string) => Object.assign(new Error(`connect ${code} 10.0.0.7:6379`), { code });

const CASES: readonly (readonly [fault: ReturnType<typeof faultOf>, errors: readonly Error[]])[] = [
  [
    "notApplied",
    [
      ...["LOADING Redis is loading", "CLUSTERDOWN Hash slot not served", "TRYAGAIN Multiple keys", "MASTERDOWN Link"],
      ...["OOM command not allowed", "BUSY a script runs", "MISCONF no snapshot", "NOREPLICAS too few", "OOM: command"],
    ].map((text) => new Error(text)),
  ],
  [
    "notApplied",
    ["BusyLoadingError", "ClusterDown", "TryAgain", "MasterDown"].map((kind) => signalled(kind, "what it says")),
  ],
  ["notApplied", [withCode("ECONNREFUSED"), new NotConnected("none", { cause: withCode("ECONNRESET") })]],
  ["unknown", [withCode("ECONNRESET"), new TimeIsUp(100), new Error("Connection is closed."), new Error("timed out")]],
  ["unknown", [new Error("Connection in recovery- ClientError"), new Error("Socket closed unexpectedly")]],
  ["replica", [new Error("READONLY You can't write against a read only replica."), signalled("ReadOnly", "You can't")]],
  ["refused", [new Error("WRONGPASS invalid"), new Error("NOAUTH Authentication required."), new Error("NOAUTH: a")]],
  [
    "rights",
    [
      new Error("NOPERM this user has no permissions to run the 'mset' command"),
      signalled("PermissionDenied", "this user has no permissions to run the 'mset' command"),
      signalled("ResponseError", "The user executing the script can't run this command or subcommand script: 82a1"),
      new Error("ERR unknown command 'EVAL'"),
    ],
  ],
  ["foreign", [new Error("WRONGTYPE Operation"), new Error("ZAROW: foo"), signalled("CrossSlot", "Keys in request")]],
  ["other", [signalled("ResponseError", "value is not an integer"), new Error("ERR syntax error"), new Error("what")]],
];

for (const [fault, errors] of CASES) {
  for (const error of errors) {
    test(`"${error.message}" is ${fault}`, () => assert.equal(faultOf(error), fault));
  }
}

test("a script that the server does not know is known by the words of every client", () => {
  assert.ok(isUnknownScript(new Error("NOSCRIPT No matching script. Please use EVAL.")));
  assert.ok(isUnknownScript(signalled("NoScriptError", "No matching script. Please use EVAL.")));
  assert.ok(!isUnknownScript(signalled("ResponseError", "NOSCRIPT was in a key")));
});
