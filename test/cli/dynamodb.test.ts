import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createService } from "../../src/entry/server.ts";
import { deepTest } from "../deep-test.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { tokenOf } from "../server/service-kit.ts";
import { here } from "./in-process.ts";
import { leaseStory } from "./lease-story.ts";
import { limitsStory } from "./limits-story.ts";
import { operatorStory, refusalStory, usageStory } from "./story.ts";

await describeDynamo("the command line on DynamoDB", ({ endpoint, client }) => {
  /** A name for a table that is not there yet, and how commands reach it. */
  function place(t: TestContext, name: string) {
    Object.assign(process.env, { AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" });
    const stack = `cli-${name}-${process.pid}`;
    t.after(() => client.send("DeleteTable", JSON.stringify({ TableName: stack }), { timeoutMs: 10_000 }));
    return { stack, where: ["--stack", stack, "--endpoint", endpoint, "--timeout", "30s"] };
  }

  deepTest("an operator's daily work on a table", async (t) => {
    const { stack, where } = place(t, "story");
    await operatorStory(where, `dynamodb:${stack}`);
  });

  deepTest("leases of a service on a table, over HTTP and on the table itself", async (t) => {
    const { stack, where } = place(t, "leases");
    assert.equal((await here(["init", "--yes", ...where])).code, 0);
    const { token, entry } = tokenOf("ops");
    const store = { store: `dynamodb:${stack}`, endpoint };
    const service = await createService({ ...store, tokens: [entry], log: () => {} });
    const { url, close } = await service.listen({ port: 0 });
    t.after(close);
    await leaseStory(where, { url, token });
  });

  deepTest("usage on a table", async (t) => usageStory(place(t, "usage").where));
  deepTest("refusals on a table", async (t) => refusalStory(place(t, "refusals").where));

  deepTest("declared limits on a table", async (t) => limitsStory(t, place(t, "limits").where));

  test("a table that is not there is answered with the nearest that is, and shells complete its name", async (t) => {
    const { stack, where } = place(t, "near");
    assert.equal((await here(["init", "--yes", ...where])).code, 0);
    const typo = stack.replace("near", "naer");
    const missing = await here(["entity", "list", ...where.with(1, typo)]);
    assert.equal(missing.code, 4);
    assert.match(missing.stderr, new RegExp(`no table "${typo}".*did you mean ${stack}\\?`));
    const completed = async (...words: readonly string[]) =>
      (await here(["__complete", "--", "--endpoint", endpoint, ...words])).stdout;
    assert.equal(await completed("entity", "list", "--stack", stack.slice(0, -1)), `${stack}\n`);
    assert.equal(await completed("status", "--name", stack.slice(0, -1)), `${stack}\n`);
    assert.equal(await completed("entity", "list", "--store", `dynamodb:${stack}`), `dynamodb:${stack}\n`);
  });
});
