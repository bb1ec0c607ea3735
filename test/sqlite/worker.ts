import { writeSync } from "node:fs";
import { openSqlite } from "../../src/adapters/sqlite/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { steadyMs } from "../../src/adapters/system/clock.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import { claim, context, kinds, NOON, oneTime } from "./temp-store.ts";

// A process that takes one token after another from one bucket: FILE CAPACITY CALLERS. Waits for a message before it begins.
// Each grant that was acknowledged is one byte on its standard output, written before the next call: what a parent has
// read was granted, whatever happens to this process. Ends when the bucket is empty.

const [file = "", capacity = "0", callers = "1"] = process.argv.slice(2);
const store = openSqlite({
  file,
  durability: "normal",
  coalesce: true,
  retention: FILE_RETENTION,
  random: Math.random,
  steadyMs,
  calendar: createCalendar(),
});
const { buckets } = store.scope("default");
const wanted = [claim("shared", [oneTime("tokens", Number(capacity))], { tokens: 1 })];

process.send?.("ready");
await new Promise((resolve) => process.once("message", resolve));
await Promise.all(Array.from({ length: Number(callers) }, drain));
await store.close();
process.disconnect?.();

async function drain(): Promise<void> {
  for (;;) {
    const [kind] = kinds(await buckets.take(wanted, context(NOON, { timeoutMs: 10_000 })));
    if (kind !== "taken") {
      if (kind !== "short") throw new Error(`A take was answered with ${kind}.`);
      return;
    }
    writeSync(1, ".");
  }
}
