import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdir, readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, type TestContext, test } from "node:test";
import { isDeep } from "../depth.ts";
import { readExamples, readLinks } from "../docs/readme.ts";
import { testBundles } from "./package-bundles.ts";
import { testPrograms } from "./package-programs.ts";
import { testTypes } from "./package-types.ts";
import { entryNames, packedProject, root, run } from "./packed-project.ts";

// The package as somebody else gets it: packed, installed in an empty project, imported by its name. A deep run has its types, and what
// takes long, beside that.

const project = await packedProject();

after(() => project.remove());

testBundles(project);
if (isDeep) {
  testPrograms(project);
  testTypes(project);
}

async function filesOf(packageFolder: string): Promise<string[]> {
  const entries = await readdir(packageFolder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

test("the package is lean: small, in few files, without source maps, and installs one other at most", async () => {
  const installed = join(project.folder, "node_modules/zae-limiter");
  const all = await filesOf(installed);
  const files = all.filter((file) => !file.startsWith(join(installed, "docs")));
  const bytes = (await Promise.all(files.map((file) => stat(file)))).reduce((sum, { size }) => sum + size, 0);
  const packedBytes = (await stat(project.tarball)).size;
  // 5.7 MB, 19.6 MB and 3,050 files before library and command line were one bundle, and a declaration was there once.
  // 1.2 MB before the entries for frameworks, LLM clients, telemetry and other machines.
  // 1.5 MB before all documents were in it, which are links of one another; below, the documents are not counted.
  // 1.99 MB before Redis: an entry of its own, its rows of the command line, a guide.
  // 2.04 MB before requests for several entities, proxies and replay: five guides, the edge file, gRPC and its codec, three commands.
  // 2.12 MB before the functions of a stack had what both share once.
  assert.ok(packedBytes < 2_000_000, `${packedBytes} bytes packed`);
  // 3.5 MB before those entries, 3.6 MB before PostgreSQL, 3.8 MB before floors and streams that a client tracks,
  // 3.83 MB before slots, shadows and thresholds, 4.06 MB before slots in place and the model of slots and shadows for tests of stores,
  // 4.1 MB before quotas that keep what was used, calls that pay for what was sent, and one tenant beside another.
  // 4.2 MB before copies, limits with an end, single refusals, usage of callers, the overview and takes that are summed.
  // 4.45 MB before ends on the page, and declared limits over HTTP; 4.47 MB before Redis.
  // 4.6 MB before requests for several entities, charges without a lease, what proxies ask, the proxy for models, and replay.
  // 4.8 MB before the functions of a stack had what both share once.
  assert.ok(bytes < 4_700_000, `${bytes} bytes`);
  // 470 before the model of slots and shadows, whose declarations are files.
  assert.ok(files.length < 490, `${files.length} files`);
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
    ...(isDeep ? ["dist/entry/index.d.ts"] : []),
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
  const names = await loneEntries();
  const imports = names.map((name, i) => `import * as e${i} from "${name}";`);
  const counts = names.map((_, i) => `Object.keys(e${i}).length`);
  await project.write("entries.js", [...imports, `console.log(JSON.stringify([${counts.join()}]));`]);
  const stdout = await project.node("entries.js");
  for (const [i, count] of (JSON.parse(stdout) as number[]).entries()) {
    assert.ok(count > 0, `${names[i]} exports nothing`);
  }
});

test("every entry point can be required, too, and is the same module", async () => {
  const names = JSON.stringify(await loneEntries());
  await project.write("required.cjs", [
    `const counts = ${names}.map((name) => Object.keys(require(name)).length);`,
    'const { RateLimiter } = require("zae-limiter");',
    'import("zae-limiter").then((module) => console.log(Math.min(...counts) > 0, module.RateLimiter === RateLimiter));',
  ]);
  assert.equal(await project.node("required.cjs"), "true true\n");
});

/** The entries that need no other package. */
async function loneEntries(): Promise<string[]> {
  // A construct extends one of CDK's, instruments are those of OpenTelemetry's API, decorators those of Nest: there is nothing to
  // import without them. They have tests of their own.
  const names = (await entryNames()).filter((name) => !["./cdk", "./otel", "./nest"].includes(name));
  assert.ok(names.includes("."));
  return names.map((name) => name.replace(".", "zae-limiter"));
}

test("programs of the project run on the Node that was asked for", async (t: TestContext) => {
  await project.write("version.mjs", ["console.log(process.version);"]);
  const version = (await project.node("version.mjs")).trim();
  t.diagnostic(`the installed package runs on Node ${version}`);
  const asked = process.env.ZAEL_TEST_NODE_VERSION;
  if (asked !== undefined) assert.ok(`${version}.`.startsWith(`v${asked}.`), `it ran on ${version}, not on ${asked}`);
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
    'import { LimiterClient } from "zae-limiter/client";',
    'import { applyManifest, parseManifest, planManifest } from "zae-limiter/manifest";',
    'import { createService } from "zae-limiter/server";',
    'const limiter = await RateLimiter.open({ store: "memory" });',
    'await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);',
    "const service = await createService({ limiter });",
    "const { url, close } = await service.listen({ port: 0 });",
    'const body = JSON.stringify({ entityId: "a", resource: "b", consume: { rpm: 1 }, holdMs: 0 });',
    'const send = () => fetch(url + "v1/namespaces/default/acquire", { method: "POST", headers: { "content-type": "application/json" }, body });',
    "const statuses = [(await send()).status, (await send()).status, (await fetch(url)).status, (await fetch(new URL('openapi.json', url))).status];",
    "const client = new LimiterClient({ url });",
    'const plan = await planManifest(client, parseManifest("resources: { b: { limits: { rpm: 5 } } }"));',
    "statuses.push((await applyManifest(client, plan)).changes.length, (await limiter.getResourceDefaults('b'))[0].capacity);",
    "await close();",
    "await limiter.close();",
    'console.log(statuses.join(" "), existsSync("node_modules/hono"), existsSync("node_modules/zod"));',
  ]);
  assert.equal(await project.node("service.mjs"), "200 429 200 200 1 5 false false\n");
  const licences = await readFile(join(project.folder, "node_modules/zae-limiter/dist/server/LICENSES.txt"), "utf8");
  for (const name of ["hono", "@hono/node-server", "zod", "@hono/zod-openapi", "structured-headers"]) {
    assert.match(licences, new RegExp(`^${name} \\d`, "m"));
  }
});

test("the README's examples run from the installed package", async () => {
  for (const example of readExamples()) {
    await project.write("example.ts", [example]);
    // Rejects when the example throws, exits with an error or does not end by itself.
    await project.node("example.ts");
  }
});

test("Node 20 runs the memory store, and is told what SQLite needs", async (t: TestContext) => {
  const old = oldNode();
  if (old === undefined) {
    t.diagnostic("SKIPPED: there is no Node 20 on the PATH of this machine, so nothing was checked on it.");
    return t.skip("no older Node (needs Node 20 on the PATH)");
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
