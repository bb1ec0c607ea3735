import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { circles } from "./circles.ts";
import { unusedExports } from "./exports.ts";
import { violations } from "./rules.ts";
import { scan } from "./scan.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

const sources = globSync("src/**/*.{ts,tsx}", { cwd: root })
  .sort()
  .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));

test("every file of src keeps to its row of the folder table", () => {
  assert.ok(sources.length > 30, "the files of src were not found");
  assert.deepEqual(violations(sources), []);
});

test("no files of src import each other in a circle", () => {
  assert.deepEqual(circles(sources), []);
});

test("a circle is found however long it is, also where only types are imported", () => {
  const file = (name: string, ...imports: string[]) => ({ path: `src/domain/${name}.ts`, text: imports.join("\n") });
  const files = [
    file("a", 'import { x } from "./b.ts";'),
    file("b", 'import type { X } from "./c.ts";', 'import { y } from "./end.ts";'),
    file("c", 'export * from "./a.ts";'),
    file("above", 'import { x } from "./a.ts";', 'import { y } from "./end.ts";'),
    file("end"),
    file("one", 'import { x } from "./other.ts";'),
    file("other", 'const { x } = await import("./one.ts");'),
  ];
  assert.deepEqual(
    circles(files).map((sentence) => sentence.split(" import")[0]),
    ["src/domain/a.ts, src/domain/b.ts, src/domain/c.ts", "src/domain/one.ts, src/domain/other.ts"],
  );
  assert.deepEqual(circles(files.slice(3, 5)), []);
});

const others = globSync("{test,bench,scripts,examples}/**/*.{ts,tsx}", { cwd: root, exclude: ["**/node_modules/**"] })
  .sort()
  .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));

test("what a file of src exports is imported by another, or it is no export", () => {
  assert.ok(others.length > 100, "the files of test and bench were not found");
  assert.deepEqual(unusedExports([...sources, ...others]), []);
});

test("properties draw by the seed of the run: fast-check is imported by test/properties.ts alone", () => {
  const importers = [...sources, ...others].filter(({ text }) =>
    scan(text).imports.some(({ specifier }) => specifier === "fast-check"),
  );
  assert.deepEqual(
    importers.map(({ path }) => path),
    ["test/properties.ts"],
  );
});

test("an export that no file imports is found, and one that is imported in any form is not", () => {
  const text = (...lines: string[]) => lines.join("\n");
  const declares = text(
    "export interface A {}",
    "export type B = 1;",
    "export async function c() {}",
    "interface D {}",
  );
  const found = (...importers: readonly { path: string; text: string }[]) =>
    unusedExports([{ path: "src/domain/a.ts", text: declares }, ...importers]);
  const by = (line: string) => ({ path: "src/engine/b.ts", text: line });
  assert.deepEqual(found(by('import { type A, c as other } from "../domain/a.ts";')), [
    "src/domain/a.ts exports B, which no file imports.",
  ]);
  assert.equal(found(by('import type { A } from "./a.ts";')).length, 3);
  assert.equal(found().length, 3);
  assert.deepEqual(found(by('import * as all from "../domain/a.ts";')), []);
  assert.deepEqual(found(by('const { c } = await import("../domain/a.ts");')), []);
  assert.deepEqual(unusedExports([{ path: "src/entry/a.ts", text: declares }]), []);
});

