import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { releaseProblems } from "../../scripts/release-check.ts";
import { grouped } from "../../scripts/test-groups.ts";
import { becameSlow, longestFirst, NOTED, SLOW_S } from "../../scripts/test-order.ts";
import { DEEP_ONLY, deepFiles, PARTS, partOf } from "../../scripts/test-parts.ts";
import { lastLine } from "../../scripts/test-run.ts";
import { seedOfDay } from "../depth.ts";
import { plainEnvironment } from "../docs/readme.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Scripts of package.json that are programs of this repository, and those of the folder that are called by their path. */
const named = Object.entries(
  (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> }).scripts,
).flatMap(([name, command]) => {
  const [, file] = /^node (\S+\.ts)$/.exec(command) ?? [];
  const called = ["start", "test"].includes(name) ? `npm ${name}` : `npm run ${name}`;
  return file === undefined ? [] : [{ file, called, isRunner: name.startsWith("test") }];
});
const scripts = [
  ...named,
  ...[
    "cli-reference",
    "writes-reference",
    "take-paths",
    "manifest-schema",
    "edge-schema",
    "draw-limits",
    "release-check",
  ].map((name) => {
    return { file: `scripts/${name}.ts`, called: `node scripts/${name}.ts`, isRunner: false };
  }),
];

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function node(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { cwd: root, env: { ...plainEnvironment(), ...env } };
    const child = execFile(process.execPath, args, options, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

test("the scripts are found", () => {
  const names = scripts.map(({ called }) => called);
  for (const name of ["start", "test", "run build", "run simulate", "run bench"])
    assert.ok(names.includes(`npm ${name}`), name);
});

for (const { file, called, isRunner } of scripts) {
  test(`${called} --help says how it is called, and does nothing else`, async () => {
    const { code, stdout, stderr } = await node([file, "--help"], {});
    assert.deepEqual([code, stderr], [0, ""]);
    assert.ok(stdout.includes(called), stdout);
  });

  // Of tests, what is not known is an option of Node's runner.
  if (!isRunner) {
    test(`${called} with an option that is not there is one sentence, without a stack`, async () => {
      const { code, stdout, stderr } = await node([file, "--no-such-option"], {});
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, /^[^\n]+\.\n$/);
    });
  }
}

test("a number that is none and a store that is none are told with what can be given", async () => {
  const said = async (...args: string[]) => (await node(args, {})).stderr;
  assert.equal(
    await said("test/simulation/simulate.ts", "--seeds", "many"),
    '--seeds is "many"; give a whole number.\n',
  );
  assert.match(
    await said("test/simulation/simulate.ts", "--store", "redis"),
    /^--store is "redis"; give one of memory, sqlite, .+\.\n$/,
  );
  assert.match(await said("bench/run.ts", "speed"), /^Unknown bench "speed"; give some of admission, .+\.\n$/);
});

/** An `npm` that only fails, with 7: what it is asked for does not happen. */
async function failingNpm(t: TestContext): Promise<Readonly<Record<string, string>>> {
  const folder = await mkdtemp(join(tmpdir(), "npm-"));
  t.after(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "npm"), "#!/bin/sh\nexit 7\n");
  await chmod(join(folder, "npm"), 0o755);
  return { PATH: [folder, process.env.PATH].join(delimiter) };
}

test("npm test -- FILTER runs the files at once, without types and lint; npm test stops where those fail", async (t) => {
  const env = await failingNpm(t);
  const filtered = await node(["scripts/test.ts", "src/domain/steps"], env);
  assert.equal(filtered.code, 0, filtered.stderr);
  assert.match(filtered.stdout, /✔ the same steps run with promises and without/);
  const whole = await node(["scripts/test.ts"], env);
  assert.equal(whole.code, 7);
  assert.doesNotMatch(whole.stdout, /passed/);
});

test("npm test -- FILTER that no file matches says so", async () => {
  const { code, stderr } = await node(["scripts/test.ts", "no/such/file"], {});
  assert.equal(code, 2);
  assert.match(stderr, /^No test file matches no\/such\/file; .+\n$/);
});

