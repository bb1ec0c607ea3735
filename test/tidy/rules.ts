import { posix } from "node:path";
import { type Import, type Scanned, scan } from "./scan.ts";

/** A file by its path from the root of the repository, such as src/bucket/take.ts. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/** A row of the folder table in docs/architecture.md. */
interface Row {
  /** Folders of src, or files of them, that may be imported; `*` means all. Its own folder always. */
  readonly folders: readonly string[];
  /** Packages and node: modules that may be imported; a `*` at the end stands for anything. */
  readonly packages: readonly string[];
  /** Folders of which types may be imported, and nothing that is left at run time. */
  readonly types?: readonly string[];
}

const ROWS: Readonly<Record<string, Row>> = {
  bucket: { folders: [], packages: [] },
  domain: { folders: ["bucket"], packages: [] },
  ports: { folders: ["domain"], packages: [] },
  clock: { folders: ["bucket", "ports"], packages: [] },
  engine: { folders: ["bucket", "domain", "ports"], packages: [] },
  protocol: { folders: ["bucket", "domain", "ports", "clock"], packages: [] },
  stored: { folders: ["bucket", "domain", "ports"], packages: [] },
  straight: { folders: ["bucket", "domain", "ports", "stored", "records"], packages: [] },
  records: { folders: ["bucket", "domain", "ports", "stored"], packages: [] },
  "adapters/memory": { folders: ["bucket", "domain", "ports", "protocol", "stored", "records"], packages: [] },
  "adapters/sqlite": { folders: ["bucket", "domain", "ports", "protocol", "stored", "records"], packages: ["node:*"] },
  "adapters/dynamodb": {
    folders: ["bucket", "domain", "ports", "clock", "protocol", "stored"],
    packages: ["@aws-sdk/*", "undici", "node:*"],
  },
  "adapters/postgres": {
    folders: ["bucket", "domain", "ports", "clock", "stored", "straight", "records"],
    packages: ["pg", "node:*"],
  },
  "adapters/redis": {
    folders: ["bucket", "domain", "ports", "clock", "stored", "straight", "records"],
    packages: ["ioredis", "node:*"],
  },
  "adapters/system": { folders: ["bucket", "domain", "ports", "protocol", "stored"], packages: ["node:*"] },
  aggregator: {
    folders: ["bucket", "domain", "ports", "protocol", "adapters/dynamodb"],
    packages: ["@aws-sdk/*", "node:*"],
  },
  infra: {
    folders: ["domain", "adapters/dynamodb/schema.ts", "adapters/dynamodb/table-fit.ts"],
    packages: ["@aws-sdk/*", "node:*"],
  },
  cdk: { folders: ["domain", "infra", "manifest"], packages: ["aws-cdk-lib*", "constructs", "node:*"] },
  leases: { folders: ["bucket", "domain", "ports", "engine"], packages: [] },
  copy: { folders: ["domain", "ports", "engine"], packages: [] },
  replay: { folders: ["domain", "ports", "engine"], packages: [] },
  manifest: { folders: ["domain", "ports", "engine", "client"], packages: ["*"] },
  provisioner: {
    folders: ["domain", "ports", "engine", "manifest"],
    packages: ["node:*"],
  },
  migrate: { folders: ["bucket", "domain", "ports", "clock", "protocol", "adapters/dynamodb"], packages: ["node:*"] },
  edge: { folders: ["domain", "manifest"], packages: ["node:buffer", "node:crypto"] },
  grpc: { folders: ["edge"], packages: ["node:*"] },
  server: {
    folders: ["domain", "ports", "engine", "leases", "manifest", "edge", "grpc", "middleware/client-address.ts"],
    packages: ["*"],
  },
  proxy: {
    folders: [
      ...["domain", "ports", "engine", "llm", "manifest"],
      ...["inflight", "listening", "origin-guard", "read-files", "tls-files", "tokens"].map(
        (name) => `server/${name}.ts`,
      ),
    ],
    packages: ["node:*"],
  },
  // Its types are those of the library; at run time it needs the errors and names of the domain, streams that are tracked, and `fetch`.
  client: { folders: ["domain", "engine/lease/track.ts"], packages: [], types: ["engine", "leases", "ports"] },
  middleware: { folders: ["domain", "ports", "engine"], packages: ["*"] },
  llm: { folders: ["domain", "ports", "engine", "middleware/degraded.ts"], packages: ["*"] },
  // The channels and the clock are handed to it.
  otel: { folders: ["domain", "ports", "engine"], packages: ["@opentelemetry/api", "node:diagnostics_channel"] },
  mcp: { folders: ["domain", "ports", "engine", "llm"], packages: ["@modelcontextprotocol/sdk/*"] },
  dashboard: {
    // Small files that need nothing else: what they bring along is loaded by every visitor.
    folders: [
      ...["amount-text", "durations", "money-words", "reset-names"].map((name) => `domain/limits/${name}.ts`),
      ...["own-usage", "usage-export"].map((name) => `domain/charge/${name}.ts`),
      "domain/config/audit.ts",
    ],
    packages: ["preact", "preact/*", "uplot*", "eventsource-parser"],
    types: ["domain", "server/schemas"],
  },
  local: { folders: ["domain", "entry"], packages: ["node:*"] },
  loadtest: {
    folders: ["domain", "engine", "ports", "adapters/dynamodb", "adapters/system", "entry", "local"],
    packages: ["node:*"],
  },
  cli: { folders: ["*"], packages: ["*"] },
  testing: {
    folders: ["bucket", "domain", "ports", "clock", "protocol", "stored", "straight", "records", "adapters/memory"],
    packages: ["node:*"],
  },
  entry: { folders: ["*"], packages: ["*"] },
};

