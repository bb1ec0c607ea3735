import assert from "node:assert/strict";
import { test } from "node:test";
import { missingText } from "./aws-clients.ts";

test("a package that is missing is told with all others that stacks need, in one command", () => {
  const text = missingText("@aws-sdk/client-lambda");
  assert.match(text, /^The package @aws-sdk\/client-lambda is not installed/);
  const [, command = ""] = /`npm install ([^`]*)`/.exec(text) ?? [];
  assert.deepEqual(command.split(" "), [
    "@aws-sdk/client-lambda",
    "@aws-sdk/client-cloudformation",
    "@aws-sdk/client-dynamodb",
    "@aws-sdk/client-s3",
  ]);
});
