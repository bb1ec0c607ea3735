import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { newPrefix } from "../redis/kit.ts";
import { describeRedis } from "../redis/redis-server.ts";
import { allExamples } from "./doc-examples.ts";
import { plainEnvironment } from "./readme.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);
const examples = allExamples().filter(({ isOnRedis, isStep }) => isOnRedis && !isStep);

await describeRedis("the documents about Redis", ({ url }) => {
  test("have examples", () => {
    assert.ok(examples.some(({ place }) => place.startsWith("docs/guide/redis.md")));
  });

  for (const { place, text, printed } of examples) {
    test(`the example at ${place} runs on a server, ends by itself, and runs once more`, async (t) => {
      const folder = await mkdtemp(join(tmpdir(), "docs-redis-"));
      t.after(() => rm(folder, { recursive: true }));
      await symlink(join(root, "node_modules"), join(folder, "node_modules"));
      const prefix = newPrefix();
      const file = join(folder, "example.mts");
      // Where the server is, and a prefix of its own: nothing else is changed.
      const own = text
        .replaceAll(/rediss:\/\/[\w.@:-]*redis\.internal(?::6379)?/g, url)
        .replaceAll("?prefix=limits", `?prefix=${prefix}`);
      assert.doesNotMatch(own, /redis\.internal/);
      await writeFile(file, own);
      const env = { ...plainEnvironment(), REDIS_URL: `${url}?prefix=${prefix}` };
      // Rejects when the example throws, exits with an error or does not end by itself; also on the keys of the first run.
      for (let i = 0; i < 2; i++) {
        const { stdout } = await run(process.execPath, [file], { cwd: folder, env });
        if (i === 0 && printed !== undefined) assert.equal(stdout, printed);
      }
    });
  }
});
