import assert from "node:assert/strict";
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { Command } from "commander";
import { MIGRATIONS } from "../../src/adapters/sqlite/open-connection.ts";
import { type CommandContext, describe } from "../../src/cli/command.ts";
import { IN_ENVIRONMENT, serve } from "../../src/cli/commands/serve.ts";
import { isColored } from "../../src/cli/table.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { atDepth } from "../depth.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";
import { started, zaeLimiter } from "./run-bin.ts";

test("the bare command prints help, a group alone its help on stderr with 2", async () => {
  const bare = await here([]);
  assert.deepEqual([bare.code, bare.stderr], [0, ""]);
  assert.match(bare.stdout, /^Usage: zae-limiter/);
  const group = await here(["entity"]);
  assert.deepEqual([group.code, group.stdout], [2, ""]);
  assert.match(group.stderr, /set-limits/);
  assert.doesNotMatch(group.stderr, /set-cascade|top-up/, "old spellings are not shown");
  for (const args of [["help"], ["help", "entity"], ["help", "entity", "show"]])
    assert.deepEqual(await here(args), await here([...args.slice(1), "--help"]));
  assert.match((await here(["--version"])).stdout, /^\d+\.\d+\.\d+\n$/);
});

test("mistakes: 2, one sentence with the value and the remedy, and nothing is made", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  for (const [args, message] of [
    [["entity", "shwo"], /Unknown command 'shwo'; did you mean show\?/],
    [["entity", "list", "--josn"], /Unknown option '--josn'; did you mean --json\?/],
    [["entity", "show"], /Missing required argument 'id'/],
    [["entity", "list", "--store", "memory"], /would be empty and lost/],
    [
      ["entity", "list", "--store", "redis:x"],
      /give sqlite:FILE, postgres:\/\/HOST\/DATABASE, redis:\/\/HOST or dynamodb:STACK/,
    ],
    [["entity", "list", "--store", "postgres"], /goes by DATABASE_URL, which is not set; set it, or give postgres:/],
    [["entity", "list", "--store", "postgress://u:secret@h/db"], /The store is "postgress:\.\.\."; give sqlite:FILE/],
    [["entity", "list", "--store", "postgres://h/db?shema=a"], /unknown parameter "shema"; did you mean `schema`\?/],
    [["entity", "list", "--store", "postgres://h/db", "--region", "eu-west-1"], /--region is for DynamoDB/],
    [["init", "--store", "postgres://h/db", "--shared-table"], /--shared-table is for DynamoDB/],
    [["init", "--store", "postgres://h/db", "--admin-role", "a"], /--admin-role goes with --grants/],
    [["init", "--grants", ...store], /--grants is for PostgreSQL, and the store is sqlite:/],
    [["sweep", ...store], /weep is for PostgreSQL.*a file is swept by the processes that acquire from it/],
    [["sweep", "--stack", "limits"], /weep is for PostgreSQL.*`zae-limiter aggregate --once`/],
    [["sweep", "--store", "postgres://h/db", "-N", "a"], /leave --namespace out/],
    [["sweep", "--store", "postgres://h/db", "--dry-run"], /leave --dry-run out/],
    [["sweep", "--store", "postgres://h/db", "--audit-keep", "5"], /--audit-keep.*give a duration/],
    [["serve", "--store", "memory", "--durability", "full"], /--durability is for SQLite, PostgreSQL and Redis/],
    [["entity", "list", "--store", "sqlite:x.db", "--stack", "b"], /give one/],
    [["entity", "list", "--store", "sqlite:x.db", "--region", "eu-west-1"], /--region is for DynamoDB/],
    [["entity", "list", "--max", "0", ...store], /whole number, at least 1/],
    [["entity", "list", "--timeout", "5", ...store], /give a duration/],
    [["entity", "list", "--color", "pink", ...store], /auto, always, never/],
    [["usage", "list", "--from", "yesterday", ...store], /give an instant/],
    [["refusals", "top", "--from", "1d", "--to", "2d", ...store], /--from is .*, after --to, .*; give the earlier one/],
    [["bucket", "list", "--stack", "limits"], /give -e ID or -r RESOURCE/],
    [["watch", "--stack", "limits", "--once"], /give -e ID or -r RESOURCE/],
    [["usage", "totals", "--by", "limit", ...store], /--by is "limit"; give entity or resource/],
    [["create", "key-1"], /'create'; there is entity create, plan create, namespace register or token add\./],
    [["namespace", "create", "shop"], /Unknown command 'create'; there is namespace register\./],
    [["entity", "get", "a", ...store], /'get'; there is entity show, entity get-limits or entity get-totals\./],
    [[...store, "entity", "rm", "a"], /Unknown command 'rm'; there is entity delete\./],
    [["system", "show"], /'show'; there is system get-defaults or system get-totals\./],
    [["resource", "defaults"], /'defaults'; there is resource set-defaults, resource get-def/],
    [["access", "off"], /Unknown command 'off'; there is access set or access show\./],
    [["access", "set", "a", "disabled", ...store], /give access set disabled -e a, or -r for a resource\./],
    [["cascade", "set", "a", "no", ...store], /takes one word and got 2: a, no; give cascade set on -e a/],
    [["plan", "children", "gold"], /there is entity children\./],
    [
      ["delete", "key-1"],
      /`delete` is for stacks on AWS; on a store, use entity delete, plan delete or namespace delete\./,
    ],
    [["status"], /No stack is named; give -n NAME.*on a store, use doctor\./],
    [["watch", ...store], /give --once, or --ndjson/],
    [["completion", "tcsh"], /bash, zsh, fish or powershell/],
    [["resource", "set-defaults", "no such", "-l", "rpm:1", ...store], /Invalid resource/],
  ] as const) {
    const { code, stdout, stderr } = await here(args);
    assert.deepEqual([code, stdout], [2, ""], `${args.join(" ")}: ${stderr}`);
    assert.match(stderr, message);
    assert.equal(stderr.trimEnd().split("\n").length, 1, stderr);
  }
});