/** Any other adapter brings a client that this table does not know yet. */
const OTHER_ADAPTER: Row = { folders: ["bucket", "domain", "ports", "protocol", "stored"], packages: ["*"] };

/** Where the clock, chance and the environment may be read: behind the ports, and where a program begins. */
const AMBIENT_FOLDERS = ["adapters/system", "local", "loadtest", "cli", "dashboard"];

const LINES_MAX = 400;

/** Rooms in which every comment is a sentence with a subject. A room that becomes so is added, and none leaves. */
const CLEAR_ROOMS = [
  ...[
    "aggregator",
    "bucket",
    "cdk",
    "client",
    "clock",
    "infra",
    "llm",
    "loadtest",
    "local",
    "mcp",
    "middleware",
    "migrate",
  ],
  ...["otel", "protocol", "provisioner", "proxy", "replay", "straight"],
];

/** A comment that begins with a clause: its subject is the line below it, or nothing. */
const CLAUSE =
  /^[ \t]*(?:\/\/|\/?\*\*?) *(Of|What|Whatever|Whoever|Who|Which|How|Whether|As|So|The same|And|Nobody|Somebody) /gm;

/** One sentence for each breach of the rules, in the order of the files. */
export function violations(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, text }) => {
    const scanned = scan(text);
    const always = [...shapeProblems(path, scanned), ...commentProblems(path, text)];
    // Tests stand beside their source and may use whatever they need.
    return isTest(path) ? always : [...always, ...sourceProblems(path, scanned), ...sqlProblems(path, text)];
  });
}

function* shapeProblems(path: string, { code, lineCount }: Scanned): Iterable<string> {
  if (/\bexport\s+default\b|\bas\s+default\b/.test(code)) yield `${path} has a default export; name it.`;
  if (lineCount > LINES_MAX) yield `${path} has ${lineCount} lines, over ${LINES_MAX}; something in it wants out.`;
}

function* commentProblems(path: string, text: string): Iterable<string> {
  if (!CLEAR_ROOMS.includes(folderOf(path))) return;
  for (const { index, 1: word } of text.matchAll(CLAUSE)) {
    const line = text.slice(0, index).split("\n").length;
    yield `${path}:${line} begins a comment with "${word}"; write a sentence with a subject that one can point to.`;
  }
}

function* sourceProblems(path: string, scanned: Scanned): Iterable<string> {
  const folder = folderOf(path);
  const row = rowOf(folder);
  if (row === undefined) {
    yield `${path} stands in no folder of the architecture; move it into one, or add a row for ${folder}/.`;
    return;
  }
  for (const each of scanned.imports) yield* importProblems(path, each, row);
  yield* ambientProblems(path, folder, scanned.code);
  if (folder === "ports") yield* portProblems(path, scanned);
}

function* importProblems(path: string, { specifier, typeOnly }: Import, row: Row): Iterable<string> {
  const folder = folderOf(path);
  if (specifier === undefined) {
    if (!row.packages.includes("*")) {
      yield `${path} computes what it imports; ${folder}/ imports by literal names, so that they can be checked.`;
    }
    return;
  }
  if (!specifier.startsWith(".")) {
    if (!row.packages.some((pattern) => matches(pattern, specifier))) {
      yield `${path} imports "${specifier}"; ${folder}/ may import ${listed(row.packages, "no packages and no node: modules")}.`;
    }
    return;
  }
  const target = posix.join(posix.dirname(path), specifier);
  const targetFolder = folderOf(target);
  if (targetFolder === folder) return;
  if (typeOnly && row.types?.some((allowed) => within(target, allowed))) return;
  if (path === "src/entry/testing.ts" && target.startsWith("test/kit/")) return;
  if (!target.startsWith("src/")) yield `${path} imports "${specifier}", which is not under src/.`;
  else if (isTest(target)) yield `${path} imports "${specifier}", a test; only tests may.`;
  else if (targetFolder === "cli") yield `${path} imports "${specifier}"; nothing imports cli/.`;
  else if (targetFolder === "testing" && path !== "src/entry/testing.ts") {
    yield `${path} imports "${specifier}"; only tests and src/entry/testing.ts import testing/.`;
  } else if (!row.folders.some((allowed) => within(target, allowed))) {
    yield `${path} imports "${specifier}"; ${folder}/ may import ${listed(row.folders, "nothing outside itself")}.`;
  }
}

