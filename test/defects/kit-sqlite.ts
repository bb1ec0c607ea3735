import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { openSqlite } from "../../src/entry/sqlite.ts";
import type { Store } from "../../src/ports/store.ts";
import { Kit } from "./kit.ts";

/** Each test on a file of its own, every process with a connection of its own. */
export function sqliteKit(): Kit {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-defects-"));
  const opened: Store[] = [];
  after(async () => {
    for (const store of opened) await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  let files = 0;
  const newGround = async () => {
    const file = join(folder, `${files++}.db`);
    const store = async () => {
      const store = openSqlite({ file });
      opened.push(store);
      return store;
    };
    return { namespace: "default", options: {}, store };
  };
  return new Kit(newGround, { tells: true, isWhole: true, many: 2_000 });
}
