import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DescribeTableCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { createTable } from "../../src/entry/dynamodb.ts";
import { CREDENTIALS, REGION, StackShell } from "./stack-kit.ts";
import { describeMoto } from "./tools.ts";

const GUIDE = new URL("../../docs/guide/production.md", import.meta.url);

await describeMoto("the production guide", (endpoint) => {
  test("every command of it does what it says, in its order", { timeout: 300_000 }, async (t) => {
    const before = process.cwd();
    const folder = mkdtempSync(join(tmpdir(), "zael-guide-"));
    t.after(() => {
      process.chdir(before);
      rmSync(folder, { recursive: true, force: true });
    });
    process.chdir(folder);
    const shell = new StackShell(endpoint);
    const place = { region: REGION, endpoint: shell.endpoint, credentials: CREDENTIALS };
    const lines = Array.from(
      readFileSync(GUIDE, "utf8").matchAll(/^ {4,}zae-limiter (.+)$/gm),
      ([, line]) => line ?? "",
    );
    assert.ok(lines.length > 12, `${lines.length} commands`);
    for (const line of lines) {
      const { code, stderr } = await shell.run(line.includes("$TABLE_ARN") ? await restored(line, place) : line);
      assert.equal(code, 0, `zae-limiter ${line}: ${stderr}`);
    }
    assert.deepEqual(await shell.json("list"), { items: [] });
  });
});

/** Stands in for the restoration, which moto's DynamoDB is not asked for. */
async function restored(
  line: string,
  place: { readonly region: string; readonly endpoint: string; readonly credentials: typeof CREDENTIALS },
) {
  await createTable({ stack: "limits-restored", ...place });
  const client = new DynamoDBClient(place);
  const { Table } = await client.send(new DescribeTableCommand({ TableName: "limits-restored" }));
  client.destroy();
  return line.replace("$TABLE_ARN", Table?.TableArn ?? "").replace("$STREAM_ARN", Table?.LatestStreamArn ?? "");
}
