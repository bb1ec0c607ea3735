import { before } from "node:test";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { prepareTable } from "../../src/adapters/dynamodb/table-admin.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import { TRUSTED_CLOCK } from "../../src/clock/clock-bounds.ts";
import { atDepth } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { TableImage } from "../dynamodb/table-image.ts";
import { describeSuite } from "../kit/contract.ts";
import { suiteOn } from "../kit/contract-kit.ts";

const calendar = createCalendar();

/** Takes sweep nothing away from this store; what many of them do that few do not is told on stores that are quicker. */
const FEW_REPEATS = 40;

await describeDynamo("on DynamoDB", ({ client, newTable }) => {
  const base = { client, clock: systemClock, random: Math.random, ids: systemRandom };
  // A table for all stories, made what it was before each: to make and delete one takes longer than most of them.
  let image: TableImage;
  before(async () => {
    // The stories are told in the past: a table that removes what has expired would remove what they are about.
    const table = await newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    await prepareTable({ ...base, table, version: "0.0.0", timeoutMs: 10_000 });
    image = await TableImage.of(client, table);
  });
  const open = () => {
    const options = {
      ...{ ...base, table: image.table },
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
        await image.restore();
      },
    };
  };
  describeSuite("dynamodb", suiteOn(open, ["generation", "pastHours"], atDepth(FEW_REPEATS, undefined)));
});
