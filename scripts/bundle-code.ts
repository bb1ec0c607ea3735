import { globSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type BuildOptions, build, type Plugin } from "esbuild";
import { lazyBuiltins } from "./bundle-builtins.ts";
import { writeLicences } from "./licences.ts";

/** What a program imports by the package's name, each a file of `dist/entry`. `bundle-types.ts` makes their declarations. */
export const ENTRIES = [
  "index",
  "memory",
  "sqlite",
  "postgres",
  "dynamodb",
  "aggregator",
  "manifest",
  "infra",
  "cdk",
  "server",
  "express-rate-limit-store",
  "express",
  "fastify",
  "hono",
  "fetch",
  "lambda",
  "llm",
  "otel",
  "mcp",
  "client",
  "errors",
  "openai",
  "anthropic",
  "ai",
  "nest",
  "testing",
];

/** Where a process begins: the command, and what it starts beside itself. */
const PROCESSES = {
  "code/run-process": "src/cli/run-process.ts",
  "code/worker-process": "src/loadtest/worker-process.ts",
  "code/runner-process": "src/local/runner-process.ts",
};

/**
 * What somebody may bundle without the rest of the library: errors, limits, a store in memory. As entries of their own these are
 * files of their own. (The entries themselves are removed: nothing imports them.)
 */
const APART = {
  "code/apart-errors": "src/domain/names/errors.ts",
  "code/apart-limits": "src/entry/limits.ts",
  "code/apart-memory": "src/entry/open-memory.ts",
};

/** Entries that are bundled for browsers: nothing is imported with them that they do not use. */
const ALONE = ["src/entry/client.ts", "src/entry/errors.ts"];

/** Commands that need much more than a store. */
const FAR_COMMANDS = /\/commands\/(deploy|loadtest|migrate|serve|stack)\.ts$/;

/**
 * The library and the command line in one build, so that nothing of them is there twice, in a few files instead of some hundred,
 * each of which would cost a look for it and a compilation. The entries lie in `dist/entry`; all that they share, and all that is
 * imported only when it is needed, in `dist/code`: code that finds another file by its own place finds it there, and
 * `package.json` two folders up.
 */
export async function bundleCode(root: string): Promise<void> {
  await checkNames(root);
  const entries = Object.fromEntries(ENTRIES.map((name) => [`entry/${name}`, `src/entry/${name}.ts`]));
  const { metafile } = await build({
    ...sharedOptions(root),
    entryPoints: { ...entries, ...PROCESSES, ...APART },
    chunkNames: "code/[name]-[hash]",
    splitting: true,
    metafile: true,
    plugins: [serverLibraries, togetherIn(root), lazyBuiltins],
  });
  for (const name of Object.keys(APART)) rmSync(join(root, `dist/${name}.js`));
  // The very first file turns on the cache of what was compiled, so it is small and imports nothing but the rest.
  await build({
    ...{ ...sharedOptions(root), entryPoints: { "cli/main": "src/cli/main.ts" } },
    plugins: [renamed("./run-process.ts", "../code/run-process.js"), lazyBuiltins],
  });
  writeLicences(root, Object.keys(metafile.inputs), join(root, "dist/code/LICENSES.txt"));
}

function sharedOptions(root: string): BuildOptions {
  return {
    absWorkingDir: root,
    outdir: join(root, "dist"),
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node22.13",
    // Names stay: errors are called by their class, and a stack shows where one came from. Lines are short enough to be shown.
    ...{ minifyWhitespace: true, minifySyntax: true, lineLimit: 200 },
    external: [
      "@aws-sdk/*",
      "@modelcontextprotocol/sdk",
      "@nestjs/*",
      "@opentelemetry/api",
      "aws-cdk-lib",
      "constructs",
      "pg",
      "rxjs",
      "undici",
      "yaml",
    ],
    legalComments: "none",
    logLevel: "warning",
    // Imports for their place alone (`togetherIn`).
    logOverride: { "ignored-bare-import": "silent" },
  };
}

/** The libraries of the service are not installed with the package: their bundle lies beside (`bundle-server.ts`). */
const serverLibraries: Plugin = {
  name: "libraries of the server",
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.?\/vendor\.ts$/ }, () => ({ path: "../server/vendor.js", external: true }));
  },
};

/**
 * The bundler puts two modules into the same file where the same entries and lazy imports need them, so that each of these would
 * cut what nearly all need into smaller pieces. Therefore each imports all of that: the heart of the library, and each of the
 * command line's own also what nearly every command needs. What it does not use of them a bundler of its user leaves out.
 */
