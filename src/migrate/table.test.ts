import assert from "node:assert/strict";
import { test } from "node:test";
import type { DynamoAnswer, DynamoClient } from "../adapters/dynamodb/client.ts";
import { systemRandom } from "../adapters/system/random.ts";
import { MigratedTable, makeBackup, wayBackOf } from "./table.ts";

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

test("whether a table can go back: by a backup, to a point in time, not at all, or nobody knows", async () => {
  const of = (answer: DynamoAnswer, backup?: string) => {
    const client: DynamoClient = { send: async () => answer, close: async () => {} };
    const clock = { now: () => 0, sleep: async () => {} };
    return wayBackOf(new MigratedTable({ client, tableName: "t", clock, random: () => 0, ids: systemRandom }), backup);
  };
  const said = (PointInTimeRecoveryStatus: string): DynamoAnswer => ({
    kind: "answered",
    body: { ContinuousBackupsDescription: { PointInTimeRecoveryDescription: { PointInTimeRecoveryStatus } } },
  });
  const denied: DynamoAnswer = { kind: "failed", status: 400, code: "AccessDeniedException", message: "no", body: {} };
  assert.equal(await of(said("DISABLED"), "before"), "backup");
  assert.equal(await of(said("ENABLED")), "pointInTime");
  assert.equal(await of(said("DISABLED")), "none");
  assert.equal(await of({ kind: "answered", body: { ContinuousBackupsDescription: {} } }), "none");
  assert.equal(await of(denied), "unknown");
});
