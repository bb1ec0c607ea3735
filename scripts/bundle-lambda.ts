import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin, transform } from "esbuild";
import { zippedLambda } from "./zip-lambda.ts";

// The code of the stack's functions, for Node 22 on Lambda, whose runtime has the AWS SDK. Bundled when this package is built, so that
// `zae-limiter deploy` needs no bundler.

const root = fileURLToPath(new URL("..", import.meta.url));

/** The functions, and the file that exports the `handler` of each. */
const ENTRIES = { aggregator: "src/entry/aggregator.ts", provisioner: "src/entry/provisioner.ts" } as const;

export type LambdaName = keyof typeof ENTRIES;

/**
 * Writes the zips of both functions below a folder, in parts: `lambda/shared.part`, with which each of them begins, and the rest of each,
 * `lambda/NAME.part`. Most of their code is the same, and so it is in the package once.
 */
export async function bundleLambdas(dist: string): Promise<void> {
  const folder = join(dist, "lambda");
  mkdirSync(folder, { recursive: true });
  const { aggregator, provisioner } = await zippedFunctions();
  const shared = aggregator.findIndex((byte, i) => byte !== provisioner[i]);
  writeFileSync(join(folder, "shared.part"), aggregator.subarray(0, shared));
  writeFileSync(join(folder, "aggregator.part"), aggregator.subarray(shared));
  writeFileSync(join(folder, "provisioner.part"), provisioner.subarray(shared));
}

/** Both functions as they are uploaded. Their zips begin with the files that both have. */
export async function zippedFunctions(): Promise<Readonly<Record<LambdaName, Uint8Array>>> {
  const { files, importsOf } = await bundledFunctions();
  const reached = { aggregator: importsOf("aggregator"), provisioner: importsOf("provisioner") };
  const shared = [...reached.aggregator].filter((name) => reached.provisioner.has(name)).sort();
  const zipped = (name: LambdaName) => {
    const own = [...reached[name]].filter((one) => !shared.includes(one)).sort();
    const code = [...shared, ...own].map((one) => [one, files.get(one)] as const);
    return zippedLambda(
      Object.fromEntries([...code, ["index.mjs", files.get(`${name}.mjs`)]]) as Record<string, Uint8Array>,
    );
  };
  return { aggregator: zipped("aggregator"), provisioner: zipped("provisioner") };
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
    bundler.onLoad({ filter: /entry[/\\](postgres|redis)\.ts$/ }, () => ({ contents: "export {};" }));
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

/** A function is what its file exports as `handler`. */
const handlers: Plugin = {
  name: "handlers",
  setup: (bundler) => {
    bundler.onResolve({ filter: /^function:/ }, ({ path }) => ({
      path: path.slice("function:".length),
      namespace: "function",
    }));
    bundler.onLoad({ filter: /./, namespace: "function" }, ({ path }) => ({
      contents: `export { handler } from "./${path}";`,
      resolveDir: root,
    }));
  },
};

interface Bundled {
  /** The files by their names: one of each function, and those that they import. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** What the file of a function imports, and what that imports. */
  importsOf(name: LambdaName): ReadonlySet<string>;
}

async function bundledFunctions(): Promise<Bundled> {
  const { outputFiles, metafile, warnings } = await build({
    entryPoints: Object.entries(ENTRIES).map(([name, file]) => ({ in: `function:${file}`, out: name })),
    ...{ outdir: root, outExtension: { ".js": ".mjs" }, chunkNames: "[name]-[hash]", splitting: true, metafile: true },
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
    plugins: [handlers, ownVersion, onlyTables, errorNames],
    // What is written as CommonJS asks for modules of Node by `require`.
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  });
  if (warnings.length > 0) throw new Error(`The code of the functions: ${warnings.map(({ text }) => text).join("; ")}`);
  const importsIn = (file: string) => metafile.outputs[file]?.imports.filter(({ external }) => !external) ?? [];
  return {
    files: new Map(outputFiles.map(({ path, contents }) => [basename(path), contents])),
    importsOf(name) {
      const reached = new Set<string>();
      const add = (file: string) => {
        for (const { path } of importsIn(file)) {
          if (reached.has(path)) continue;
          reached.add(path);
          add(path);
        }
      };
      add(`${name}.mjs`);
      return reached;
    },
  };
}
