import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { prepareTable } from "../../src/adapters/dynamodb/table-admin.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import { TRUSTED_CLOCK } from "../../src/protocol/clock/server-time.ts";
import { describeStore } from "../../src/testing/contract.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";

const calendar = createCalendar();

await describeDynamo("on DynamoDB", ({ client, newTable }) => {
  describeStore("dynamodb", async () => {
    // The stories are told in the past: a table that removes what has expired would remove what they are about.
    const table = await newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    const base = { client, table, clock: systemClock, random: Math.random, ids: systemRandom };
    await prepareTable({ ...base, version: "0.0.0", timeoutMs: 10_000 });
    const options = {
      ...base,
      ...{ calendar, coalesce: true, exact: false, shared: false, denyMemoryMs: 0 },
      // DynamoDB Local shares its machine with everything else that is tested.
      ...{ timeoutMs: 10_000, adminTimeoutMs: 30_000 },
      serverTime: TRUSTED_CLOCK,
      settle: async () => {},
    };
    const store = dynamoOver(options);
    return {
      store,
      another: () => dynamoOver(options),
      close: async () => {
        await store.close();
        await client.send("DeleteTable", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 });
      },
    };
  }, ["generation", "pastHours"]);
});