/** `sum += await more()` adds to the sum from before the wait: what others added meanwhile is lost. */
const ADDS_ACROSS_A_WAIT = /[-+*]=\s*\(*\s*await\b/;

test("no sum of src goes by what it was before a wait", () => {
  assert.match("mended += await mend();", ADDS_ACROSS_A_WAIT);
  assert.match("this.#left -= (await read()).length;", ADDS_ACROSS_A_WAIT);
  assert.doesNotMatch("chain ??= await read();", ADDS_ACROSS_A_WAIT);
  assert.deepEqual(
    sources.filter(({ text }) => ADDS_ACROSS_A_WAIT.test(text)).map(({ path }) => path),
    [],
  );
});

/** Folders whose code works on buckets and leases. */
const HEART = ["bucket", "domain", "ports", "engine", "protocol", "adapters", "leases"];

/** What only a session quota has: its kind, its field, the attribute that stores the field. Comments may speak of it. */
const OF_ONE_KIND = /"session"|\bresetAfterMs\b|\brsa\b|\bSESSION_/;

test("what one kind of limit has stands in the files that the architecture page lists, at most ten with state of its own", () => {
  const page = readFileSync(join(root, "docs/architecture.md"), "utf8");
  const kinds = page.slice(page.indexOf("**Kinds.**"), page.indexOf("A kind with state of its own"));
  const listed = Array.from(kinds.matchAll(/^\| `([\w/-]+\.ts)` \|/gm), ([, path]) => `src/${path}`);
  const code = (text: string) => text.replace(/^\s*(\*|\/\/|\/\*\*).*$/gm, "");
  const knowing = sources.filter(
    ({ path, text }) =>
      HEART.includes(path.split("/")[1] ?? "") && !/\.test\.ts$/.test(path) && OF_ONE_KIND.test(code(text)),
  );
  assert.deepEqual(
    knowing.map(({ path }) => path),
    listed.toSorted(),
  );
  assert.ok(listed.length + 3 <= 10, listed.join());
});

test("every room of src says in one paragraph what is here and where to begin, and names files that are there", () => {
  const folders = new Set(sources.map(({ path }) => dirname(path)));
  const rooms = [...folders].filter((folder) => /^src\/(adapters\/\w+|domain\/\w+|engine\/\w+|\w+)$/.test(folder));
  assert.ok(rooms.length > 40, rooms.join());
  for (const room of [...rooms, "test/kit"]) {
    const text = readFileSync(join(root, room, "README.md"), "utf8");
    const named = Array.from(text.matchAll(/`([\w/-]+\.tsx?)`/g), ([, name = ""]) => name);
    // The protocol's page has a test of its own (reading-path.test.ts).
    if (room === "src/protocol") continue;
    const missing = named.filter((name) => ![room, ".", "src"].some((from) => existsSync(join(root, from, name))));
    assert.deepEqual(missing, [], `${room}/README.md`);
  }
});

const breaches = (path: string, ...lines: string[]): string[] => violations([{ path, text: lines.join("\n") }]);

/** The file may not import any of these. */
function refuses(path: string, specifiers: readonly string[]): void {
  for (const specifier of specifiers) {
    const found = breaches(path, `import { x } from "${specifier}";`);
    assert.equal(found.length, 1, `${path} importing ${specifier}: ${JSON.stringify(found)}`);
    assert.ok(found[0]?.startsWith(`${path} imports "${specifier}"`), found[0]);
  }
}

/** The file may import all of these. */
function allows(path: string, specifiers: readonly string[]): void {
  for (const specifier of specifiers) assert.deepEqual(breaches(path, `import { x } from "${specifier}";`), []);
}

test("bucket/ imports nothing but itself", () => {
  allows("src/bucket/take.ts", ["./level.ts"]);
  refuses("src/bucket/take.ts", ["../domain/limit.ts", "../ports/store.ts", "node:assert", "fast-check"]);
  assert.deepEqual(breaches("src/bucket/take.ts", 'import { x } from "../domain/limit.ts";'), [
    'src/bucket/take.ts imports "../domain/limit.ts"; bucket/ may import nothing outside itself.',
  ]);
});

test("bucket/ knows no date, no chance and no process", () => {
  assert.match(
    breaches("src/bucket/a.ts", "const d = new Date(5);").join(),
    /uses Date; bucket\/ knows only the numbers/,
  );
  assert.match(breaches("src/bucket/a.ts", "const r = Math.random();").join(), /uses Math\.random/);
  assert.match(breaches("src/bucket/a.ts", "process.exit();").join(), /uses process; bucket\/ is pure/);
});

test("domain/ imports bucket/ and neither node: modules nor packages", () => {
  allows("src/domain/limit.ts", ["../bucket/take.ts", "./names.ts"]);
  refuses("src/domain/limit.ts", ["../ports/store.ts", "../engine/lease.ts", "node:util", "zod", "../../test/x.ts"]);
});

test("ports/ imports types of domain/ and has no run-time code", () => {
  const path = "src/ports/store.ts";
  const types = [
    'import type { Limit } from "../domain/limit.ts";',
    "export interface Store { take(limit: Limit): void }",
  ];
  assert.deepEqual(
    breaches(path, ...types, "export type Many = readonly Store[];", 'export type * from "./clock.ts";'),
    [],
  );
  assert.match(
    breaches(path, 'import { type Limit } from "../domain/limit.ts";').join(),
    /at run time; ports\/ has types only/,
  );
  assert.match(
    breaches(path, 'import type { take } from "../bucket/take.ts";').join(),
    /ports\/ may import only domain/,
  );
  for (const code of [
    "export const MAX = 5;",
    "export function f(): void {}",
    "export abstract class Store {}",
    "export enum Kind { A }",
    "register();",
    "globalThis.x = 5;",
  ]) {
    assert.match(breaches(path, code).join(), /has run-time code/, code);
  }
  assert.match(breaches(path, 'export { x } from "./clock.ts";').join(), /write `export type`/);
});

test("engine/, protocol/ and stored/ know no store, no node: module, no package and no ambient time", () => {
  for (const folder of ["engine", "protocol", "stored"]) {
    const path = `src/${folder}/a.ts`;
    allows(path, ["../bucket/take.ts", "../domain/limit.ts", "../ports/store.ts", "./b.ts"]);
    refuses(path, [
      "../adapters/memory/store.ts",
      "../adapters/system/clock.ts",
      "node:timers",
      "p-queue",
      "../entry/index.ts",
    ]);
    for (const code of ["new Date();", "setTimeout(f, 5);", "setInterval(f, 5);"]) {
      assert.match(breaches(path, code).join(), /uses ambient time/, code);
    }
    assert.deepEqual(breaches(path, "const day = new Date(atMs);"), []);
  }
  refuses("src/engine/a.ts", ["../protocol/forms.ts", "../leases/stored-leases.ts"]);
  refuses("src/protocol/a.ts", ["../engine/lease.ts", "../stored/shape.ts"]);
  refuses("src/stored/a.ts", ["../engine/lease.ts", "../protocol/buckets.ts"]);
});

test("leases/ stands on the engine, and knows no store, no node: module, no package and no ambient time", () => {
  allows("src/leases/a.ts", [
    "../bucket/level.ts",
    "../domain/limit.ts",
    "../ports/lease-store.ts",
    "../engine/plan.ts",
  ]);
  refuses("src/leases/a.ts", ["../adapters/memory/leases.ts", "../protocol/ticket.ts", "node:crypto", "zod"]);
  assert.match(breaches("src/leases/a.ts", "setInterval(f, 5);").join(), /uses ambient time/);
  allows("src/server/a.ts", ["../leases/stored-leases.ts"]);
});

test("an adapter imports its own client, and neither another adapter nor the engine", () => {
  for (const adapter of ["memory", "sqlite", "dynamodb", "system", "mysql"]) {
    const path = `src/adapters/${adapter}/a.ts`;
    allows(path, [
      "../../bucket/take.ts",
      "../../domain/limit.ts",
      "../../ports/store.ts",
      "../../protocol/forms.ts",
      "./b.ts",
    ]);
    refuses(path, ["../other/store.ts", "../../engine/lease.ts", "../../entry/index.ts", "../shared.ts"]);
  }
  refuses("src/adapters/memory/a.ts", ["node:fs", "@aws-sdk/client-dynamodb"]);
  refuses("src/adapters/sqlite/a.ts", ["better-sqlite3"]);
  allows("src/adapters/sqlite/a.ts", ["node:sqlite"]);
  allows("src/adapters/dynamodb/migrations/a.ts", [
    "../schema.ts",
    "@aws-sdk/client-dynamodb",
    "../../../domain/limit.ts",
  ]);
  refuses("src/adapters/dynamodb/migrations/a.ts", ["../../memory/store.ts", "ioredis"]);
  allows("src/adapters/redis/a.ts", ["ioredis", "../../stored/shape.ts"]);
});

test("aggregator/ works on the DynamoDB adapter and on no other; infra/ sees only its schema", () => {
  allows("src/aggregator/a.ts", [
    "../bucket/take.ts",
    "../domain/limit.ts",
    "../ports/system.ts",
    "../protocol/forms.ts",
    "../adapters/dynamodb/records.ts",
    "@aws-sdk/client-s3",
  ]);
  refuses("src/aggregator/a.ts", ["../adapters/sqlite/store.ts", "../adapters/system/clock.ts", "../engine/lease.ts"]);
  refuses("src/aggregator/a.ts", ["../server/app.ts", "undici"]);
  allows("src/infra/a.ts", ["../domain/limit.ts", "../adapters/dynamodb/schema.ts", "@aws-sdk/client-cloudformation"]);
  refuses("src/infra/a.ts", ["../adapters/dynamodb/codec.ts", "../engine/lease.ts", "../bucket/take.ts", "esbuild"]);
});

test("server/, middleware/ and manifest/ are handed their store and may use any package", () => {
  for (const folder of ["server", "middleware", "manifest"]) {
    const path = `src/${folder}/a.ts`;
    allows(path, ["../domain/limit.ts", "../ports/store.ts", "../engine/lease.ts", "express", "node:http"]);
    refuses(path, ["../adapters/memory/store.ts", "../bucket/take.ts", "../entry/index.ts"]);
  }
});

test("dashboard/ runs in a browser: of src it knows types, and of packages those that are bundled with it", () => {
  const path = "src/dashboard/a.tsx";
  allows(path, [
    "./b.tsx",
    "../domain/limits/amount-text.ts",
    "../domain/limits/reset-names.ts",
    "./styles/base.css",
    "preact",
    "preact/hooks",
    "uplot",
    "eventsource-parser",
  ]);
  refuses(path, ["../domain/limit.ts", "../server/app.ts", "node:fs", "react"]);
  assert.deepEqual(breaches(path, 'import type { Limit } from "../domain/limit.ts";'), []);
  assert.deepEqual(breaches(path, 'import type * as output from "../server/schemas/output.ts";'), []);
  assert.match(
    breaches(path, 'import type { App } from "../server/app.ts";').join(),
    /imports "\.\.\/server\/app\.ts"/,
  );
});

test("cli/ imports everything and is imported by nobody", () => {
  allows("src/cli/commands/a.ts", [
    "../../adapters/sqlite/store.ts",
    "../../entry/index.ts",
    "../output.ts",
    "commander",
  ]);
  refuses("src/entry/a.ts", ["../cli/main.ts"]);
  refuses("src/server/a.ts", ["../cli/main.ts"]);
});

test("testing/ stands on memory alone, and only tests and its entry point import it", () => {
  allows("src/testing/a.ts", ["../bucket/take.ts", "../protocol/forms.ts", "../adapters/memory/store.ts", "node:test"]);
  refuses("src/testing/a.ts", ["../adapters/sqlite/store.ts", "../engine/lease.ts", "fast-check"]);
  allows("src/entry/testing.ts", ["../testing/random.ts", "../../test/kit/contract.ts"]);
  refuses("src/entry/testing.ts", ["../../test/depth.ts"]);
  refuses("src/entry/index.ts", ["../testing/random.ts", "../../test/kit/contract.ts"]);
  refuses("src/engine/a.ts", ["../testing/model.ts"]);
});

test("entry/ may import all there is, but no test", () => {
  allows("src/entry/index.ts", ["../engine/limiter.ts", "../adapters/sqlite/store.ts", "node:path"]);
  refuses("src/entry/index.ts", ["../engine/limiter.test.ts"]);
});

test("clock, chance and environment are read in adapters/system and in cli/, nowhere else", () => {
  for (const path of ["domain", "engine", "adapters/sqlite", "server", "testing", "entry"].map(
    (folder) => `src/${folder}/a.ts`,
  )) {
    for (const what of ["Date.now", "Math.random", "process.env", "process.hrtime", "performance"]) {
      const found = breaches(path, `const x = ${what}();`);
      assert.deepEqual(found, [
        `${path} uses ${what}; time, chance and settings are arguments, read in adapters/system.`,
      ]);
    }
  }
  for (const path of ["src/adapters/system/a.ts", "src/cli/main.ts"]) {
    assert.deepEqual(breaches(path, "const x = [Date.now(), performance.now(), Math.random(), process.env.X];"), []);
  }
});

test("the clock is found inside a template too, and not in comments, texts and patterns", () => {
  assert.equal(breaches("src/domain/a.ts", `const x = \`at \${Date.now()} ms\`;`).length, 1);
  assert.equal(breaches("src/domain/a.ts", "const x = f(Date", "  .now());").length, 1);
  const harmless = ["// Date.now()", "/* Math.random()", "*/", 'const x = "process.env";', "const y = `Date.now()`;"];
  assert.deepEqual(breaches("src/domain/a.ts", ...harmless, 'const z = /Date.now()"/;', "const next = 5;"), []);
});

test("SQL parameters are not numbered: Node 22 cannot bind them", () => {
  const path = "src/adapters/sqlite/a.ts";
  assert.match(breaches(path, 'prepare("SELECT ?1, ?1");').join(), /has the SQL parameter \?1; node:sqlite of Node 22/);
  assert.deepEqual(breaches(path, 'prepare("SELECT ?, ?");', "const x = a ? 1 : 2;"), []);
});

test("a default export, in whichever form, is refused, also in a test", () => {
  assert.match(breaches("src/domain/a.ts", "export default 5;").join(), /has a default export/);
  assert.match(
    breaches("src/domain/a.test.ts", "const x = 5;", "export { x as default };").join(),
    /has a default export/,
  );
});

test("a comment that begins with a clause is refused in a room without any, also in a test", () => {
  const clause = ["const x = 5;", "/** What is left of it. */", "const y = 6; // What it is"];
  const told = 'begins a comment with "What"; write a sentence with a subject that one can point to.';
  assert.deepEqual(breaches("src/clock/a.ts", ...clause), [`src/clock/a.ts:2 ${told}`]);
  assert.deepEqual(breaches("src/clock/a.test.ts", ...clause), [`src/clock/a.test.ts:2 ${told}`]);
  assert.deepEqual(breaches("src/clock/a.ts", "/** Says what is left, and how. */", "// Whats"), []);
});

test("a file may have 400 lines and not 401", () => {
  const lines = (count: number): string[] => Array.from({ length: count }, (_, i) => `const x${i} = ${i};`);
  assert.deepEqual(breaches("src/domain/a.ts", ...lines(400), ""), []);
  assert.deepEqual(breaches("src/domain/a.ts", ...lines(401)), [
    "src/domain/a.ts has 401 lines, over 400; something in it wants out.",
  ]);
});

test("a test beside its source may import anything", () => {
  const text = [
    'import { fc } from "../../test/properties.ts";',
    'import { x } from "../../test/y.ts";',
    "Date.now();",
  ];
  assert.deepEqual(breaches("src/bucket/take.test.ts", ...text), []);
});

test("a file in no folder, or in a folder without a row, is refused", () => {
  assert.match(breaches("src/index.ts", "").join(), /stands in no folder of the architecture/);
  assert.match(breaches("src/helpers/a.ts", "").join(), /add a row for helpers\//);
  assert.match(breaches("src/adapters/shared.ts", "").join(), /add a row for adapters\//);
});

test("every form of import is seen", () => {
  for (const text of [
    'import "./x.ts";',
    'import x from "./x.ts";',
    "import * as x from './x.ts';",
    'import {\n  a,\n  type B,\n} from "./x.ts";',
    'export * from "./x.ts";',
    'export { a } from "./x.ts";',
    'const x = await import("./x.ts");',
    'const x = import(\n  "./x.ts"\n);',
    'const x = require("./x.ts");',
    'type X = import("./x.ts").X;',
  ]) {
    assert.deepEqual(scan(text).imports, [{ specifier: "./x.ts", typeOnly: false }], text);
  }
  for (const text of [
    'import type { X } from "./x.ts";',
    'export type { X } from "./x.ts";',
    'type X = typeof import("./x.ts");',
  ]) {
    assert.deepEqual(scan(text).imports, [{ specifier: "./x.ts", typeOnly: true }], text);
  }
  assert.deepEqual(scan("await import(name);").imports, [{ specifier: undefined, typeOnly: false }]);
});

test("what only looks like an import is none", () => {
  for (const text of [
    '// import x from "./x.ts";',
    "/* import('./x.ts') */",
    'const s = "import x from \\"./x.ts\\"";',
    "const s = `import x from './x.ts'`;",
    'export const from = "./x.ts";',
    'export interface X { kind: "a" }',
    'const here = import.meta.resolve("./x.ts");',
  ]) {
    assert.deepEqual(scan(text).imports, [], text);
  }
});

test("an import whose name is computed cannot be checked, and is refused where imports are restricted", () => {
  assert.match(breaches("src/engine/a.ts", "await import(name);").join(), /computes what it imports/);
  assert.deepEqual(breaches("src/entry/a.ts", "await import(name);"), []);
});

test("one loop of the protocol sends, and its bounds stand in one table", () => {
  const protocol = sources.filter(({ path }) => path.startsWith("src/protocol/") && !path.endsWith(".test.ts"));
  const where = (pattern: RegExp) => protocol.filter(({ text }) => pattern.test(text)).map(({ path }) => path);
  assert.deepEqual(where(/\bitems\s*\.(read|write|transact)\(/), ["src/protocol/process/drive.ts"]);
  const bounds = /^(export )?const \w*(MOVES|PAUSES|STEPS|ATTEMPTS|RETRIES|RESENDS|PASSES|AGAIN|WAITING|AT_ONCE)\w* =/m;
  assert.deepEqual(where(bounds), ["src/protocol/process/retry-policy.ts"]);
});