test("a question is asked on a terminal, No is the default, and elsewhere --yes is wanted", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  await here(["init", ...store]);
  await here(["entity", "create", "a", ...store]);
  const elsewhere = await here(["entity", "delete", "a", ...store]);
  assert.deepEqual([elsewhere.code, elsewhere.stdout], [2, ""]);
  for (const answer of ["", "n", "no", "j"]) {
    const declined = await here(["entity", "delete", "a", ...store], { answer });
    assert.deepEqual([declined.code, declined.stdout], [1, ""]);
    assert.match(declined.stderr, /Delete a with its limits, buckets and usage\? \[y\/N\] Declined/);
  }
  assert.equal((await here(["entity", "show", "a", ...store])).code, 0);
  assert.equal((await here(["entity", "delete", "a", "--dry-run", ...store])).code, 0);
  assert.equal((await here(["entity", "delete", "a", ...store], { answer: "y" })).code, 0);
  assert.equal((await here(["entity", "show", "a", ...store])).code, 4);
});

test("the store: the option wins, then ZAEL_STORE, then ZAEL_STACK; empty is unset", async (t) => {
  const store = `sqlite:${tempFile(t)}`;
  const env = { ZAEL_STORE: store, ZAEL_STACK: "limits" };
  assert.equal(JSON.parse((await here(["init", "--json"], { env })).stdout).store, store);
  const other = `sqlite:${tempFile(t)}`;
  assert.equal(JSON.parse((await here(["--json", "init", "--store", other], { env })).stdout).store, other);
  const { stderr } = await here(["watch", "--once"], { env: { ZAEL_STORE: "", ZAEL_STACK: "limits" } });
  assert.match(stderr, /would read the whole table/);
  const tenant = await here(["entity", "list", "--json"], { env: { ...env, ZAEL_NAMESPACE: "nobody" } });
  assert.equal(JSON.parse(tenant.stderr).error.code, "namespace_not_found");
});

test("whom the audit trail names: the option, the environment, or user@host", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  await here(["init", ...store]);
  await here(["entity", "create", "a", "--principal", "ops@x.org", ...store]);
  await here(["entity", "create", "b", ...store], { env: { ZAEL_PRINCIPAL: "robot" } });
  await here(["entity", "create", "c", ...store]);
  const bad = await here(["entity", "create", "d", "--principal", "no body", ...store]);
  assert.equal(bad.code, 2);
  const { items } = JSON.parse((await here(["audit", "list", "--json", ...store])).stdout);
  const who = items.map(({ principal }: { principal: string }) => principal);
  assert.deepEqual(who.slice(1), ["robot", "ops@x.org"]);
  assert.match(who[0], /^[a-zA-Z0-9_.\-:@]+@[a-zA-Z0-9_.\-:@]+$/);
});