function* ambientProblems(path: string, folder: string, code: string): Iterable<string> {
  const refuse = (what: string, rule: string): string => `${path} uses ${what}; ${rule}.`;
  if (!AMBIENT_FOLDERS.includes(folder)) {
    for (const [pattern, what] of [
      [/\bDate\s*\.\s*now\b/, "Date.now"],
      [/\bMath\s*\.\s*random\b/, "Math.random"],
      [/\bprocess\s*\.\s*env\b/, "process.env"],
      [/\bperformance\b/, "performance"],
      [/\bprocess\s*\.\s*hrtime\b/, "process.hrtime"],
    ] as const) {
      if (pattern.test(code)) yield refuse(what, "time, chance and settings are arguments, read in adapters/system");
    }
  }
  if (folder === "bucket" && /\bDate\b/.test(code)) yield refuse("Date", "bucket/ knows only the numbers it is given");
  if (folder === "bucket" && /\bprocess\b/.test(code)) yield refuse("process", "bucket/ is pure arithmetic");
  if (
    ["clock", "engine", "protocol", "stored", "records", "leases"].includes(folder) &&
    /\bnew\s+Date\s*\(\s*\)|\bset(Timeout|Interval)\b/.test(code)
  ) {
    yield refuse("ambient time", `${folder}/ has a Clock port for it`);
  }
}

function* portProblems(path: string, { imports, code }: Scanned): Iterable<string> {
  for (const { specifier, typeOnly } of imports) {
    if (!typeOnly) yield `${path} imports "${specifier}" at run time; ports/ has types only: write \`import type\`.`;
  }
  const runTime =
    /^(?:export\s+)?(?:declare\s+)?(?:abstract\s+)?(const|let|var|function|async|class|enum|namespace)\b/m;
  const keyword = runTime.exec(outermost(code))?.[1] ?? /^([a-z][\w.]*)\s*(?:\(|=(?!>))/im.exec(outermost(code))?.[1];
  if (keyword !== undefined) yield `${path} has run-time code ("${keyword}"); ports/ has interfaces and types only.`;
  if (/^export\s+(?:\*|\{)/m.test(outermost(code)))
    yield `${path} exports values; ports/ exports types: write \`export type\`.`;
}

/** Our own tests run on Node 24, so that nothing else would notice. */
function* sqlProblems(path: string, text: string): Iterable<string> {
  if (folderOf(path) !== "adapters/sqlite") return;
  const [parameter] = /\?\d+/.exec(text) ?? [];
  if (parameter !== undefined) {
    yield `${path} has the SQL parameter ${parameter}; node:sqlite of Node 22 binds only plain ? by position.`;
  }
}

/** The code outside of all brackets, where declarations begin. */
function outermost(code: string): string {
  let depth = 0;
  let text = "";
  for (const char of code) {
    if ("([{".includes(char)) text += depth++ === 0 ? char : "";
    else if (")]}".includes(char)) text += --depth === 0 ? char : "";
    else if (depth === 0) text += char;
  }
  return text;
}

function folderOf(path: string): string {
  const [src, first = "", second = "", ...rest] = path.split("/");
  if (src !== "src" || second === "") return "";
  return first === "adapters" && rest.length > 0 ? `adapters/${second}` : first;
}

function rowOf(folder: string): Row | undefined {
  if (Object.hasOwn(ROWS, folder)) return ROWS[folder];
  return folder.startsWith("adapters/") ? OTHER_ADAPTER : undefined;
}

function within(target: string, allowed: string): boolean {
  return allowed === "*" || target === `src/${allowed}` || target.startsWith(`src/${allowed}/`);
}

function matches(pattern: string, specifier: string): boolean {
  return pattern.endsWith("*") ? specifier.startsWith(pattern.slice(0, -1)) : specifier === pattern;
}

function isTest(path: string): boolean {
  return path.endsWith(".test.ts");
}

function listed(names: readonly string[], none: string): string {
  return names.length === 0 ? none : `only ${names.join(", ")}`;
}
