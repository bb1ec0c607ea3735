import assert from "node:assert/strict";
import { test } from "node:test";
import type { DynamoClient } from "../adapters/dynamodb/client.ts";
import { systemRandom } from "../adapters/system/random.ts";
import { makeBackup } from "./backup.ts";
import { MigratedTable } from "./table.ts";

// DynamoDB Local has no backups: this is told by the requests.
test("a backup is asked for by its name, and waited for until it can be restored", async () => {
  const asked: (readonly [string, unknown])[] = [];
  const states = ["CREATING", "CREATING", "AVAILABLE"];
  const client: DynamoClient = {
    send: async (operation, body) => {
      asked.push([operation, JSON.parse(body)]);
      const BackupDetails =
        operation === "CreateBackup"
          ? { BackupArn: "arn:b", BackupStatus: "CREATING" }
          : { BackupStatus: states.shift() };
      return {
        kind: "answered",
        body: operation === "CreateBackup" ? { BackupDetails } : { BackupDescription: { BackupDetails } },
      };
    },
    close: async () => {},
  };
  const clock = { now: () => 0, sleep: async () => {} };
  await makeBackup(new MigratedTable({ client, tableName: "t", clock, random: () => 0, ids: systemRandom }), "before");
  assert.deepEqual(asked, [
    ["CreateBackup", { TableName: "t", BackupName: "before" }],
    ...Array.from({ length: 3 }, () => ["DescribeBackup", { BackupArn: "arn:b" }]),
  ]);
});