test("colours: the option, then NO_COLOR, then FORCE_COLOR, then a terminal that is not dumb", () => {
  const at = (env: Record<string, string>, color: string | undefined, stdout: boolean) =>
    isColored({ env, terminal: { stdout }, options: { color } } as unknown as CommandContext);
  assert.equal(at({ NO_COLOR: "1" }, "always", false), true);
  assert.equal(at({ FORCE_COLOR: "1" }, "never", true), false);
  assert.equal(at({ NO_COLOR: "1", FORCE_COLOR: "1" }, undefined, true), false);
  assert.equal(at({ NO_COLOR: "", FORCE_COLOR: "1" }, "auto", false), true);
  assert.equal(at({ FORCE_COLOR: "0" }, undefined, true), false);
  assert.deepEqual(
    [at({}, undefined, true), at({}, undefined, false), at({ TERM: "dumb" }, undefined, true)],
    [true, false, false],
  );
});

test("a limit that is wider than its column is broken, and nothing of it is lost", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  const limit = "month:2M,reset=monthly,tz=America/Argentina/ComodRivadavia";
  await here(["init", ...store]);
  await here(["entity", "create", "an-entity-with-a-long-name", ...store]);
  await here(["entity", "set-limits", "an-entity-with-a-long-name", "-l", limit, ...store]);
  const { stdout } = await here(["explain", "an-entity-with-a-long-name", "api", ...store]);
  assert.equal(stdout.includes("…"), false, stdout);
  const lines = stdout.split("\n").filter((line) => line !== "");
  for (const line of lines.slice(1)) assert.ok(line.length <= 80, line);
  const cells = lines.flatMap((line) => line.split(/ {2,}/));
  assert.ok(cells.includes("month:2M,") || cells.includes("month:2M,reset=monthly,"), stdout);
  assert.ok(cells.includes("its own default"), stdout);
});

test("an unknown command without a near one says where all of them are, and an older file is said to be brought up", async (t) => {
  assert.match((await here(["frobnicate"])).stderr, /^Unknown command 'frobnicate'; see --help\.\n$/);
  const file = tempFile(t);
  const store = ["--store", `sqlite:${file}`];
  assert.match((await here(["init", ...store])).stdout, /^Created /);
  assert.match((await here(["init", ...store])).stdout, /exists already/);
  const older = tempFile(t);
  const database = new DatabaseSync(older);
  for (const sql of MIGRATIONS.slice(0, -1)) database.exec(sql);
  database.exec(`PRAGMA application_id = ${0x7a61656c}; PRAGMA user_version = ${MIGRATIONS.length - 1}`);
  database.close();
  const brought = await here(["init", "--store", `sqlite:${older}`]);
  const said = `Upgraded sqlite:${older} from schema ${MIGRATIONS.length - 1} to ${MIGRATIONS.length}.\n`;
  assert.deepEqual([brought.code, brought.stdout], [0, said], brought.stderr);
  const none = await here(["resource", "get-defaults", "gpt-5", ...store]);
  assert.match(none.stderr, /has no defaults; there are none\. Set some with/);
});

test("tables fit 80 columns, and a stored name moves no cursor and turns no text round", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  const name = `${"a long name ".repeat(12)}\u001b[2J\u009b31m\u202egnp`;
  await here(["init", ...store]);
  await here(["entity", "create", "team-with-a-name.example.org", "--name", name, ...store]);
  await here([
    "resource",
    "set-defaults",
    "r",
    ...store,
    ...["a", "b", "c", "d", "e"].flatMap((name) => ["-l", `${name}:1000/5min:2000,soft`]),
  ]);
  for (const args of [
    ["entity", "list"],
    ["resource", "list"],
    ["audit", "list"],
    ["namespace", "list"],
  ]) {
    const { stdout } = await here([...args, ...store]);
    for (const line of stdout.split("\n")) assert.ok(line.length <= 80, `${args.join(" ")}: ${line.length} ${line}`);
    const { stdout: json } = await here([...args, ...store, "--json"]);
    for (const control of ["\u001b", "\u009b", "\u202e"]) assert.ok(!`${stdout}${json}`.includes(control));
    if (args[0] === "entity") assert.equal(JSON.parse(json).items[0].name, name);
  }
});

