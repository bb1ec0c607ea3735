import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { bundlePage } from "../../scripts/bundle-page.ts";
import { pageFiles } from "../../src/server/dashboard-page.ts";

test("the whole dashboard is under 100 kB compressed", async () => {
  const { index, assets } = await pageFiles();
  const bytes = [index, ...assets.values()].map(({ gzipped }) => gzipped.length);
  const total = bytes.reduce((sum, each) => sum + each, 0);
  assert.ok(total > 20_000 && total < 100_000, `${total} bytes`);
});

test("script and style are files with hashed names: nothing is inline, and nothing comes from elsewhere", async () => {
  const files = await bundlePage();
  const html = new TextDecoder().decode(files.get("index.html"));
  assert.doesNotMatch(html, /<style|style=|<script(?![^>]* src=)|\son\w+=|{{|https?:/);
  const named = [...html.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map(([, path]) => path as string);
  assert.equal(named.length, 3);
  for (const path of named) {
    assert.match(path, /-[A-Z0-9]{8}\.(js|css|svg)$/);
    assert.ok(files.has(path), `${path} is not in the bundle`);
  }
  const again = await bundlePage();
  assert.deepEqual([...again.keys()], [...files.keys()], "the same sources have the same names");
});

test("the licences of what is bundled lie beside it", async () => {
  const licences = new TextDecoder().decode((await bundlePage()).get("LICENSES.txt"));
  for (const library of ["preact", "uplot", "eventsource-parser"]) {
    assert.match(licences, new RegExp(`^${library} \\d+\\.\\d+\\.\\d+\\n\\n[\\s\\S]*MIT`, "m"));
  }
});

test("a file is served with its type, and compressed to what it was", async () => {
  const { index, assets } = await pageFiles();
  assert.equal(index.type, "text/html; charset=utf-8");
  for (const [name, { bytes, gzipped, type, etag }] of assets) {
    const ending = name.split(".").at(-1);
    assert.match(type, { js: /javascript/, css: /css/, svg: /svg/ }[ending as "js"] ?? /never/);
    assert.deepEqual(gzipSync(bytes, { level: 9 }), gzipped);
    assert.match(etag, /^"[\w-]{22}"$/);
  }
});

test("where there is no Chromium its tests are skipped aloud, and fail where one is required", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zael-chromium-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const env = { ZAEL_CHROMIUM: join(folder, "none") };
  const skipped = await ran(env);
  assert.equal(skipped.code, 0, skipped.said);
  assert.match(skipped.said, /SKIPPED\. No browser for the suite "a page": .*apt-get install chromium/);
  assert.match(skipped.said, /skipped 1/);
  const failed = await ran({ ...env, ZAEL_REQUIRE_BROWSER: "1" });
  assert.equal(failed.code, 1, failed.said);
});

const SUITE = `
  const { browserTests } = await import(${JSON.stringify(new URL("chromium.ts", import.meta.url).href)});
  browserTests().inBrowser("a page", () => { throw new Error("there is a browser"); });`;

function ran(env: Readonly<Record<string, string>>): Promise<{ code: number | null; said: string }> {
  const { NODE_TEST_CONTEXT, ZAEL_CHROMIUM, ZAEL_REQUIRE_BROWSER, ...own } = process.env;
  const child = spawn(process.execPath, ["--input-type=module", "-e", SUITE], { env: { ...own, ...env } });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, said })));
}
