import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { format, promisify } from "node:util";
import { anchorOf } from "../../scripts/docs-index.ts";
import * as api from "../../src/entry/index.ts";
import * as attributes from "../../src/protocol/item/attributes.ts";
import { RETRY } from "../../src/protocol/process/retry-policy.ts";
import { PROBLEM_STATUSES } from "../../src/server/problem.ts";
import { deepTest } from "../deep-test.ts";
import { isDeep } from "../depth.ts";
import { allExamples, documents, type Example } from "./doc-examples.ts";
import { plainEnvironment } from "./readme.ts";

// The documents are part of the product: what they show runs, what they point to exists, and no error is left unexplained.

const root = fileURLToPath(new URL("../..", import.meta.url));
// What is printed is compared, so it must not be coloured, wherever this runs.
const env = { ...plainEnvironment(), FORCE_COLOR: "0" };
const run = promisify(execFile);

let folder: string;
const examples: readonly Example[] = allExamples();

/** The file in which an example runs, in a folder of its own. */
function fileOf(example: Example): string {
  return join(folder, `example-${examples.indexOf(example)}`, "example.mts");
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "docs-"));
  // Examples import frameworks by their names.
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  for (const example of examples) {
    await mkdir(dirname(fileOf(example)));
    await writeFile(fileOf(example), example.text);
  }
});

after(() => rm(folder, { recursive: true }));

/** Runs an example as its reader does, in a process that ends by itself; what it printed. */
async function runsAlone(example: Example): Promise<string> {
  const file = fileOf(example);
  const ran = run(process.execPath, [file], { cwd: dirname(file), env });
  const { stdout } = await ran.catch((error) => assert.fail(`${error.message}\n${error.stdout}\n${error.stderr}`));
  return stdout;
}

/** Runs an example in this process, which has loaded most of what it needs; what it printed. */
async function runsHere(t: TestContext, example: Example): Promise<string> {
  const file = fileOf(example);
  const before = process.cwd();
  let stdout = "";
  t.mock.method(console, "log", (...values: unknown[]) => {
    stdout += `${format(...values)}\n`;
  });
  process.chdir(dirname(file));
  try {
    await import(pathToFileURL(file).href);
    // Some print when their server listens.
    while (stdout.length < (example.printed ?? "").length) await new Promise((resolve) => setTimeout(resolve, 5));
  } finally {
    process.chdir(before);
  }
  return stdout;
}

/** Those that declare tests, and one with a whole PostgreSQL in it, take a process and their time. */
const isLong = ({ text }: Example) => /node:test|describeStore|pglite/.test(text);

/** An example that may end its process has one of its own: the deadline of a shutdown comes while a busy machine runs the others. */
const endsProcess = ({ text }: Example) => text.includes("process.exit");

// A few processes at a time, where each has one. None has a time limit but the test runner's: a busy machine is no fault.
describe("every example that begins with an import of the package runs as it stands", {
  concurrency: isDeep ? 3 : 1,
}, () => {
  const local = examples.filter(
    ({ isOnDynamo, isOnPostgres, isOnRedis, isStep }) => !isOnDynamo && !isOnPostgres && !isOnRedis && !isStep,
  );
  assert.ok(local.length > 70, `only ${local.length} examples were found`);
  for (const example of local.filter((each) => isDeep || !isLong(each))) {
    test(example.place, async (t) => {
      const isAlone = isDeep || endsProcess(example);
      const printed = isAlone ? await runsAlone(example) : await runsHere(t, example);
      if (example.printed !== undefined) assert.equal(printed, example.printed);
    });
  }
});

test("every example of the README has what it prints right below it", () => {
  const ofReadme = examples.filter(({ place }) => place.startsWith("README.md"));
  assert.deepEqual(
    ofReadme.map(({ printed }) => printed === undefined),
    [false, false],
  );
});

deepTest("every example compiles as strictly as the package itself", async () => {
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: {
      rewriteRelativeImportExtensions: false,
      types: ["node"],
      typeRoots: [join(root, "node_modules/@types")],
    },
    include: [],
    files: examples.map(fileOf),
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  try {
    await run(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.json"], { cwd: folder });
  } catch (error) {
    const errors = (error as { stdout: string }).stdout.replace(/example-(\d+)\/example\.mts/g, (_, i) => {
      return examples[Number(i)]?.place ?? "";
    });
    assert.fail(errors);
  }
});

test("every relative link of the documents leads to a file, and to a heading if it names one", () => {
  const broken = documents.flatMap((document) => {
    const links = [...read(document).matchAll(/\]\(([^()\s]+)\)/g)].map(([, target = ""]) => target);
    return links
      .filter((target) => !/^[a-z]+:/.test(target) && !leads(document, target))
      .map((t) => `${document}: ${t}`);
  });
  assert.deepEqual(broken, []);
});

