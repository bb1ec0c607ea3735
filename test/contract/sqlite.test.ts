import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqlite } from "../../src/adapters/sqlite/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { steadyMs } from "../../src/adapters/system/clock.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import type { Store } from "../../src/ports/store.ts";
import { atDepth } from "../depth.ts";
import { describeStore } from "../kit/contract.ts";

const calendar = createCalendar();

for (const coalesce of atDepth([true], [true, false])) {
  describeStore(coalesce ? "sqlite" : "sqlite, call by call", () => {
    const folder = mkdtempSync(join(tmpdir(), "zae-limiter-contract-"));
    const options = {
      file: join(folder, "limiter.db"),
      durability: "normal",
      coalesce,
      retention: FILE_RETENTION,
      random: () => 0.5,
      steadyMs,
      calendar,
    } as const;
    const stores = [openSqlite(options)];
    return {
      store: stores[0] as Store,
      another: () => {
        const other = openSqlite(options);
        stores.push(other);
        return other;
      },
      close: async () => {
        for (const store of stores) await store.close();
        rmSync(folder, { recursive: true });
      },
    };
  });
}
