import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { transform } from "esbuild";
import { importingFrom, plainEnvironment } from "./readme.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Asks the application of the guide, which is called `app`, and prints what it answers. */
const ASKING = `
const url = await app.getUrl();
const ask = async (path, init) => {
  const response = await fetch(url + path, init);
  console.log(path, response.status, response.headers.get("ratelimit")?.replaceAll(/;t=\\d+/g, ""), await response.text());
};
const headers = { "x-api-key": "key-1", "content-type": "application/json" };
await ask("/chat", { method: "POST", headers, body: JSON.stringify({ prompt: "why?" }) });
await ask("/chat", { method: "POST", headers, body: JSON.stringify({ prompt: "why?" }) });
await ask("/chat/health");
await ask("/chat", { method: "POST" });
await app.close();
`;

test("the application of the guide on Nest runs: limited, adjusted, skipped, and refused without a key", async (t) => {
  const guide = readFileSync(join(root, "docs/guide/nest.md"), "utf8");
  const [, block = ""] = /^```ts\n([\s\S]*?)^```$/m.exec(guide) ?? [];
  const text = importingFrom(block, (name) => join(root, `src/entry/${name}.ts`))
    .replace("NestFactory.create(AppModule)", "NestFactory.create(AppModule, { logger: false })")
    .replace("RateLimiter.open()", "RateLimiter.open({ clock: { now: () => 1_800_000_000_000 } })")
    .replace("app.listen(3000)", 'app.listen(0, "127.0.0.1")');
  assert.match(text, /clock: [\s\S]*logger: false[\s\S]*listen\(0, /);
  // Node strips types, and has no decorators.
  const { code } = await transform(text + ASKING, {
    loader: "ts",
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true } },
  });
  const folder = mkdtempSync(join(tmpdir(), "nest-guide-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const file = join(folder, "app.mjs");
  writeFileSync(file, code);
  const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: folder, env: plainEnvironment() });
  const lines = stdout.trim().split("\n");
  const answer = JSON.stringify({ text: "You asked: why?", tokens: 320 });
  assert.deepEqual(lines.slice(0, 3), [
    `/chat 201 "rpm";r=59, "tpm";r=9500 ${answer}`,
    `/chat 201 "rpm";r=58, "tpm";r=9180 ${answer}`,
    "/chat/health 200 undefined fine",
  ]);
  assert.match(lines[3] ?? "", /^\/chat 400 undefined .*"code":"key_missing"/);
});