test("every guide, reference and decision is reached from the README by following links", () => {
  const reached = new Set<string>();
  const follow = (document: string): void => {
    if (reached.has(document) || !existsSync(join(root, document))) return;
    reached.add(document);
    for (const [, target = ""] of read(document).matchAll(/\]\(([^()#\s]+\.md)[^()\s]*\)/g)) {
      if (!/^[a-z]+:/.test(target)) follow(join(dirname(document), target));
    }
  };
  follow("README.md");
  assert.deepEqual(
    documents.filter((document) => !reached.has(document)),
    [],
  );
});

test("every error code that the source can throw is explained, and no other", () => {
  const thrown = new Set<string>();
  for (const file of globSync("src/**/*.ts", { cwd: root })) {
    if (file.endsWith(".test.ts") || file.startsWith("src/testing/")) continue;
    for (const code of codesIn(read(file))) thrown.add(code);
  }
  for (const code of Object.keys(PROBLEM_STATUSES)) thrown.add(code);
  const explained = [...read("docs/reference/errors.md").matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, code = ""]) => code);
  assert.ok(thrown.size > 30, `only ${thrown.size} codes were found in src`);
  assert.deepEqual([...explained].sort(), [...thrown].sort());
});

test("every call of the API in short is there, and every call is in the API in short", async () => {
  const limiter = await api.RateLimiter.open({ store: "memory" });
  const limits = [api.Limit.perMinute("rpm", 1)];
  const lease = await limiter.acquire({ entityId: "key-1", resource: "api", limits, consume: { rpm: 1 } });
  const places: Readonly<Record<string, object>> = { RateLimiter: api.RateLimiter, Limit: api.Limit, lease };
  const page = read("docs/reference/api-in-short.md");
  const rows = [...page.matchAll(/^\| (`[^|]+) \|/gm)].map(([, cell = ""]) => cell);
  const calls = rows
    .filter((cell) => !cell.endsWith(" of every limit"))
    .flatMap((cell) => [...cell.matchAll(/`([A-Za-z.]+)[^`]*`/g)].map(([, name = ""]) => name));
  assert.ok(calls.length > 50, `only ${calls.length} calls were found`);
  const missing = calls.filter((call) => {
    const [first = "", second] = call.split(".");
    return second === undefined ? !(first in limiter) && !(first in api) : !(second in (places[first] ?? {}));
  });
  assert.deepEqual(missing, []);
  const reference = read("docs/reference/library.md");
  const methods = [...reference.matchAll(/^(?:limiter|lease|Limit|RateLimiter)\.(\w+)/gm)].map(([, name = ""]) => name);
  const functions = Object.keys(api).filter((name) => /^[a-z]/.test(name));
  // The message of an unknown name has the known ones.
  const wrong: readonly (() => unknown)[] = [
    () => api.Limit.quota("day", 1, { x: 1 } as never),
    () => api.Limit.concurrent("slots", 1, { x: 1 } as never),
    () => limiter.acquire({ x: 1 } as never),
  ];
  const known: string[] = [];
  for (const call of wrong) {
    await assert.rejects(
      async () => call(),
      ({ message }: Error) => known.push(...(/; known: (.*)\.$/.exec(message)?.[1] ?? "").split(", ")) > 0,
    );
  }
  const words = new Set(page.match(/\w+/g));
  assert.ok(methods.length > 80, `only ${methods.length} methods were found`);
  assert.deepEqual(
    [...methods, ...functions, ...known].filter((name) => !words.has(name)),
    [],
  );
});

test("every name in the glossary is in the code, and every word stands there once", () => {
  const rows = glossaryRows(read("docs/glossary.md"));
  assert.ok(rows.length > 60, `only ${rows.length} words were found`);
  const words = rows.flatMap(({ words }) => words);
  assert.deepEqual(
    words.filter((word, i) => words.indexOf(word) !== i),
    [],
  );
  const code = { src: namesIn("src/**/*.ts"), test: namesIn("test/**/*.ts") };
  const missing = rows.flatMap(({ names, folder }) => names.filter((name) => !code[folder].has(name)));
  assert.deepEqual(missing, []);
});

test("every attribute of a bucket item is explained, and no other", () => {
  const { namesOf, nonceSlot, NONCE_SLOTS, WCU, ...others } = attributes;
  const ofItem = Object.values(others).filter((value) => typeof value === "string");
  const counter = [namesOf(WCU).tk, namesOf(WCU).tc];
  const { ends, held, ...ofLimit } = namesOf("<l>");
  // Of names in a row the first and the last are written down, the last without what they have in common.
  const rows = [ends, held].flatMap((row) => [row[0], row.at(-1)?.slice("b_<l>_".length)]);
  const stored = [...ofItem, ...counter, ...Object.values(ofLimit), ...rows, nonceSlot(0), nonceSlot(NONCE_SLOTS - 1)];
  const [, table = ""] = read("docs/protocol.md").split("### The attributes");
  const cells = [...(table.split("\n## ")[0] ?? "").matchAll(/^\| (`[^|]*) \|/gm)].map(([, cell = ""]) => cell);
  const explained = cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name));
  assert.deepEqual(explained.sort(), stored.sort());
});

test("the bounds of the protocol's attempts are those of the code", () => {
  const cell = (count: number) => (count === 0 ? "none" : Number.isFinite(count) ? String(count) : "no limit");
  const rows: readonly (readonly [string, keyof typeof RETRY])[] = [
    ["take, debit, renewal", "take"],
    ["claims taken together", "takeTogether"],
    ["give-back", "giveBack"],
    ["top-up, reset", "operation"],
    ["more shards", "resize"],
    ["fewer shards", "join"],
    ["a sheet of usage", "sheet"],
    ["closing the hours of one shard", "closeHours"],
    ["reading all shards", "readWhole"],
    ["changed limits to every shard", "notify"],
  ];
  assert.equal(rows.length, Object.keys(RETRY).length);
  const text = read("docs/protocol.md");
  for (const [work, name] of rows) {
    const { attempts, attemptsPerLimit, resends, backoffMs } = RETRY[name];
    const more = attemptsPerLimit === 0 ? "" : `, and ${attemptsPerLimit} more a limit`;
    const wait = backoffMs === 0 ? "none" : `${backoffMs} ms`;
    const expected = `| ${work} | ${cell(attempts)}${more} | ${cell(resends)} | ${wait} |`;
    assert.ok(text.includes(expected), `docs/protocol.md lacks "${expected}"`);
  }
});

test("names are found in code, not in its comments and texts", () => {
  const source = 'const used = "quoted"; // remarked\n/** Explained. */\nother.called(`templated`);';
  assert.deepEqual(identifiersOf(source), ["const", "used", "other", "called"]);
});

test("the codes of errors are found however the line is broken", () => {
  const source = [
    'throw new ValidationError("one_line", `text`);',
    'throw new ConflictError(\n  "broken_line",\n  "text",\n);',
    'super("from_super", message);',
    'const RULE = { what: "entity id", code: "from_rule" };',
    'if (error.code === "compared") return new TypeError("not ours");',
  ].join("\n");
  assert.deepEqual(codesIn(source), ["one_line", "broken_line", "from_super", "from_rule"]);
});

test("no document names a path of somebody's machine", () => {
  const named = documents.filter((document) => /(?:^|[\s"'`(])\/(?:work|home|root|tmp|Users)\//m.test(read(document)));
  assert.deepEqual(named, []);
});

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

function leads(document: string, target: string): boolean {
  const [path = "", heading] = target.split("#");
  const file = path === "" ? document : join(dirname(document), path);
  if (!existsSync(join(root, file))) return false;
  return heading === undefined || headingsOf(read(file)).includes(heading);
}

function headingsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, text = ""]) => anchorOf(text));
}

