import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type BuildOptions, build, type Plugin } from "esbuild";
import { lazyBuiltins } from "./bundle-builtins.ts";

/** What nearly every command on a SQLite file needs; with all that these import it becomes one file. */
const CORE = [
  ...["src/cli/run.ts", "src/cli/output.ts", "src/cli/on-store.ts", "src/cli/print.ts", "src/cli/show-entity.ts"],
  ...["src/cli/commands/entity-show.ts", "src/entry/rate-limiter.ts", "src/adapters/sqlite/store.ts"],
];

/** Where a process begins: the command, and what it starts beside itself. */
const PROCESSES = {
  "run-process": "src/cli/run-process.ts",
  "worker-process": "src/loadtest/worker-process.ts",
  "runner-process": "src/local/runner-process.ts",
};

/** Libraries that go into the core: finding them in node_modules costs as much as running them. */
const BUNDLED = ["commander", "croner"];

/**
 * The command line as few files instead of some hundred, each of which costs a look for it and a compilation, so that a command
 * starts about as fast as Node does. The core is one file, whose modules exist once: the others import them from it. What is
 * imported only when a command needs it stays a file of its own. All lie in `dist/cli`, side by side: code that finds another file
 * by its own place finds it there, and `package.json` two folders up.
 */
export async function bundleCli(root: string): Promise<void> {
  const dist = join(root, "dist");
  const outdir = join(dist, "cli");
  // Nothing that is exported needs what the compiler has made of these.
  for (const folder of ["cli", "loadtest", "local"]) rmSync(join(dist, folder), { recursive: true, force: true });
  mkdirSync(outdir);
  const shared = sharedOptions(root);
  const { inputs, far } = await closureOf(CORE, shared);
  const coreFrom = (contents: string) =>
    build({
      ...{ ...shared, stdin: { contents, resolveDir: root }, outfile: join(outdir, "core.js") },
      plugins: [lazyBuiltins, taken, withinCore(root, new Set(inputs))],
    });
  // Built twice: whole modules can be looked at for what they export, single exports cost nothing when the file is loaded.
  const modules = inputs.map((path, i) => ({ path: join(root, path), name: `m${i}` }));
  const lines = modules.map(({ path, name }) => `export * as ${name} from ${JSON.stringify(path)};`);
  await coreFrom(lines.join("\n"));
  const core = (await import(pathToFileURL(join(outdir, "core.js")).href)) as Record<string, object>;
  const exported = modules.map(({ path, name }) => ({ path, name, members: Object.keys(core[name] ?? {}) }));
  await coreFrom(exported.map(reexport).join("\n"));
  await build({
    ...shared,
    entryPoints: { ...PROCESSES, ...Object.fromEntries(far.map((path) => [farName(path), path])) },
    outdir,
    chunkNames: "[name]-[hash]",
    splitting: true,
    plugins: [lazyBuiltins, taken, serverLibraries, fromCore(new Map(exported.map((one) => [one.path, one])))],
  });
  // The very first file turns on the cache of what was compiled, so it is small and imports nothing but the rest.
  await build({
    ...{ ...shared, entryPoints: ["src/cli/main.ts"], outfile: join(outdir, "main.js") },
    plugins: [lazyBuiltins, taken, renamed("./run-process.ts", "./run-process.js")],
  });
  const licences = BUNDLED.map(
    (name) => `${name}\n\n${readFileSync(join(root, "node_modules", name, "LICENSE"), "utf8")}`,
  );
  writeFileSync(join(outdir, "LICENSES.txt"), licences.join("\n"));
}

function sharedOptions(root: string): BuildOptions {
  return {
    absWorkingDir: root,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node22.13",
    // Names stay: errors are called by their class. What is not in the core and not ours is installed with the package.
    ...{ minifyWhitespace: true, minifySyntax: true, legalComments: "none" },
    packages: "external",
    sourcemap: "linked",
    logLevel: "warning",
  };
}

