import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

// Prices that are null or of one token are told, in sentences. An adapter has 31 to 37 kB with what it needs of errors, names and prices; with header fields, which bring the engine, 69 kB.
// The adapters of clients pass requests on by the function that the proxy uses, too, and take the provider's budget as a part: 300 bytes.
const BOUNDS = [
  ["openai", 38_000],
  ["anthropic", 38_000],
  ["ai", 37_700],
  ["llm", 20_300],
] as const;

for (const [entry, bytesMax] of BOUNDS) {
  test(`a bundle of zae-limiter/${entry} is small, runs anywhere, and has neither a client nor the engine in it`, async () => {
    const path = fileURLToPath(new URL(`../../src/entry/${entry}.ts`, import.meta.url));
    const { outputFiles, metafile } = await build({
      ...{
        entryPoints: [path],
        bundle: true,
        minify: true,
        format: "esm",
        platform: "browser",
        write: false,
        metafile: true,
      },
      logLevel: "silent",
    });
    const bytes = outputFiles[0]?.contents.length ?? 0;
    assert.ok(bytes < bytesMax, `${bytes} bytes`);
    assert.deepEqual(
      Object.values(metafile.outputs).flatMap(({ imports }) => imports),
      [],
    );
  });
}
