import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin, transform } from "esbuild";
import { zippedLambda } from "./zip-lambda.ts";

// The code of the stack's functions: one file each, for Node 22 on Lambda, whose runtime has the AWS SDK. Bundled when this package is
// built, so that `zae-limiter deploy` needs no bundler.

const root = fileURLToPath(new URL("..", import.meta.url));

/** The functions, and the file that exports the `handler` of each. */
const ENTRIES = { aggregator: "src/entry/aggregator.ts", provisioner: "src/entry/provisioner.ts" } as const;

export type LambdaName = keyof typeof ENTRIES;

/** Writes `lambda/NAME.zip` of both functions below a folder. */
export async function bundleLambdas(dist: string): Promise<void> {
  const folder = join(dist, "lambda");
  mkdirSync(folder, { recursive: true });
  for (const name of Object.keys(ENTRIES) as LambdaName[]) {
    writeFileSync(join(folder, `${name}.zip`), await zippedFunction(name));
  }
}

/** A function as it is uploaded. */
export async function zippedFunction(name: LambdaName): Promise<Uint8Array> {
  return zippedLambda(await bundledLambda(name));
}

/** A function has no package beside it that could say of which version it is. */
const ownVersion: Plugin = {
  name: "own-version",
  setup: (bundler) => {
    bundler.onLoad({ filter: /entry[/\\]package-version\.ts$/ }, () => {
      const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
      return { contents: `export const packageVersion = () => ${JSON.stringify(version)};`, loader: "ts" };
    });
  },
};

/** A function has a table: it opens no store in a file or on a server, and none in memory. */
const onlyTables: Plugin = {
  name: "only-tables",
  setup: (bundler) => {
    bundler.onLoad({ filter: /adapters[/\\]sqlite[/\\]store\.ts$/ }, () => ({ contents: "export {};" }));
    bundler.onLoad({ filter: /entry[/\\]postgres\.ts$/ }, () => ({ contents: "export {};" }));
    const refusal = "The functions of a stack work on its table; they have no store in memory.";
    const contents = `export const openMemory = () => { throw new Error(${JSON.stringify(refusal)}); };`;
    bundler.onLoad({ filter: /adapters[/\\]memory[/\\]store\.ts$/ }, () => ({ contents, loader: "ts" }));
  },
};

/** Errors are called by their class, also where all names are short. */
const errorNames: Plugin = {
  name: "error-names",
  setup: (bundler) => {
    bundler.onLoad({ filter: /src[/\\].*\.ts$/ }, async ({ path }) => {
      const text = readFileSync(path, "utf8");
      if (!/^(export )?class \w+ extends \w*Error\b/m.test(text)) return undefined;
      const { code } = await transform(text, { loader: "ts", target: "node22", keepNames: true });
      return { contents: code, loader: "js" };
    });
  },
};

/** The code of a function. */
async function bundledLambda(name: LambdaName): Promise<Uint8Array> {
  const { outputFiles, warnings } = await build({
    stdin: { contents: `export { handler } from "./${ENTRIES[name]}";`, resolveDir: root, sourcefile: `${name}.mjs` },
    outfile: "index.mjs",
    ...{ bundle: true, write: false, platform: "node", format: "esm", target: "node22", logLevel: "silent" },
    ...{ minify: true, legalComments: "none" },
    absWorkingDir: root,
    external: ["@aws-sdk/*", "@smithy/*"],
    // Lambda has the credentials of a function in its environment: no chain that looks elsewhere is needed.
    alias: {
      "@aws-sdk/credential-providers": join(root, "scripts/lambda-credentials.ts"),
      undici: join(root, "scripts/lambda-http.ts"),
      yaml: join(root, "scripts/lambda-yaml.ts"),
    },
    plugins: [ownVersion, onlyTables, errorNames],
    // What is written as CommonJS asks for modules of Node by `require`.
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  });
  if (warnings.length > 0) throw new Error(`The code of ${name}: ${warnings.map(({ text }) => text).join("; ")}`);
  const [file] = outputFiles;
  if (file === undefined) throw new Error(`There is no code of ${name}.`);
  return file.contents;
}