/** Takes those libraries in. */
const taken: Plugin = {
  name: "taken",
  setup({ onResolve }) {
    onResolve({ filter: /^[a-z]/ }, ({ path }) =>
      BUNDLED.includes(path) ? { path: fileURLToPath(import.meta.resolve(path)) } : undefined,
    );
  },
};

/** The libraries of the service are not installed with the package: their bundle lies beside (`bundle-server.ts`). */
const serverLibraries: Plugin = {
  name: "libraries of the server",
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.?\/vendor\.ts$/ }, () => ({ path: "../server/vendor.js", external: true }));
  },
};

/** All modules that some import, by their paths, and the ones of ours that these import only when they are needed. */
async function closureOf(roots: readonly string[], shared: BuildOptions) {
  const found = await build({
    ...{ ...shared, entryPoints: [...roots], outdir: "/", write: false, metafile: true, splitting: true },
    plugins: [taken],
  });
  const { inputs } = found.metafile;
  const isReached = new Set(roots);
  const later = new Set<string>();
  for (const path of isReached) {
    for (const { path: next, kind } of inputs[path]?.imports ?? []) {
      if (!(next in inputs)) continue;
      if (kind === "dynamic-import") later.add(next);
      else isReached.add(next);
    }
  }
  return { inputs: [...isReached], far: [...later].filter((path) => !isReached.has(path)) };
}

function farName(path: string): string {
  return path
    .replace(/^src\//, "")
    .replace(/\.ts$/, "")
    .replaceAll("/", "-");
}

function renamed(from: string, to: string): Plugin {
  const plugin: Plugin["setup"] = ({ onResolve }) =>
    onResolve({ filter: /^\./ }, ({ path }) => (path === from ? { path: to, external: true } : undefined));
  return { name: "renamed", setup: plugin };
}

/** A module of the core, and what it exports. */
interface CoreModule {
  readonly path: string;
  /** Its members are exported from the core with this before their names. */
  readonly name: string;
  readonly members: readonly string[];
}

function reexport({ path, name, members }: CoreModule): string {
  return `export { ${members.map((member) => `${member} as ${name}_${member}`).join(", ")} } from ${JSON.stringify(path)};`;
}

/** What the core imports only when it is needed is another file; what is in the core itself is there already. */
function withinCore(root: string, core: ReadonlySet<string>): Plugin {
  const isNear = (path: string, from: string) => core.has(relative(root, join(from, path)));
  return {
    name: "within core",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^\./ }, ({ kind, path, resolveDir }) =>
        kind === "dynamic-import"
          ? { path: `./${farName(relative(root, join(resolveDir, path)))}.js`, external: true }
          : undefined,
      );
      onLoad({ filter: /src\/.*\.ts$/ }, ({ path: file }) => {
        const near: string[] = [];
        const text = readFileSync(file, "utf8").replace(
          /(?<!typeof )\bimport\("(\.[^"]+)"\)/g,
          (dynamic, path: string) => {
            if (!isNear(path, dirname(file))) return dynamic;
            near.push(`import * as near${near.length} from "${path}";`);
            return `Promise.resolve(near${near.length - 1})`;
          },
        );
        return near.length === 0 ? undefined : { contents: `${near.join("")}${text}`, loader: "ts" };
      });
    },
  };
}

/** A module of the core, for all others: what it exports, from the file of the core. */
function fromCore(core: ReadonlyMap<string, CoreModule>): Plugin {
  return {
    name: "from core",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^core:$/ }, () => ({ path: "./core.js", external: true }));
      onLoad({ filter: /.*/, namespace: "file" }, ({ path }) => {
        const found = core.get(path);
        if (found === undefined) return undefined;
        const { name, members } = found;
        return {
          contents: `export { ${members.map((member) => `${name}_${member} as ${member}`).join(", ")} } from "core:";`,
        };
      });
    },
  };
}
