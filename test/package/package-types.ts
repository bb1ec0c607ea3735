import assert from "node:assert/strict";
import { mkdir, readdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { readExamples } from "../docs/readme.ts";
import { entryNames, type PackedProject, root, run } from "./packed-project.ts";
import { publicMembers } from "./public-members.ts";

/** The declarations of the installed package, as a strict user compiles against them. */
export function testTypes(project: PackedProject): void {
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
    const cdk = publicMembers([join(installed, "dist/entry/cdk.d.ts")], {
      skipLibCheck: true,
      strict: true,
      types: [],
    });
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
}

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