test("completion: commands, options, and ids from the store; silent where there is none", async (t) => {
  const store = `sqlite:${tempFile(t)}`;
  const of = async (...words: readonly string[]) =>
    (await here(["__complete", "--", ...words], { env: { ZAEL_STORE: store } })).stdout.split("\n").filter(Boolean);
  assert.deepEqual(await of("entity", "show", ""), []);
  await here(["init", "--store", store]);
  for (const id of ["key-1", "key-2", "proj-1"]) await here(["entity", "create", id, "--store", store]);
  await here(["resource", "set-defaults", "gpt-4", "-l", "rpm:1", "-l", "tpm:1", "--store", store]);
  assert.deepEqual(await of("ent"), ["entity"]);
  assert.deepEqual(await of("entity", "set"), ["set-limits", "set-totals"]);
  await here(["plan", "create", "gold", "--store", store]);
  assert.deepEqual(await of("entity", "update", "key-1", "--plan", ""), ["gold"]);
  assert.deepEqual(await of("plan", "get", ""), ["gold"]);
  assert.deepEqual(await of("system", "set-defaults", "--applies-to", ""), ["callers", "everyone"].reverse());
  assert.deepEqual(await of("entity", "show", "key"), ["key-1", "key-2"]);
  assert.deepEqual(await of("acquire", "key-1", ""), ["gpt-4"]);
  assert.deepEqual(await of("acquire", "key-1", "gpt-4", "-c", ""), ["rpm", "tpm"]);
  assert.deepEqual(await of("access", "set", "dis"), ["disabled"]);
  assert.deepEqual(await of("entity", "list", "-N", ""), ["default"]);
  assert.deepEqual(await of("entity", "list", "--with"), ["--with-custom-limits"]);
  for (const shell of ["bash", "zsh", "fish", "powershell"]) {
    assert.match((await here(["completion", shell])).stdout, /zae-limiter __complete --/);
  }
});

test("a long list of entities streams, and ends at once when its reader leaves", async (t) => {
  const file = tempFile(t);
  const limiter = await RateLimiter.open({ store: `sqlite:${file}` });
  await limiter.close();
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(file);
  const count = atDepth(15_000, 100_000);
  database.exec(`
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${count - 1})
    INSERT INTO entity SELECT 'default', printf('e%06d', i), printf('e%06d', i), NULL, 0, '{}', 1, 0, 0, NULL FROM n`);
  database.close();
  const store = ["--store", `sqlite:${file}`];
  const left = await here(["entity", "list", "--ndjson", ...store], { readerLeavesAfter: 1 });
  assert.deepEqual([left.code, left.stderr, left.stdout.trimEnd().split("\n").length], [0, "", 1_000]);
  // As a process whose memory would not hold the list, into a reader that takes one line and leaves.
  const run = started(["entity", "list", "--json", ...store], { NODE_OPTIONS: "--max-old-space-size=40" });
  const { code, stdout, stderr } = await run.ended;
  assert.deepEqual([code, stderr], [0, ""]);
  assert.equal(JSON.parse(stdout).items.length, count);
  const pipe = started(["entity", "list", ...store]);
  pipe.child.stdout.once("data", () => pipe.child.stdout.destroy());
  const ended = await pipe.ended;
  assert.deepEqual([ended.code, ended.stderr], [0, ""]);
});

test("signals: what waits ends with 130 or 143 and has taken nothing; follow ends by Ctrl-C with 0", async (t) => {
  const file = tempFile(t);
  const store = ["--store", `sqlite:${file}`];
  for (const line of [
    "init",
    "resource set-defaults api -l rpm:1/day:1",
    "entity create a",
    "acquire a api -c rpm=1",
  ]) {
    assert.equal((await here([...line.split(" "), ...store])).code, 0);
  }
  const before = readFileSync(file);
  for (const [signal, exitCode] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    const run = started(["acquire", "a", "api", "-c", "rpm=1", "--wait", "1d", "--json", ...store]);
    await readyToBeSignalled(run.child.pid as number, file);
    run.child.kill(signal);
    const { code, stdout, stderr } = await run.ended;
    assert.deepEqual([code, stdout], [exitCode, ""]);
    assert.deepEqual([JSON.parse(stderr).error.code, JSON.parse(stderr).error.exitCode], ["interrupted", exitCode]);
  }
  assert.deepEqual(readFileSync(file), before);
  const follow = started(["audit", "follow", "--from", "1h", ...store]);
  await new Promise((resolve) => follow.child.stdout.once("data", resolve));
  follow.child.kill("SIGINT");
  const { code, stdout } = await follow.ended;
  assert.equal(code, 0);
  assert.equal(JSON.parse(stdout.split("\n")[0] ?? "").action, "limits_set");
});

