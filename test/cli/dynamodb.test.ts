import { test } from "node:test";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { operatorStory } from "./story.ts";

await describeDynamo("the command line on DynamoDB", ({ endpoint, client }) => {
  test("an operator's daily work on a table", async (t) => {
    Object.assign(process.env, { AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" });
    const stack = `cli-${process.pid}`;
    t.after(() => client.send("DeleteTable", JSON.stringify({ TableName: stack }), { timeoutMs: 10_000 }));
    await operatorStory(["--stack", stack, "--endpoint", endpoint, "--timeout", "30s"], `dynamodb:${stack}`);
  });
});