function togetherIn(root: string): Plugin {
  const { heart, near, far } = partsOf(root);
  const isProcess = new Set(Object.values(PROCESSES).map((file) => join(root, file)));
  const isApart = new Set([...Object.values(APART), ...ALONE].map((file) => join(root, file)));
  const imports = (files: readonly string[]) => files.map((file) => `import "./${file}";\n`).join("");
  const inLibrary = BUILTINS.map((name) => `import "node:${name}";\n`).join("") + imports(heart);
  const inCommands = inLibrary + imports(near);
  const exporting = (files: readonly string[]) =>
    files.map((file) => `export * from ${JSON.stringify(file)};\n`).join("");
  const isNear = new Set(near.map((file) => join(root, file)));
  return {
    name: "together",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^[./].*\.ts$/ }, ({ kind, path, importer, resolveDir }) => {
        // The package has no side effects, except for what runs as a process.
        if (isProcess.has(path)) return { path, sideEffects: true };
        if (kind !== "entry-point" && kind !== "dynamic-import") return undefined;
        const target = join(kind === "entry-point" ? root : resolveDir, path);
        if (kind === "entry-point" && isApart.has(target)) return undefined;
        // Members are taken by their names: what is near is one file, and loaded, whichever is asked for.
        if (isNear.has(target) && !/src\/entry\//.test(importer)) return { path: "near", namespace: "commands" };
        if (FAR_COMMANDS.test(target)) return { path: "far-commands", namespace: "commands" };
        const isLibrary = /src\/entry\//.test(kind === "entry-point" ? target : importer);
        return { path: target, namespace: isLibrary ? "library" : "command line" };
      });
      const virtual = (contents: string) => ({ contents, resolveDir: root });
      onLoad({ filter: /./, namespace: "library" }, ({ path }) => virtual(inLibrary + exporting([path])));
      onLoad({ filter: /./, namespace: "command line" }, ({ path }) => virtual(inCommands + exporting([path])));
      onLoad({ filter: /./, namespace: "commands" }, ({ path }) =>
        virtual(inCommands + exporting((path === "near" ? near : far).map((file) => `./${file}`))),
      );
    },
  };
}

function partsOf(root: string) {
  const filesOf = (...patterns: readonly string[]) =>
    globSync([...patterns], { cwd: root, exclude: ["**/*.test.ts"] }).sort();
  const commands = filesOf("src/cli/commands/*.ts");
  const heart = [
    // The JSON of limits is for the service and manifests; a bundler keeps it wherever it is loaded, for it is made by calls.
    ...filesOf("src/{domain,engine}/{,*/}*.ts").filter((file) => file !== "src/domain/limits/limit-json.ts"),
    ...filesOf("src/{bucket,stored}/*.ts", "src/adapters/{memory,system}/*.ts"),
    ...["src/entry/memory.ts", "src/entry/package-version.ts"],
    // Every command takes the name of its store apart.
    ...["src/adapters/postgres/address.ts", "src/entry/store-kinds.ts"],
  ];
  const near = [
    ...["src/cli/run-process.ts", "src/cli/old-spellings.ts", "src/adapters/sqlite/store.ts"],
    ...["src/entry/rate-limiter.ts", "src/engine/limiter/limiter-parts.ts"],
    ...commands.filter((file) => !FAR_COMMANDS.test(file)),
  ];
  return { heart, near, far: commands.filter((file) => FAR_COMMANDS.test(file)) };
}

/** A file that exports all of several others leaves out a name that two of them have, without a word. */
async function checkNames(root: string): Promise<void> {
  const { near, far } = partsOf(root);
  for (const files of [near, far]) {
    const modules = await Promise.all(files.map((file) => import(pathToFileURL(join(root, file)).href)));
    const names = modules.flatMap((module) => Object.keys(module as object));
    const twice = names.find((name, i) => names.indexOf(name) !== i);
    if (twice !== undefined) throw new Error(`Two files of the command line export ${twice}; rename one of them.`);
  }
}

/** Modules of Node of which the library and the commands use something. */
const BUILTINS = [
  ...["assert/strict", "child_process", "crypto", "diagnostics_channel", "events", "fs", "fs/promises", "os", "path"],
  ...["stream/consumers", "timers/promises", "tty", "url", "util", "zlib"],
];

function renamed(from: string, to: string): Plugin {
  const plugin: Plugin["setup"] = ({ onResolve }) =>
    onResolve({ filter: /^\./ }, ({ path }) => (path === from ? { path: to, external: true } : undefined));
  return { name: "renamed", setup: plugin };
}
