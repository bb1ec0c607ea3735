import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { plainEnvironment, readExample } from "./readme.ts";

// The package as somebody else gets it: packed, installed in an empty project, imported by its name.

const root = fileURLToPath(new URL("..", import.meta.url));
const exec = promisify(execFile);

/** Runs a command to its end and answers with what it printed; throws with all of that when it fails. */
async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    return (await exec(command, args, { cwd, env: plainEnvironment() })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args[0]} failed:\n${stdout}${stderr}`);
  }
}

let folder: string;
let project: string;
let tarball: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "package-"));
  await run("npm", ["pack", "--pack-destination", folder], root);
  const [packed] = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
  assert.ok(packed !== undefined, "npm pack left no tarball");
  tarball = join(folder, packed);

  project = join(folder, "project");
  await mkdir(project);
  await writeFile(join(project, "package.json"), JSON.stringify({ name: "empty", private: true, type: "module" }));
  await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", tarball], project);
});

after(() => rm(folder, { recursive: true }));

async function filesOf(packageFolder: string): Promise<string[]> {
  const entries = await readdir(packageFolder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

test("publint finds nothing to say about the tarball, not even a suggestion", async () => {
  const bytes = await readFile(tarball);
  const { messages, pkg } = await publint({
    pack: { tarball: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) },
    strict: true,
  });
  assert.deepEqual(
    messages.map((message) => formatMessage(message, pkg)),
    [],
  );
});

test("the tarball has what is needed to run and read it, and neither tests nor TypeScript sources", async () => {
  const installed = join(project, "node_modules/zae-limiter");
  const files = (await filesOf(installed)).map((file) => file.slice(installed.length + 1));
  for (const needed of [
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "package.json",
    "dist/entry/index.js",
    "dist/entry/index.d.ts",
  ]) {
    assert.ok(files.includes(needed), `${needed} is missing`);
  }
  assert.deepEqual(
    files.filter((file) => /\.test\./.test(file) || (file.endsWith(".ts") && !file.endsWith(".d.ts"))),
    [],
  );
});

test("every entry point that package.json names can be imported by its name", async () => {
  const { exports } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    exports: Record<string, unknown>;
  };
  const names = Object.keys(exports).filter((name) => name !== "./package.json");
  assert.ok(names.includes("."));
  const imports = names.map(
    (name) => `import * as e${names.indexOf(name)} from "${name.replace(".", "zae-limiter")}";`,
  );
  const counts = names.map((_, i) => `Object.keys(e${i}).length`);
  await writeFile(
    join(project, "entries.js"),
    [...imports, `console.log(JSON.stringify([${counts.join()}]));`].join("\n"),
  );
  const stdout = await run(process.execPath, ["entries.js"], project);
  for (const [i, count] of (JSON.parse(stdout) as number[]).entries()) {
    assert.ok(count > 0, `${names[i]} exports nothing`);
  }
});

test("the README's example runs from the installed package", async () => {
  await writeFile(join(project, "example.ts"), readExample());
  // Rejects when the example throws, exits with an error or does not end by itself.
  await run(process.execPath, ["example.ts"], project);
});

test("a DynamoDB store says which package to install, and its types need none", async () => {
  const lines = [
    'import { RateLimiter } from "zae-limiter";',
    'import { type DynamoStoreOptions, openDynamo } from "zae-limiter/dynamodb";',
    'const credentials = { accessKeyId: "a", secretAccessKey: "b" };',
    'const way: DynamoStoreOptions = { stack: "limits", region: "eu-west-1", endpoint: "http://127.0.0.1:1", credentials };',
    "const told = (error: unknown) => console.log(String(error));",
    "await openDynamo(way).catch(told);",
    'await RateLimiter.open({ store: "dynamodb:limits" }).catch(told);',
  ];
  await writeFile(join(project, "dynamodb.ts"), lines.join("\n"));
  const [given, found] = (await run(process.execPath, ["dynamodb.ts"], project)).split("\n");
  assert.match(given ?? "", /The package undici is not installed.*`npm install undici`/);
  assert.match(found ?? "", /The package @aws-sdk\/client-dynamodb is not installed/);
  assert.deepEqual(await compile("dynamodb.ts"), []);
});

test("the README's example compiles strictly against the packaged types", async () => {
  await writeFile(join(project, "typed.ts"), readExample());
  assert.deepEqual(await compile("typed.ts"), []);
});

test("the packaged types are real: a call that is wrong does not compile", async () => {
  const wrong = [
    'import { Limit, RateLimiter } from "zae-limiter";',
    'const limiter = await RateLimiter.open({ store: "memory" });',
    'await limiter.setSystemDefaults([Limit.perMinute("rpm", "many")]);',
    "await limiter.close();",
  ];
  await writeFile(join(project, "wrong.ts"), wrong.join("\n"));
  const errors = await compile("wrong.ts");
  assert.equal(errors.length, 1, errors.join("\n"));
  assert.match(errors[0] ?? "", /wrong\.ts\(3,\d+\): error TS2345/);
});

/** Compiles one file of the project as a strict user would, and answers with the errors. */
async function compile(file: string): Promise<string[]> {
  const compilerOptions = {
    target: "es2023",
    lib: ["es2023", "esnext.disposable"],
    module: "nodenext",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    // Our declarations must be sound by themselves, not only where they are used.
    skipLibCheck: false,
    noEmit: true,
    types: ["node"],
    typeRoots: [join(root, "node_modules/@types")],
  };
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [file] }));
  try {
    await run(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.json"], project);
    return [];
  } catch (error) {
    return String(error)
      .split("\n")
      .filter((line) => line.includes(": error TS"));
  }
}
