import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";
import { lazyBuiltins } from "./bundle-builtins.ts";
import { statementTexts } from "./bundle-texts.ts";
import { writeLicences } from "./licences.ts";

/** What a program imports by the package's name, each a file of `dist/entry`. `bundle-types.ts` makes their declarations. */
export const ENTRIES = [
  "index",
  "memory",
  "sqlite",
  "postgres",
  "redis",
  "dynamodb",
  "aggregator",
  "manifest",
  "copy",
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

/**
 * What errors, limits and the client are made of, and nearly everything else with them. An entry that is bundled alone has these beside
 * what it needs, each as a whole, so that they are two files and not a file for each way in which entries share them; a bundler leaves out
 * what is not used. Nothing else is imported with such an entry.
 */
const SMALL = [
  ...["src/domain/names/errors.ts", "src/domain/names/names.ts"],
  ...["src/domain/charge/rate-limit-headers.ts", "src/domain/bucket/item-unreadable.ts"],
  ...["src/adapters/system/clock.ts", "src/engine/lease/track.ts"],
];
const LIMITS = ["src/entry/limits.ts"];
const ALONE: Readonly<Record<string, readonly string[]>> = {
  "src/entry/errors.ts": SMALL,
  "src/entry/client.ts": SMALL,
  [APART["code/apart-errors"]]: SMALL,
  [APART["code/apart-limits"]]: [...SMALL, ...LIMITS],
  [APART["code/apart-memory"]]: [...SMALL, ...LIMITS],
};

/** Commands that need much more than a store. */
const FAR_COMMANDS = /\/commands\/(copy|deploy|loadtest|migrate|serve|stack)\.ts$/;

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
    plugins: [serverLibraries, statementTexts, togetherIn(root), lazyBuiltins],
  });
  for (const name of Object.keys(APART)) rmSync(join(root, `dist/${name}.js`));
  const processAt = importDirectly(root, metafile);
  // The very first file turns on the cache of what was compiled, so it is small and imports nothing but the rest.
  await build({
    ...{ ...sharedOptions(root), entryPoints: { "cli/main": "src/cli/main.ts" } },
    plugins: [renamed("./run-process.ts", `../${relative("dist", processAt)}`), lazyBuiltins],
  });
  writeLicences(root, Object.keys(metafile.inputs), join(root, "dist/code/LICENSES.txt"));
}

/**
 * What the command line imports when it needs it lies in a file with others, and a file that only names it would cost a look more: these
 * imports name the file with the code instead. In the library this is done only where that file exports nothing else, for a bundler keeps
 * all that a file exports which is imported when it is needed. Returns the file that a process of the command line begins with.
 */
function importDirectly(root: string, { outputs }: Metafile): string {
  const begin = "dist/code/run-process.js";
  const named = new Map<string, string>();
  for (const [path, { entryPoint, bytes }] of Object.entries(outputs)) {
    if (entryPoint === undefined || bytes > NAMES_BYTES_MAX || !existsSync(join(root, path))) continue;
    const text = readFileSync(join(root, path), "utf8");
    const other = onlyNamedIn(text);
    if (other === undefined) continue;
    named.set(path, other);
    // The file with the code imports what it needs; here stand others that it does not, the command line among them.
    writeFileSync(join(root, path), text.replace(/import"\.\/chunk-[^"]+";\n?/g, ""));
  }
  const libraryFiles = reachedFrom(
    Object.keys(outputs).filter((path) => path.startsWith("dist/entry/")),
    (path) => {
      const other = named.get(path);
      return other === undefined
        ? (outputs[path]?.imports ?? []).map((one) => one.path)
        : [`dist/code/${basename(other)}`];
    },
  );
  const ends = new Map<string, string>();
  for (const [path, other] of named) {
    const { exports } = outputs[path] as Metafile["outputs"][string];
    const hasMore = outputs[`dist/code/${basename(other)}`]?.exports.length !== exports.length;
    if (!(hasMore && libraryFiles.has(path))) ends.set(path, other);
  }
  for (const [path, { imports }] of Object.entries(outputs)) {
    const direct = imports.filter(({ kind, path: to }) => kind === "dynamic-import" && ends.has(to));
    if (direct.length === 0 || ends.has(path)) continue;
    let text = readFileSync(join(root, path), "utf8");
    for (const { path: to } of direct)
      text = text.replaceAll(`import("./${basename(to)}")`, `import("${ends.get(to)}")`);
    writeFileSync(join(root, path), text);
  }
  for (const path of ends.keys()) rmSync(join(root, path));
  return join(dirname(begin), ends.get(begin) ?? basename(begin));
}

function reachedFrom(begins: readonly string[], importsOf: (path: string) => readonly string[]): ReadonlySet<string> {
  const reached = new Set(begins);
  // Files that come during the walk are walked, too.
  for (const path of reached) for (const to of importsOf(path)) reached.add(to);
  return reached;
}

/** A file without code of its own is smaller. */
const NAMES_BYTES_MAX = 4_000;

/** The one file from which another, without code, exports all that it exports, under the same names. */
function onlyNamedIn(text: string): string | undefined {
  const statements = text
    .replaceAll("\n", "")
    .split(";")
    .filter((each) => !/^(import"[^"]+")?$/.test(each));
  const [, names, from] = /^import\{([^}]+)\}from"(\.\/[^"]+)"$/.exec(statements[0] ?? "") ?? [];
  return statements.length === 2 && statements[1] === `export{${names}}` && !names?.includes(" as ") ? from : undefined;
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
      "ioredis",
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
  const { heart, near, beside, far } = partsOf(root);
  const isProcess = new Set(Object.values(PROCESSES).map((file) => join(root, file)));
  const alone = new Map(Object.entries(ALONE).map(([file, parts]) => [join(root, file), parts]));
  const imports = (files: readonly string[]) => files.map((file) => `import "./${file}";\n`).join("");
  const inLibrary =
    BUILTINS.map((name) => `import "node:${name}";\n`).join("") + imports([...SMALL, ...LIMITS, ...heart]);
  const inCommands = inLibrary + imports([...near, ...beside]);
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
        if (kind === "entry-point" && alone.has(target)) return { path: target, namespace: "alone" };
        // Members are taken by their names: what is near is one file, and loaded, whichever is asked for.
        if (isNear.has(target)) return { path: "near", namespace: "commands" };
        if (FAR_COMMANDS.test(target)) return { path: "far-commands", namespace: "commands" };
        const isLibrary = /src\/entry\//.test(kind === "entry-point" ? target : importer);
        return { path: target, namespace: isLibrary ? "library" : "command line" };
      });
      const virtual = (contents: string) => ({ contents, resolveDir: root });
      onLoad({ filter: /./, namespace: "alone" }, ({ path }) =>
        virtual(imports(alone.get(path) ?? []) + exporting([path])),
      );
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
    ...["src/adapters/postgres/address.ts", "src/adapters/redis/address.ts", "src/entry/store-kinds.ts"],
  ];
  const near = [
    ...["src/cli/run-process.ts", "src/cli/old-spellings.ts"],
    ...commands.filter((file) => !FAR_COMMANDS.test(file)),
  ];
  const beside = ["src/adapters/sqlite/store.ts", "src/entry/rate-limiter.ts"];
  return { heart, near, beside, far: commands.filter((file) => FAR_COMMANDS.test(file)) };
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
