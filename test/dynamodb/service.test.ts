import { test } from "node:test";
import { createTable } from "../../src/entry/dynamodb.ts";
import { PLAIN } from "../cli/run-bin.ts";
import { storyOfInstances, storyTimeout } from "../server/instances.ts";
import { serving } from "../server/serve-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";

await describeDynamo("the service on DynamoDB", ({ endpoint, client }) => {
  test("two services are one, a crash loses no lease, a deploy gives none back", storyTimeout, async (t) => {
    Object.assign(process.env, PLAIN);
    const stack = `service-${process.pid}`;
    await createTable({ stack, endpoint, region: "us-east-1" });
    t.after(() => client.send("DeleteTable", JSON.stringify({ TableName: stack }), { timeoutMs: 10_000 }));
    const place = ["--store", `dynamodb:${stack}`, "--endpoint", endpoint, "--region", "us-east-1"];
    // DynamoDB Local shares its machine with everything else that is tested.
    await storyOfInstances(() => serving(t, [...place, "--timeout", "10s", "--no-dashboard"]));
  });
});
