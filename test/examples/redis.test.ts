import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { plainEnvironment } from "../docs/readme.ts";
import { describeRedis } from "../redis/redis-server.ts";

const run = promisify(execFile);
const file = (path: string) => new URL(`../../${path}`, import.meta.url);
const read = (path: string) => readFileSync(file(path), "utf8");

await describeRedis("several processes on Redis, by a client of theirs", ({ url }) => {
  test("examples/redis prints what it is expected to, and once more", async () => {
    const env = { ...plainEnvironment(), REDIS_URL: url };
    for (let i = 0; i < 2; i++) {
      const { stdout } = await run(process.execPath, [fileURLToPath(file("examples/redis/main.ts"))], { env });
      assert.equal(stdout, read("examples/redis/expected-output.txt"));
    }
  });
});

test("docs/guide/redis.md names examples/redis", () => {
  assert.match(read("docs/guide/redis.md"), /`examples\/redis`/);
});