test("files are begun in the order given, a failed one is told at once and is the exit code", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "run-"));
  t.after(() => rm(folder, { recursive: true }));
  const file = (name: string, body: string) =>
    writeFile(join(folder, name), `import { test } from "node:test"; test("in ${name}", () => { ${body} });`);
  await file("b.test.mjs", "");
  await file("a.test.mjs", "");
  const runner = new URL("../../scripts/test-run.ts", import.meta.url).href;
  // A file, not --eval: test processes inherit the options of the one that starts them.
  const program = join(folder, "program.mjs");
  const run = async (...files: string[]) => {
    const options = JSON.stringify({ root: folder, files, timeoutMs: 600_000, concurrency: 1 });
    const lines = [`import { runTestFiles } from "${runner}";`, `process.exitCode = await runTestFiles(${options});`];
    await writeFile(program, lines.join("\n"));
    return node([program], {});
  };
  const good = await run("b.test.mjs", "a.test.mjs");
  assert.equal(good.code, 0, good.stderr);
  assert.ok(good.stdout.indexOf("in b.test.mjs") < good.stdout.indexOf("in a.test.mjs"), good.stdout);
  await file("bad.test.mjs", 'throw new Error("out of order");');
  const bad = await run("a.test.mjs", "bad.test.mjs");
  assert.equal(bad.code, 1);
  assert.match(bad.stderr, /^✖ bad\.test\.mjs: in bad\.test\.mjs$/m);
  assert.match(bad.stdout, /Error: out of order/);
});

test("files that are known to be long come first, the longest at the head, and all of them are there", () => {
  assert.deepEqual(
    [...Object.keys(NOTED), ...Object.keys(DEEP_ONLY)].filter((file) => !existsSync(join(root, file))),
    [],
  );
  const [longest = "", next = ""] = longestFirst(Object.keys(NOTED));
  assert.deepEqual(longestFirst(["src/b.test.ts", next, "src/a.test.ts", longest]), [
    longest,
    next,
    "src/a.test.ts",
    "src/b.test.ts",
  ]);
});

test("a file of more than ten seconds is noted with its reason", () => {
  const silent = Object.entries(NOTED).filter(([, { seconds, why }]) => seconds > SLOW_S && why === undefined);
  assert.deepEqual(silent, []);
});

test("files that became slow are told, measured by the others of the same run", () => {
  const noted = Object.entries(NOTED).filter(([, { seconds }]) => seconds > SLOW_S);
  const took = (times: number) => noted.map(([file, { seconds }]) => ({ file, ms: seconds * 1000 * times }));
  assert.deepEqual(becameSlow(took(1)), []);
  // On a busy machine everything takes longer.
  assert.deepEqual(becameSlow(took(5)), []);
  const [first, ...others] = took(5);
  const slower = { file: first?.file ?? "", ms: 2 * (first?.ms ?? 0) };
  const unknown = { file: "test/new.test.ts", ms: 100_000 };
  assert.deepEqual(
    becameSlow([slower, ...others, unknown]).map(({ file }) => file),
    [slower.file, unknown.file],
  );
});

test("every test file belongs to a part of the deep run", () => {
  const files = globSync(["src/**/*.test.ts", "test/**/*.test.ts"], { cwd: root, exclude: ["**/node_modules/**"] });
  assert.deepEqual([...new Set(files.map(partOf))].sort(), [...PARTS].sort());
  const deep = deepFiles(root, files);
  for (const file of Object.keys(DEEP_ONLY)) assert.ok(deep.includes(file), file);
  assert.ok(deep.includes("test/simulation/conditional.test.ts"));
  // Properties draw other cases each day; a file without any has nothing new to look at.
  assert.ok(deep.includes("src/bucket/level.test.ts"));
  assert.ok(!deep.includes("src/domain/names/sorting.test.ts"));
  assert.throws(() => partOf("test/elsewhere/a.test.ts"), /elsewhere.+scripts\/test-parts\.ts/);
});

