import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { allExamples } from "../docs/doc-examples.ts";
import { plainEnvironment } from "../docs/readme.ts";
import { describeDynamo } from "./dynamodb-local.ts";

const run = promisify(execFile);
const examples = allExamples().filter(({ isOnDynamo }) => isOnDynamo);

await describeDynamo("the documents about DynamoDB", ({ endpoint }) => {
  test("have examples", () => {
    assert.ok(examples.some(({ place }) => place.startsWith("docs/guide/dynamodb.md")));
  });

  for (const { place, text } of examples) {
    test(`the example at ${place} runs against DynamoDB Local, ends by itself, and runs once more`, async (t) => {
      const folder = await mkdtemp(join(tmpdir(), "docs-dynamodb-"));
      t.after(() => rm(folder, { recursive: true }));
      const file = join(folder, "example.mts");
      // A table of its own for each: the name is all that is changed.
      await writeFile(file, text.replaceAll("limits-table", `docs-${process.pid}-${place.replace(/\W+/g, "-")}`));
      const env = {
        ...plainEnvironment(),
        ...{ AWS_ENDPOINT_URL_DYNAMODB: endpoint, AWS_REGION: "eu-west-1" },
        ...{ AWS_ACCESS_KEY_ID: "local", AWS_SECRET_ACCESS_KEY: "local" },
      };
      // Rejects when the example throws, exits with an error or does not end by itself; also on the table of the first run.
      // Without a time limit but the test runner's: a busy machine is no fault.
      for (let i = 0; i < 2; i++) await run(process.execPath, [file], { cwd: folder, env });
    });
  }
});
