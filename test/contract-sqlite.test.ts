import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqlite } from "../src/adapters/sqlite/store.ts";
import { createCalendar } from "../src/adapters/system/calendar.ts";
import { steadyMs } from "../src/adapters/system/clock.ts";
import { FILE_RETENTION } from "../src/domain/retention.ts";
import { describeStore } from "../src/testing/contract.ts";

const calendar = createCalendar();

for (const coalesce of [true, false]) {
  describeStore(coalesce ? "sqlite" : "sqlite, call by call", () => {
    const folder = mkdtempSync(join(tmpdir(), "zae-limiter-contract-"));
    const store = openSqlite({
      file: join(folder, "limiter.db"),
      durability: "normal",
      coalesce,
      retention: FILE_RETENTION,
      random: () => 0.5,
      steadyMs,
      calendar,
    });
    return {
      store,
      close: async () => {
        await store.close();
        rmSync(folder, { recursive: true });
      },
    };
  });
}