test("each day has worlds of its own, and those of another are played again by their seed", async () => {
  const noon = Date.UTC(2026, 10, 18, 12);
  assert.equal(seedOfDay(noon), 207_750_000);
  assert.equal(seedOfDay(noon + 86_400_000), 207_760_000);
  const depth = JSON.stringify(new URL("../depth.ts", import.meta.url).href);
  const script = `const { seeds } = await import(${depth}); console.log(JSON.stringify(seeds(1, 2)));`;
  const played = (env: Readonly<Record<string, string>>) => node(["--input-type=module", "-e", script], env);
  const seedsOf = async (env: Readonly<Record<string, string>>) => JSON.parse((await played(env)).stdout) as number[];
  assert.deepEqual(await seedsOf({ ZAEL_DEPTH: "", ZAEL_SEED: "" }), [1]);
  assert.deepEqual(await seedsOf({ ZAEL_DEPTH: "deep", ZAEL_SEED: "7" }), [7, 8]);
  const [first = 0, second] = await seedsOf({ ZAEL_DEPTH: "deep", ZAEL_SEED: "" });
  assert.deepEqual([first % 10_000, second], [0, first + 1]);
  assert.match((await played({ ZAEL_SEED: "today" })).stderr, /ZAEL_SEED is "today"; give a whole number above 0/);
});

test("how deep a run is, tests are told by test/depth.ts alone", () => {
  const files = globSync("{src,test}/**/*.ts", { cwd: root, exclude: ["**/node_modules/**"] });
  const asking = files.filter((file) => /ZAEL_(DEPTH|SEED)\b/.test(readFileSync(join(root, file), "utf8")));
  assert.deepEqual(asking.sort(), ["test/depth.ts", "test/package/scripts.test.ts"]);
});

test("a run ends with one line: what passed, failed and was skipped, and what to install for it", () => {
  const counts = { tests: 12, passed: 7, skipped: 4, todo: 0 };
  const skips = new Map([
    ["no browser (needs Chromium)", 1],
    ["no PostgreSQL (needs Debian's postgresql)", 3],
  ]);
  assert.equal(
    lastLine(counts, skips),
    "7 passed, 1 failed, 4 skipped: 3 no PostgreSQL (needs Debian's postgresql); 1 no browser (needs Chromium).",
  );
  assert.equal(lastLine({ tests: 2, passed: 2, skipped: 0, todo: 0 }, new Map()), "2 passed, 0 failed, 0 skipped.");
});

test("a tag is released when package.json and the changelog name the same version, and not otherwise", () => {
  const good = {
    tag: "v1.2.3",
    manifest: { version: "1.2.3", repository: "somewhere" },
    changelog: "# Changelog\n\n## [1.2.3] - 2026-11-16\n\n### Added\n",
  };
  assert.deepEqual(releaseProblems(good), []);
  assert.match(
    releaseProblems({ ...good, tag: "v1.2.4" }).join(),
    /^The tag is v1\.2\.4, but package\.json has version 1\.2\.3/,
  );
  for (const changelog of ["## [Unreleased]\n", "## [1.2.3]\n", "## [1.2.30] - 2026-11-16\n"]) {
    assert.match(releaseProblems({ ...good, changelog }).join(), /^CHANGELOG\.md has no heading "## \[1\.2\.3\]/);
  }
  assert.match(releaseProblems({ ...good, manifest: { version: "1.2.3" } }).join(), /has no `repository`/);
});

test("a file that gets the oldest packages, for its whole process, has a process of its own", () => {
  const files = globSync(["src/**/*.test.ts", "test/**/*.test.ts"], { cwd: root, exclude: ["**/node_modules/**"] });
  const takesOldest = (file: string) => /from "[./]*oldest-peers\.ts"/.test(readFileSync(join(root, file), "utf8"));
  const taking = files.filter(takesOldest);
  assert.ok(taking.length >= 3, `${taking}`);
  const groups = grouped(root, files, () => false);
  const together = groups.filter((group) => group.files.length > 1 && group.files.some(takesOldest));
  assert.deepEqual(together, []);
});
