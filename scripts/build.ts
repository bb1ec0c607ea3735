import { execFileSync } from "node:child_process";
import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleCli } from "./bundle-cli.ts";
import { bundleLambdas } from "./bundle-lambda.ts";
import { writePage } from "./bundle-page.ts";
import { bundleServer } from "./bundle-server.ts";
import { takesNoArguments } from "./script.ts";

takesNoArguments(
  "npm run build      src becomes dist: plain JavaScript with types beside it, for Node 22.13 and later\n",
);

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

rmSync(dist, { recursive: true, force: true });
execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
await bundleCli(root);

/** A relative import of a .ts file: what comes before the ending, the ending, the quote. */
const TS_IMPORT = /((?:\bfrom|\bimport)\s*\(?\s*["']\.[^"']*)(\.ts)(["'])/g;

// The compiler rewrites imports in JavaScript but leaves them in declarations, where they name files we do not ship.
for (const file of globSync("**/*.d.ts", { cwd: dist })) {
  const path = join(dist, file);
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.replace(TS_IMPORT, "$1.js$3"));
  // The same once more for CommonJS: Node lets it require this package, but TypeScript takes a .d.ts in here for a module that
  // cannot be required. One more file that re-exports would not do, as it could not require them either.
  writeFileSync(join(dist, file.replace(/\.d\.ts$/, ".d.cts")), text.replace(TS_IMPORT, "$1.cjs$3"));
}

// Node strips no types inside node_modules: one such import left in the output, and nobody can load the package.
for (const file of globSync("**/*.js", { cwd: dist })) {
  const [left] = readFileSync(join(dist, file), "utf8").match(TS_IMPORT) ?? [];
  if (left !== undefined) throw new Error(`dist/${file} still has ${left}; import the file by a literal path.`);
}

await bundleServer(dist);
await bundleLambdas(dist);
await writePage(join(dist, "dashboard"));
