import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import { build } from "esbuild";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { readExamples, readLinks } from "../docs/readme.ts";
import { type PackedProject, packedProject, root, run, userNode } from "./packed-project.ts";
import { publicMembers } from "./public-members.ts";

// The package as somebody else gets it: packed, installed in an empty project, imported by its name.

let project: PackedProject;

before(async () => {
  project = await packedProject();
});

after(() => project?.remove());

async function filesOf(packageFolder: string): Promise<string[]> {
  const entries = await readdir(packageFolder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

async function entryNames(): Promise<string[]> {
  const { exports } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    exports: Record<string, unknown>;
  };
  return Object.keys(exports).filter((name) => !name.endsWith(".json"));
}

test("publint finds nothing to say about the tarball, not even a suggestion", async () => {
  const bytes = await readFile(project.tarball);
  const { messages, pkg } = await publint({
    pack: { tarball: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) },
    strict: true,
  });
  assert.deepEqual(
    messages.map((message) => formatMessage(message, pkg)),
    [],
  );
});

test("the package is lean: small, in few files, without source maps, and installs one other at most", async () => {
  const installed = join(project.folder, "node_modules/zae-limiter");
  const all = await filesOf(installed);
  const files = all.filter((file) => !file.startsWith(join(installed, "docs")));
  const bytes = (await Promise.all(files.map((file) => stat(file)))).reduce((sum, { size }) => sum + size, 0);
  const packedBytes = (await stat(project.tarball)).size;
  // 5.7 MB, 19.6 MB and 3,050 files before library and command line were one bundle, and a declaration was there once.
  // 1.2 MB before the entries for frameworks, LLM clients, telemetry and other machines.
  // 1.5 MB before all documents were in it, which are links of one another; below, the documents are not counted.
  assert.ok(packedBytes < 2_000_000, `${packedBytes} bytes packed`);
  // 3.5 MB before those entries, 3.6 MB before PostgreSQL, 3.8 MB before floors and streams that a client tracks,
  // 3.83 MB before slots, shadows and thresholds, 4.06 MB before slots in place and the model of slots and shadows for tests of stores,
  // 4.1 MB before quotas that keep what was used, calls that pay for what was sent, and one tenant beside another.
  assert.ok(bytes < 4_200_000, `${bytes} bytes`);
  // 470 before the model of slots and shadows, whose declarations are files.
  assert.ok(files.length < 485, `${files.length} files`);
  assert.deepEqual(
    files.filter((file) => file.endsWith(".map")),
    [],
  );
  const { dependencies } = JSON.parse(await readFile(join(installed, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  // For `zae-limiter/manifest`. Whatever the command line needs is bundled with it.
  assert.deepEqual(Object.keys(dependencies), ["yaml"]);
  assert.match(await readFile(join(installed, "dist/code/LICENSES.txt"), "utf8"), /^commander \d/m);
});

test("the tarball has what is needed to run and read it, and neither tests nor TypeScript sources", async () => {
  const installed = join(project.folder, "node_modules/zae-limiter");
  const files = (await filesOf(installed)).map((file) => file.slice(installed.length + 1));
  for (const needed of [
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "package.json",
    "dist/entry/index.js",
    "dist/entry/index.d.ts",
    "dist/dashboard/index.html",
    "dist/dashboard/LICENSES.txt",
    ...readLinks().map(({ target }) => target),
  ]) {
    assert.ok(files.includes(needed), `${needed} is missing`);
  }
  assert.deepEqual(
    files.filter((file) => /\.test\./.test(file) || (file.endsWith(".ts") && !file.endsWith(".d.ts"))),
    [],
  );
});

test("every link of the documents in the package leads to a file of the package", async () => {
  const installed = join(project.folder, "node_modules/zae-limiter");
  const files = new Set(await filesOf(installed));
  const documents = [...files].filter((file) => /\.md$|\/llms\.txt$/.test(file));
  assert.ok(documents.length > 90, `${documents.length} documents`);
  const dead = await Promise.all(
    documents.map(async (document) => {
      const links = (await readFile(document, "utf8")).matchAll(/\]\((?!\w+:|#)([^()#\s]+)/g);
      const paths = Array.from(links, ([, path = ""]) => join(dirname(document), path));
      return paths.filter((path) => !files.has(path)).map((path) => `${document} -> ${path}`);
    }),
  );
  assert.deepEqual(dead.flat(), []);
});

test("every entry point that package.json names can be imported by its name", async () => {
  // A construct extends one of CDK's, instruments are those of OpenTelemetry's API, decorators those of Nest: there is nothing to
  // import without them. They have tests of their own.
  const names = (await entryNames()).filter((name) => !["./cdk", "./otel", "./nest"].includes(name));
  assert.ok(names.includes("."));
  const imports = names.map((name, i) => `import * as e${i} from "${name.replace(".", "zae-limiter")}";`);
  const counts = names.map((_, i) => `Object.keys(e${i}).length`);
  await project.write("entries.js", [...imports, `console.log(JSON.stringify([${counts.join()}]));`]);
  const stdout = await project.node("entries.js");
  for (const [i, count] of (JSON.parse(stdout) as number[]).entries()) {
    assert.ok(count > 0, `${names[i]} exports nothing`);
  }
});

test("zae-limiter/otel says which package is missing; it and zae-limiter/mcp add little to a program with a limiter", async () => {
  await project.write("instrumented.mjs", [
    'import { instrument } from "zae-limiter/otel";',
    "instrument().stop();",
    'console.log("ok");',
  ]);
  await assert.rejects(project.node("instrumented.mjs"), /Cannot find package '@opentelemetry\/api'/);
  const scope = join(project.folder, "node_modules/@opentelemetry");
  await mkdir(scope);
  await symlink(join(root, "node_modules/@opentelemetry/api"), join(scope, "api"));
  try {
    assert.equal(await project.node("instrumented.mjs"), "ok\n");
    const external = ["@opentelemetry/api"];
    const limiter = 'import { RateLimiter } from "zae-limiter/memory"; console.log(await RateLimiter.open());';
    const alone = await bundled(limiter);
    const otel = await bundled(`${limiter} import { instrument } from "zae-limiter/otel"; instrument();`, external);
    const mcp = await bundled(`${limiter} import { limitTools } from "zae-limiter/mcp"; console.log(limitTools);`);
    assert.deepEqual(otel.imports, external);
    // Of the SDK it needs types alone.
    assert.deepEqual(mcp.imports, []);
    assert.ok(otel.bytes - alone.bytes < 7_000, `otel adds ${otel.bytes - alone.bytes} bytes`);
    assert.ok(mcp.bytes - alone.bytes < 7_000, `mcp adds ${mcp.bytes - alone.bytes} bytes`);
  } finally {
    await rm(scope, { recursive: true });
  }
});

test("programs of the project run on the Node that was asked for", async (t: TestContext) => {
  await project.write("version.mjs", ["console.log(process.version);"]);
  const version = (await project.node("version.mjs")).trim();
  t.diagnostic(`the installed package runs on Node ${version}`);
  const asked = process.env.ZAEL_TEST_NODE_VERSION;
  if (asked !== undefined) assert.ok(`${version}.`.startsWith(`v${asked}.`), `it ran on ${version}, not on ${asked}`);
});

test("the installed stores keep the contract that the installed package has for stores", async () => {
  await project.write("contract.mjs", [
    'import { mkdtempSync, rmSync } from "node:fs";',
    'import { dirname, join } from "node:path";',
    'import { describeStore } from "zae-limiter/testing";',
    'import { openMemory } from "zae-limiter/memory";',
    'import { openSqlite } from "zae-limiter/sqlite";',
    'describeStore("memory", () => {',
    // As long as files keep it: the contract looks back over a month.
    "  const store = openMemory({ usage: { keepMs: 400 * 86_400_000 } });",
    "  return { store, close: () => store.close() };",
    "});",
    'describeStore("sqlite", () => {',
    '  const folder = mkdtempSync("contract-");',
    '  const store = openSqlite({ file: join(folder, "limiter.db") });',
    "  return { store, close: async () => { await store.close(); rmSync(folder, { recursive: true }); } };",
    "});",
  ]);
  const told = await run(userNode, ["--test", "--test-reporter=tap", "contract.mjs"], project.folder);
  const [, passed = "0"] = /^# pass (\d+)$/m.exec(told) ?? [];
  assert.ok(Number(passed) > 300, `only ${passed} tests passed`);
  assert.match(told, /^# fail 0$/m);
});

test("the command runs from the installed package, with nothing but the package installed", async () => {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
  const bin = join(project.folder, "node_modules/.bin/zae-limiter");
  assert.equal(await run(bin, ["--version"], project.folder), `${version}\n`);
  const help = await run(bin, ["aggregate", "--help"], project.folder);
  assert.match(help, /--archive/);
});

test("the service runs from the installed package, page included, though none of its libraries is installed", async () => {
  await project.write("service.mjs", [
    'import { existsSync } from "node:fs";',
    'import { Limit, RateLimiter } from "zae-limiter";',
    'import { createService } from "zae-limiter/server";',
    'const limiter = await RateLimiter.open({ store: "memory" });',
    'await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);',
    "const service = await createService({ limiter });",
    "const { url, close } = await service.listen({ port: 0 });",
    'const body = JSON.stringify({ entityId: "a", resource: "b", consume: { rpm: 1 }, holdMs: 0 });',
    'const send = () => fetch(url + "v1/namespaces/default/acquire", { method: "POST", headers: { "content-type": "application/json" }, body });',
    "const statuses = [(await send()).status, (await send()).status, (await fetch(url)).status, (await fetch(new URL('openapi.json', url))).status];",
    "await close();",
    "await limiter.close();",
    'console.log(statuses.join(" "), existsSync("node_modules/hono"), existsSync("node_modules/zod"));',
  ]);
  assert.equal(await project.node("service.mjs"), "200 429 200 200 false false\n");
  const licences = await readFile(join(project.folder, "node_modules/zae-limiter/dist/server/LICENSES.txt"), "utf8");
  for (const name of ["hono", "@hono/node-server", "zod", "@hono/zod-openapi", "structured-headers"]) {
    assert.match(licences, new RegExp(`^${name} \\d`, "m"));
  }
});

test("an installed command loads few files, and only what it needs", async () => {
  const main = join(project.folder, "node_modules/zae-limiter/dist/cli/main.js");
  await run(userNode, [main, "init"], project.folder);
  await run(userNode, [main, "entity", "create", "key-1"], project.folder);
  const seen = await loadedBy(project.folder, ["entity", "show", "key-1"]);
  // What all share is a few files; of what is loaded when it is needed, each has its name.
  const named = (files: readonly string[]) => files.filter((file) => !file.startsWith("chunk"));
  assert.deepEqual(named(seen), ["main", "run-process", "store"]);
  // Three of them are what a client for browsers is made of and shares with the rest: errors are the same classes everywhere. One has
  // the rules of rows, which the stores on SQLite and PostgreSQL share.
  assert.ok(seen.length <= 14, seen.join());
  // Of the commands `list` and `entity list` one is called.
  assert.deepEqual(await loadedBy(project.folder, ["entity", "list"]), seen);
  const others = await loadedBy(project.folder, ["limits", "schema"]);
  assert.deepEqual(named(others), ["main", "run-process", "schema"]);
  assert.ok(others.length <= 14, others.join());
});

test("processes that a command starts beside itself start from the installed package", async () => {
  const main = join(project.folder, "node_modules/zae-limiter/dist/cli/main.js");
  const short = ["--scenario", "hot-key", "--duration", "200ms", "--processes", "2", "--concurrency", "4"];
  const report = JSON.parse(
    await run(userNode, [main, "loadtest", "--store", "memory", ...short, "--json"], project.folder),
  );
  assert.deepEqual([report.processes, report.errors, report.admission.excessTokens], [2, 0, 0]);
  assert.ok(report.granted > 0);
  const runner = join(project.folder, "node_modules/zae-limiter/dist/code/runner-process.js");
  // The engine that it watches has gone already: it ends by itself.
  const { pid = 0 } = spawnSync(process.execPath, ["-e", "0"]);
  await run(userNode, [runner, "http://127.0.0.1:1", String(pid)], project.folder);
});

/** The files of the package that one command has loaded, by their names without the mark of what is in them. */
async function loadedBy(folder: string, args: readonly string[]): Promise<string[]> {
  const told = await mkdtemp(join(tmpdir(), "loaded-"));
  const main = join(folder, "node_modules/zae-limiter/dist/cli/main.js");
  execFileSync(userNode, [main, ...args], { cwd: folder, env: { ...process.env, NODE_V8_COVERAGE: told } });
  const [file = ""] = await readdir(told);
  const { result } = JSON.parse(await readFile(join(told, file), "utf8")) as { result: { url: string }[] };
  await rm(told, { recursive: true });
  return result.flatMap(({ url }) => /dist\/\w+\/(.+?)(?:-[A-Z0-9]{8})?\.js$/.exec(url)?.[1] ?? []).sort();
}

test("the README's examples run from the installed package", async () => {
  for (const example of readExamples()) {
    await project.write("example.ts", [example]);
    // Rejects when the example throws, exits with an error or does not end by itself.
    await project.node("example.ts");
  }
});

test("a DynamoDB store says which package to install, and its types need none", async () => {
  await project.write("dynamodb.ts", [
    'import { RateLimiter } from "zae-limiter";',
    'import { type DynamoStoreOptions, openDynamo } from "zae-limiter/dynamodb";',
    'const credentials = { accessKeyId: "a", secretAccessKey: "b" };',
    'const way: DynamoStoreOptions = { stack: "limits", region: "eu-west-1", endpoint: "http://127.0.0.1:1", credentials };',
    "const told = (error: unknown) => console.log(String(error));",
    "await openDynamo(way).catch(told);",
    'await RateLimiter.open({ store: "dynamodb:limits" }).catch(told);',
  ]);
  const [given, found] = (await project.node("dynamodb.ts")).split("\n");
  assert.match(given ?? "", /The package undici is not installed.*`npm install undici`/);
  assert.match(found ?? "", /The package @aws-sdk\/client-dynamodb is not installed/);
  assert.deepEqual(await project.compile("dynamodb.ts", {}), []);
});

test("the README's examples compile strictly against the packaged types", async () => {
  for (const example of readExamples()) {
    await project.write("typed.ts", [example]);
    assert.deepEqual(await project.compile("typed.ts", {}), []);
  }
});

test("the types of every entry are sound by themselves, imported and required, where its peers are installed", async () => {
  const installed = join(project.folder, "node_modules/zae-limiter");
  const peers = join(project.folder, "with-peers");
  await mkdir(join(peers, "node_modules"), { recursive: true });
  for (const name of await readdir(join(root, "node_modules"))) {
    await symlink(join(root, "node_modules", name), join(peers, "node_modules", name));
  }
  await symlink(installed, join(peers, "node_modules/zae-limiter"));
  const names = (await entryNames()).map((name) => name.replace(".", "zae-limiter"));
  const lines = names.map((name, i) => `export type { e${i} }; import type * as e${i} from "${name}";`);
  await project.write("with-peers/entries.cts", lines);
  await project.write("with-peers/entries.mts", [...lines, 'export type * as required from "./entries.cjs";']);
  // Found through the links, each package has the others beside it.
  const errors = await project.compile("with-peers/entries.mts", { preserveSymlinks: true });
  // What peers declare is theirs to mend; but none may be missing.
  assert.deepEqual(
    errors.filter((line) => /zae-limiter|TS2307/.test(line)),
    [],
  );
});

test("the packaged types are real: a call that is wrong does not compile", async () => {
  await project.write("wrong.ts", [
    'import { Limit, RateLimiter } from "zae-limiter";',
    'const limiter = await RateLimiter.open({ store: "memory" });',
    'await limiter.setSystemDefaults([Limit.perMinute("rpm", "many")]);',
    "await limiter.close();",
  ]);
  const errors = await project.compile("wrong.ts", {});
  assert.equal(errors.length, 1, errors.join("\n"));
  assert.match(errors[0] ?? "", /wrong\.ts\(3,\d+\): error TS2345/);
});

test("constructors that are not for users are not in the types", async () => {
  await project.write("constructed.ts", [
    'import { RateLimiter } from "zae-limiter";',
    'import { RateLimiter as InMemory } from "zae-limiter/memory";',
    "new RateLimiter();",
    "new InMemory();",
  ]);
  const errors = await project.compile("constructed.ts", {});
  assert.deepEqual(
    errors.map((error) => error.replace(/^.*error (TS\d+): (.*?)\.$/, "$1 $2")),
    Array.from(
      errors,
      () => "TS2673 Constructor of class 'RateLimiter' is private and only accessible within the class declaration",
    ),
  );
  assert.equal(errors.length, 2);
});

test("every public member has a doc comment", async () => {
  const installed = join(project.folder, "node_modules/zae-limiter");
  const names = (await entryNames())
    .filter((name) => name !== "./cdk")
    .map((name) => (name === "." ? "index" : name.slice(2)));
  const { undocumented, constructible, looked } = publicMembers(
    names.map((name) => join(installed, `dist/entry/${name}.d.ts`)),
    { skipLibCheck: true, strict: true, types: [] },
  );
  assert.ok(looked > 300, `only ${looked} members were found`);
  assert.deepEqual(undocumented, []);
  const cdk = publicMembers([join(installed, "dist/entry/cdk.d.ts")], { skipLibCheck: true, strict: true, types: [] });
  assert.deepEqual([cdk.undocumented, cdk.constructible], [[], ["RateLimiter"]]);
  // Errors, which somebody's test may want to throw, the kit for tests, and what is made by its user.
  const meant = [
    /Error$|Exceeded$|Unavailable$|Disabled$|Closed$|Lost$|Unreadable$/,
    /^(Conditional|Fault|Model|Seeded|Simulated|Skewed)/,
    /^Limiter(Client|Store)$/,
  ];
  assert.deepEqual(
    constructible.filter((name) => !meant.some((names) => names.test(name))),
    [],
  );
});

const COMMON_JS = [
  'import zael = require("zae-limiter");',
  'import { Limit, RateLimiter, RateLimitExceeded } from "zae-limiter";',
  'import { openMemory } from "zae-limiter/memory";',
  'import { openSqlite } from "zae-limiter/sqlite";',
  'import { createTable } from "zae-limiter/dynamodb";',
  "async function main(): Promise<string> {",
  "  const limiter: RateLimiter = await zael.RateLimiter.open({ store: openMemory() });",
  '  await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);',
  '  const request = { entityId: "key-1", resource: "api", consume: { rpm: 1 } };',
  "  await limiter.acquire(request);",
  "  const refused: unknown = await limiter.acquire(request).catch((error: unknown) => error);",
  "  if (!(refused instanceof RateLimitExceeded)) throw new Error(String(refused));",
  "  const loaded = await import('zae-limiter');",
  "  await limiter.close();",
  "  return [refused.primary.limit, (loaded.RateLimiter as unknown) === RateLimiter, typeof openSqlite, typeof createTable].join(' ');",
  "}",
  "main().then((line) => console.log(line));",
];

for (const module of ["node16", "node20", "nodenext"]) {
  test(`a CommonJS project gets types, and what it compiles runs (module: ${module})`, async () => {
    await project.write("common.cts", COMMON_JS);
    const emit = { module, noEmit: false, outDir: join(project.folder, `out-${module}`) };
    assert.deepEqual(await project.compile("common.cts", emit), []);
    await run("cp", ["-r", "node_modules", `out-${module}/node_modules`], project.folder);
    assert.equal(await project.node(`out-${module}/common.cjs`), "rpm true function function\n");
  });
}

test("a type is the same whether it was imported or required, and so is a class", async () => {
  await project.write("module.mts", [
    'import { Limit, RateLimiter, RateLimitExceeded } from "zae-limiter";',
    "export const limiterOf = (limiter: RateLimiter): RateLimiter => limiter;",
    'export const limit: Limit<"rpm"> = Limit.perMinute("rpm", 1);',
    "export const isRefusal = (error: unknown): error is RateLimitExceeded => error instanceof RateLimitExceeded;",
  ]);
  await project.write("required.cts", [
    'import { Limit, RateLimiter, RateLimitExceeded } from "zae-limiter";',
    'import memory = require("zae-limiter/memory");',
    "async function main(): Promise<string> {",
    '  const { limiterOf, limit, isRefusal } = await import("./module.mjs");',
    '  const limiter = limiterOf(await RateLimiter.open({ store: "memory" }));',
    '  const same: Limit<"rpm"> = limit;',
    "  await limiter.setSystemDefaults([same]);",
    '  const request = { entityId: "key-1", resource: "api", consume: { rpm: 1 } };',
    "  await limiter.acquire(request);",
    "  const refused: unknown = await limiter.acquire(request).catch((error: unknown) => error);",
    "  const primary = isRefusal(refused) ? refused.primary.limit : undefined;",
    "  class Told extends RateLimitExceeded {}",
    "  const isSame: boolean = memory.RateLimitExceeded === RateLimitExceeded && Told.prototype instanceof RateLimitExceeded;",
    "  await limiter.close();",
    "  return [primary, isSame].join(' ');",
    "}",
    "main().then((line) => console.log(line));",
  ]);
  const emit = { module: "nodenext", noEmit: false, outDir: join(project.folder, "out-same") };
  assert.deepEqual(await project.compile("required.cts", emit), []);
  await symlink(join(project.folder, "node_modules"), join(project.folder, "out-same/node_modules"));
  assert.equal(await project.node("out-same/required.cjs"), "rpm true\n");
});

/** What a bundler makes of a program of the project, minified. */
async function bundled(program: string, external: string[] = [], platform: "node" | "browser" = "node") {
  const { metafile, outputFiles, warnings } = await build({
    stdin: { contents: program, resolveDir: project.folder, sourcefile: "program.js" },
    ...{ bundle: true, minify: true, format: "esm", platform, write: false, metafile: true },
    outfile: "program.mjs",
    external,
    logLevel: "silent",
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
  return {
    bytes: outputFiles[0]?.contents.length ?? 0,
    imports: [...new Set(imports)],
    text: outputFiles[0]?.text ?? "",
    warnings,
  };
}

test("a bundle of the memory store is small, and has neither SQLite nor a client in it", async () => {
  const store = await bundled('import { openMemory } from "zae-limiter/memory"; console.log(openMemory().name);');
  // Crons are read here instead of by a library: 9 kB less.
  // 69 kB before changes of leases moved their tokens in one call, and long lists were sorted by turns: 3 kB for both. Plans, totals
  // and levels that inherit: 6 kB. Refusals that are kept: 4 kB, names that can be refused and cursors included.
  // Limits that count a measure, and changes that count from their instants, those of plans too: 6 kB.
  // Quotas cut by windows far between, plans that were deleted, changes that are made only where nothing else changed: 1 kB.
  // Buckets, entities and usage in order as they come, so that a page costs what it shows: 2 kB.
  // Rules of a row that are the same on every store, and kinds of limits in tables: 1 kB.
  // Requests that leave something for others, a table of counters, buckets that are found again: 2 kB.
  // Slots that are held, given back and renewed: 8 kB. Shadows and thresholds: 5 kB. Slots that are taken and given back in place: 2.6 kB.
  // Changes by their numbers, quotas that keep what was used, held time that is exact, slots of each limit by themselves: 3.5 kB.
  // 110.5 kB before clocks and spans in a wrong unit were told.
  assert.ok(store.bytes < 111_500, `${store.bytes} bytes`);
  assert.deepEqual(store.imports, []);
  // With the whole engine: every method of a limiter, crons and time zones, and the leases that a memory store keeps.
  const limiter = await bundled(
    'import { Limit, RateLimiter } from "zae-limiter/memory"; console.log(await RateLimiter.open(), Limit);',
  );
  // 143 kB before waits that miss no return, refusals that look, searches by one budget, walks by turns, and errors of damage;
  // plans, totals, levels that inherit, and the calls that set them: 12 kB.
  // 162 kB before measures: what is charged and why not, in words, and leases that come to totals.
  // Refusals that are counted: 12 kB, with their store, for what is counted, written, sent again and answered.
  // Changes by their instants: 6 kB. Remedies by the surface they are read on, waits in words, slips that are refused: 6 kB.
  // Takes and give-backs that keep their time behind others, with waits in the background of a given clock: 2 kB.
  // Quotas that are cut by windows far between: 1 kB.
  // Addresses without their passwords, ids that audit refuses, changes of one system setting, and changes that are made only where
  // nothing else changed: 2 kB. Namespaces with due leases by one question, what a lease owes: 0.5 kB.
  // Rules of a row that are the same on every store, kinds in tables, pages that cost what they show: 4 kB.
  // 212 kB before streams that a lease tracks, and header fields.
  // What channels say of whole requests, waits and leases: 2 kB.
  // A share of every limit during an outage: 4 kB. Plain requests that need no generator, limits that are not checked twice: 2 kB.
  // Slots with their renewals, waits and errors: 20 kB. Shadows and thresholds: 8 kB.
  // Slots in place, and leases with slots that are kept and settled at little cost: 6 kB.
  // Limits that are left out, told and refused: 2 kB. Questions by what is stored, events of what was taken, slots that a lease takes later,
  // keys that come again, quotas that keep what was used: 8 kB.
  // 276 kB before clocks, spans and addresses in a wrong form were told.
  assert.ok(limiter.bytes < 278_000, `${limiter.bytes} bytes`);
  // What it needs of Node it asks for when it needs it.
  assert.deepEqual(limiter.imports, []);
});

test("a client over HTTP is bundled for a browser without the library, and without anything of Node", async () => {
  const { bytes, imports, text } = await bundled(
    'import { LimiterClient } from "zae-limiter/client"; console.log(LimiterClient);',
    [],
    "browser",
  );
  assert.deepEqual([imports, text.match(/node:\w+/g)], [[], null]);
  // A third of it are errors with their sentences.
  // Streams that a lease tracks: 3 kB.
  // Slots that are renewed, kept and lost: 1 kB. Names that are checked and encoded: 0.6 kB. Holds that end with their slots, streams that were given up: 0.6 kB.
  // 29 kB before an address that is wrong was told without its secrets.
  assert.ok(bytes < 29_400, `${bytes} bytes`);
});

test("the middleware of a framework adds little to a bundle with a limiter, and needs neither its framework nor Node", async () => {
  const limiter = 'import { RateLimiter } from "zae-limiter/memory"; console.log(await RateLimiter.open());';
  const { bytes: without } = await bundled(limiter);
  for (const name of ["express", "fastify", "hono", "fetch", "lambda"]) {
    const program = `import { rateLimit } from "zae-limiter/${name}"; console.log(rateLimit);`;
    const alone = await bundled(program);
    assert.deepEqual([alone.imports, alone.warnings], [[], []], name);
    // Most of it is what a limiter has too: errors, leases, checks of limits. 71 kB before channels told of whole requests; 73 before
    // requests on memory were decided without a promise; 75.5 before `leavePercent`;
    // 76.4 before slots, shadows and percentages that are told; 88.3 before leases with slots were settled without a ledger;
    // 91 before slots that are taken later, and callers who leave and pay.
    assert.ok(alone.bytes < 92_900, `${name}: ${alone.bytes} bytes`);
    const { bytes } = await bundled(program + limiter);
    // 17.8 kB before that: 1.4 kB for a way without a promise beside the other. Lambda's has what reads the head of a stream besides,
    // and all of them `leavePercent`.
    assert.ok(bytes - without < 20_100, `${name} adds ${bytes - without} bytes`);
  }
});

test("what is not used of the root stays out of a bundle", async () => {
  const error = await bundled('import { RateLimitExceeded } from "zae-limiter"; console.log(RateLimitExceeded);');
  // 5 kB before names were read as they were before encoding, and waits in words.
  assert.ok(error.bytes < 7_500, `${error.bytes} bytes`);
  const limit = await bundled('import { Limit } from "zae-limiter"; console.log(Limit.perMinute("rpm", 1));');
  // 22.5 kB before limits on how many are at once, shadows and percentages that are told.
  assert.ok(limit.bytes < 24_300, `${limit.bytes} bytes`);
  for (const { imports } of [error, limit]) assert.deepEqual(imports, []);
});

test("a bundler does not fail on clients that are not installed, and the bundle says so when it needs one", async () => {
  const whole = await bundled(
    [
      'import { Limit, RateLimiter } from "zae-limiter";',
      'const limiter = await RateLimiter.open({ store: "memory" });',
      'await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);',
      'const { ok } = await limiter.tryAcquire({ entityId: "key", resource: "api", consume: { rpm: 1 } });',
      "await limiter.close();",
      "const told = (error) => error.message;",
      'console.log(ok, await RateLimiter.open({ store: "dynamodb:limits" }).catch(told));',
      'console.log(await RateLimiter.open({ store: "postgres://localhost/app" }).catch(told));',
    ].join("\n"),
  );
  assert.deepEqual(whole.imports.filter((path) => !path.startsWith("node:")).sort(), [
    "@aws-sdk/client-dynamodb",
    "@aws-sdk/credential-providers",
    "pg",
    "undici",
  ]);
  await project.write("whole.mjs", [whole.text]);
  const [line = "", postgres = ""] = (await project.node("whole.mjs")).split("\n");
  assert.match(
    line,
    /^true The package @aws-sdk\/client-dynamodb is not installed.*`npm install @aws-sdk\/client-dynamodb`/,
  );
  assert.match(postgres, /needs the package pg: npm install pg/);
});

test("a CDK stack of the installed package has the code of the functions in it", async () => {
  for (const name of ["aws-cdk-lib", "constructs"]) {
    await symlink(join(root, "node_modules", name), join(project.folder, "node_modules", name));
  }
  await project.write("cdk.mjs", [
    'import { readdirSync } from "node:fs";',
    'import { App, Stack } from "aws-cdk-lib";',
    'import { RateLimiter } from "zae-limiter/cdk";',
    'const app = new App({ outdir: "cdk.out", analyticsReporting: false });',
    'const stack = new Stack(app, "limits");',
    'const limiter = new RateLimiter(stack, "Limits", { tableName: "limits" });',
    'const table = limiter.template.getResource("RateLimitsTable").cfnResourceType;',
    "app.synth();",
    'console.log(readdirSync("cdk.out").filter((name) => name.startsWith("asset.")).length, table);',
  ]);
  assert.equal(await project.node("cdk.mjs"), "2 AWS::DynamoDB::Table\n");
  const functions = await readdir(join(project.folder, "node_modules/zae-limiter/dist/lambda"));
  assert.deepEqual(functions.sort(), ["aggregator.zip", "provisioner.zip"]);
});

test("Node 20 runs the memory store, and is told what SQLite needs", async (t: TestContext) => {
  const old = oldNode();
  if (old === undefined) {
    t.diagnostic("SKIPPED: there is no Node 20 on the PATH of this machine, so nothing was checked on it.");
    return t.skip("no Node 20 on the PATH");
  }
  await project.write("old.mjs", [
    'import { Limit, RateLimiter } from "zae-limiter";',
    'const limiter = await RateLimiter.open({ store: "memory" });',
    'await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);',
    'const request = { entityId: "key", resource: "api", consume: { rpm: 1 } };',
    "const granted = await limiter.withLease(request, (lease) => lease.consumed.rpm);",
    "const { ok } = await limiter.tryAcquire(request);",
    "await limiter.close();",
    'const told = await RateLimiter.open({ store: "sqlite:limiter.db" }).catch((error) => error);',
    "console.log(granted, ok, told.code, told.message);",
  ]);
  const line = await run(old, ["old.mjs"], project.folder);
  assert.match(
    line,
    /^1 false node_too_old The SQLite store needs Node 22\.13 or later, and this is v20\..*"postgres:/,
  );
});

/** A Node 20 that is not the one of this project. */
function oldNode(): string | undefined {
  for (const folder of ["/usr/bin", "/usr/local/bin", ...(process.env.PATH ?? "").split(":")]) {
    try {
      const file = join(folder, "node");
      if (/^v20\./.test(execFileSync(file, ["--version"], { encoding: "utf8" }))) return file;
    } catch {
      // None here.
    }
  }
  return undefined;
}