/** One line of the glossary: its words, and the names that the code has for them. */
interface GlossaryRow {
  readonly words: readonly string[];
  readonly names: readonly string[];
  readonly folder: "src" | "test";
}

function glossaryRows(markdown: string): GlossaryRow[] {
  const lines = markdown.split("\n").filter((line) => line.startsWith("| ") && !/^\| (word|---) \|/.test(line));
  return lines.map((line) => {
    const cells = line.split("|").map((cell) => cell.trim());
    const quoted = [...(cells.at(-2) ?? "").matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
    const names = quoted.filter((name) => name !== "test/");
    assert.ok(names.length > 0, `${line} names nothing in the code`);
    return { words: (cells[1] ?? "").split(", "), names, folder: quoted.includes("test/") ? "test" : "src" };
  });
}

function namesIn(pattern: string): ReadonlySet<string> {
  const names = new Set<string>();
  for (const file of globSync(pattern, { cwd: root })) {
    if (!file.endsWith(".test.ts")) for (const name of identifiersOf(read(file))) names.add(name);
  }
  return names;
}

function identifiersOf(source: string): string[] {
  const plain = source.replace(/\/\*[\s\S]*?\*\/|\/\/.*|"[^"\n]*"|`[^`]*`/g, " ");
  return [...plain.matchAll(/[A-Za-z_$][\w$]*/g)].map(([name]) => name);
}

/** Codes given to the constructors of our errors, and those that rules carry until they are. */
function codesIn(source: string): string[] {
  const given = /(?:new (?:[A-Z]\w*Error|LeaseClosed|StoreRefused)\(|\bsuper\(|\bcode:)\s*"([a-z_]+)"/g;
  // A metric of the service gives its type to its base.
  const codes = [...source.matchAll(given)].flatMap(([, code = ""]) => (code === "histogram" ? [] : code));
  // The client leaves the end of the code to a function.
  return [...codes, ...[...source.matchAll(/\binvalid\("([a-z_]+)", "/g)].map(([, code = ""]) => `${code}_invalid`)];
}