/** The process listens for signals before it opens the file. */
async function readyToBeSignalled(pid: number, file: string): Promise<void> {
  for (;;) {
    const open = readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`));
    if (open.includes(file)) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A file may be closed again before it is looked at. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

test("the bin, as a process: an answer on stdout, an error on stderr", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  const made = await zaeLimiter(["init", "--json", ...store]);
  assert.deepEqual([made.code, made.stderr], [0, ""]);
  const missing = await zaeLimiter(["entity", "show", "a", "--json", ...store]);
  assert.deepEqual([missing.code, missing.stdout], [4, ""]);
  assert.equal(JSON.parse(missing.stderr).error.code, "entity_not_found");
});

test("a manifest with hundreds of problems shows the first of them, and all as JSON", async (t) => {
  const file = join(dirname(tempFile(t)), "limits.yaml");
  writeFileSync(file, `resources:\n${Array.from({ length: 300 }, (_, i) => `  r${i}: {}\n`).join("")}`);
  const shown = (await here(["limits", "validate", "-f", file])).stderr.trimEnd().split("\n");
  assert.equal(shown.length, 21);
  assert.equal(shown.at(-1), "And 280 more; --json prints all.");
  const { error } = JSON.parse((await here(["limits", "validate", "-f", file, "--json"])).stderr);
  assert.equal(error.problems.length, 300);
});

test("every option of serve has its variable, and a shared table the same one for every command", async () => {
  const command = new Command();
  describe(command, serve);
  const options = command.options.map((option) => option.attributeName());
  assert.deepEqual(
    options.filter((name) => !IN_ENVIRONMENT.includes(name)),
    [],
  );
  // A value that is wrong is told in the same words, by the option and by the variable: both are read.
  const wrong: Readonly<Record<string, string>> = { host: "0.0.0.0", metricsHost: "0.0.0.0" };
  for (const option of command.options) {
    const name = option.attributeName();
    const args = [
      "serve",
      "--store",
      "memory",
      ...(name === "metricsHost" ? ["--port", "0", "--metrics-port", "0"] : []),
    ];
    const value = wrong[name] ?? "not / this";
    const byVariable = await here(args, { env: { [variableOf(name)]: value } });
    assert.equal(byVariable.code, 2, `${name}: ${byVariable.stderr}`);
    if (option.required) assert.deepEqual(await here([...args, option.long ?? "", value]), byVariable);
    else assert.match(byVariable.stderr, /give true or false/);
  }
  // Those of the other commands: the store is found by them, and what is for clients is in nobody's way.
  const ofClients = { ZAEL_NAMESPACE: "prod", ZAEL_TOKEN: "zael_x", ZAEL_PRINCIPAL: "ada", ZAEL_DEBUG: "0" };
  const table = { ZAEL_REGION: "us-east-1", ZAEL_ENDPOINT_URL: "http://127.0.0.1:9", ZAEL_TIMEOUT: "100ms" };
  for (const [where, told] of [
    [{ ZAEL_STORE: "sqlite:/dev/null/limiter.db" }, /\/dev\/null/],
    [{ ZAEL_STACK: "limits", ...table, AWS_ACCESS_KEY_ID: "x", AWS_SECRET_ACCESS_KEY: "x" }, /127\.0\.0\.1:9/],
    [{ ZAEL_STORE: "postgres", DATABASE_URL: "postgres://x@127.0.0.1:9/app", ZAEL_TIMEOUT: "100ms" }, /127\.0\.0\.1:9/],
  ] as const) {
    const { code, stderr } = await here(["serve", "--port", "0"], { env: { ...ofClients, ...where } });
    assert.equal(code, 3, stderr);
    assert.match(stderr, told);
  }
  // And there are no others in the documents.
  const known = new Set([...IN_ENVIRONMENT.map(variableOf), ...Object.keys({ ...ofClients, ...table })]);
  for (const name of ["STORE", "STACK", "URL", "SHARED_TABLE", "LIMIT_UNNAMED", ""]) known.add(`ZAEL_${name}`);
  const documented = readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .flatMap((file) => readFileSync(join("docs", file), "utf8").match(/\bZAEL_[A-Z_]*/g) ?? []);
  assert.deepEqual(
    documented.filter((name) => !known.has(name)),
    [],
  );
  const nowhere = ["--store", "dynamodb:limits", "--region", "us-east-1", "--endpoint", "http://127.0.0.1:9"];
  for (const args of [
    ["serve", "--port", "0"],
    ["entity", "list"],
  ]) {
    for (const [word, code] of [
      ["1", 3],
      ["true", 3],
      ["yes", 2],
    ] as const) {
      const env = { ZAEL_SHARED_TABLE: word, AWS_ACCESS_KEY_ID: "x", AWS_SECRET_ACCESS_KEY: "x" };
      const told = await here([...args, "--timeout", "100ms", ...nowhere], { env });
      assert.equal(told.code, code, `${word} ${args}: ${told.stderr}`);
    }
  }
});

function variableOf(option: string): string {
  return `ZAEL_${option.replaceAll(/[A-Z]/g, "_$&").toUpperCase()}`;
}
