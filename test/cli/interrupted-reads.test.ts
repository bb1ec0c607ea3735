import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { atDepth } from "../depth.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

const IDS = 1_500;

/** A file with more rows than are read in one turn of the event loop. */
async function filled(t: TestContext): Promise<string> {
  const file = tempFile(t);
  const limiter = await RateLimiter.open({ store: `sqlite:${file}`, timeoutMs: 60_000 });
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 60)]);
  const ids = Array.from({ length: IDS }, (_, i) => `user-${i}`);
  for (let from = 0; from < IDS; from += 100) {
    const some = ids.slice(from, from + 100);
    await Promise.all(some.map((entityId) => limiter.acquire({ entityId, resource: "api", consume: { rpm: 1 } })));
  }
  for (const id of ids) await limiter.createEntity({ id });
  await limiter.close();
  return file;
}

test("T1: Ctrl-C ends a long read at once with 130, and what it was reading is not printed", async (t) => {
  const file = await filled(t);
  const manifest = `${file}.yaml`;
  writeFileSync(
    manifest,
    `entities: { ${Array.from({ length: IDS }, (_, i) => `user-${i}: { name: U }`).join(", ")} }`,
  );
  for (const line of [
    "usage summary",
    "limits export",
    ...atDepth([], ["usage chart", "resource capacity api rpm", `limits plan -f ${manifest}`]),
  ]) {
    const args = [...line.split(" "), "--json", "--store", `sqlite:${file}`];
    // In the middle of it: after every other number of turns, until one is late enough for the whole answer.
    let interrupted = 0;
    for (let turns = 4; ; turns *= 2) {
      let isDone = false;
      const run = here(args).finally(() => {
        isDone = true;
      });
      for (let turn = 0; turn < turns && !isDone; turn++) await new Promise((resolve) => setImmediate(resolve));
      if (isDone) {
        assert.equal((await run).code, 0);
        break;
      }
      process.emit("SIGINT");
      const { code, stdout } = await run;
      assert.equal(code, 130, `${line} after ${turns} turns`);
      // It came when all was read and the file was being closed.
      if (stdout !== "") break;
      interrupted += 1;
    }
    assert.ok(interrupted > 0, line);
  }
});
