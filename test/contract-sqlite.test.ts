import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqlite } from "../src/adapters/sqlite/store.ts";
import { describeStore } from "../src/testing/contract.ts";

for (const coalesce of [true, false]) {
  describeStore(coalesce ? "sqlite" : "sqlite, call by call", () => {
    const folder = mkdtempSync(join(tmpdir(), "zae-limiter-contract-"));
    const store = openSqlite({ file: join(folder, "limiter.db"), durability: "normal", coalesce, random: () => 0.5 });
    return {
      store,
      close: async () => {
        await store.close();
        rmSync(folder, { recursive: true });
      },
    };
  });
}
