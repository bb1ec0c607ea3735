import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { createTable } from "../../src/entry/dynamodb.ts";
import { isRunning, startMarkOf } from "../../src/local/background.ts";
import { tablesAt } from "../../src/local/engine-record.ts";
import { LOCAL_ACCESS } from "../../src/local/runner.ts";
import { deepTest } from "../deep-test.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { here, type RanHere } from "./in-process.ts";
import { started, zaeLimiter } from "./run-bin.ts";

/** An environment whose engines are this test's own. */
function ownState(t: TestContext): { readonly folder: string; readonly env: Record<string, string> } {
  const folder = mkdtempSync(join(tmpdir(), "zael-local-"));
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  const env: Record<string, string> = { XDG_STATE_HOME: folder, XDG_CACHE_HOME: cache };
  t.after(async () => {
    // What a failed test has left running: once its record is gone nobody finds it.
    const left = globSync("zae-limiter/local-*.json", { cwd: folder });
    if (left.length > 0) await zaeLimiter(["local", "down"], { ...env, PATH: `${folder}:${process.env.PATH}` });
    rmSync(folder, { recursive: true, force: true });
  });
  return { folder, env };
}

/** A port that nobody listens at now. */
async function freePort(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return String(port);
}

/** Runs a command in this process, which has its environment meanwhile: state and programs are looked for in that. */
async function localHere(args: readonly string[], env: Readonly<Record<string, string>>): Promise<RanHere> {
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    return await here(args, { env });
  } finally {
    process.env = before;
  }
}

test("local env needs no engine, and shells understand it", async (t) => {
  const { env } = ownState(t);
  const { code, stdout, stderr } = await localHere(["local", "env"], env);
  assert.deepEqual([code, stderr], [0, ""]);
  const shown = execFileSync("sh", ["-c", `${stdout}\necho $AWS_ENDPOINT_URL_DYNAMODB $AWS_REGION $AWS_ACCESS_KEY_ID`]);
  assert.equal(`${shown}`, "http://127.0.0.1:8000 us-east-1 local\n");
  const direnv = await localHere(["local", "env", "--port", "8001", "--format", "direnv"], env);
  assert.match(direnv.stdout, /^export AWS_ENDPOINT_URL_DYNAMODB=http:\/\/127\.0\.0\.1:8001$/m);
  const powershell = await localHere(["local", "env", "--format", "powershell"], env);
  assert.match(powershell.stdout, /^\$env:AWS_SECRET_ACCESS_KEY = 'local'$/m);
});

test("what cannot be meant is told, and starts nothing", async (t) => {
  const { env } = ownState(t);
  for (const [args, message] of [
    [["local", "up", "--port", "http"], /give a number from 1 to 65535/],
    [["local", "up", "--engine", "podman"], /give java or docker/],
    [["local", "env", "--format", "fish"], /give eval, direnv or powershell/],
    [["local", "logs", "--tail", "some"], /give a whole number of lines/],
  ] as const) {
    const { code, stdout, stderr } = await localHere(args, env);
    assert.deepEqual([code, stdout], [2, ""], stderr);
    assert.match(stderr, message);
  }
  const status = await localHere(["local", "status", "--json"], env);
  assert.equal(status.code, 1);
  assert.equal(JSON.parse(status.stdout).running, false);
  assert.equal((await localHere(["local", "down"], env)).code, 0);
  assert.equal((await localHere(["local", "logs"], env)).code, 4);
});

test("without Java and Docker it says what to install", async (t) => {
  const { folder, env } = ownState(t);
  const bare = { ...env, PATH: folder, XDG_CACHE_HOME: folder };
  const { code, stdout, stderr } = await localHere(["local", "up", "--port", await freePort(), "--json"], bare);
  assert.deepEqual([code, stdout], [3, ""]);
  const { error } = JSON.parse(stderr);
  assert.equal(error.code, "engine_missing");
  assert.match(error.message, /there is no Java; there is no Docker\. Install Java 17 or later and Maven.* or Docker/);
  const docker = await localHere(["local", "up", "--port", await freePort(), "--engine", "docker"], bare);
  assert.equal(docker.code, 3);
  assert.match(docker.stderr, /there is no Docker\. Install Docker and start it\./);
});

test("a port where another program answers is left to it", async (t) => {
  const { env } = ownState(t);
  const server = createServer((_, answer) => answer.end("hello")).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  t.after(() => server.close());
  const port = String((server.address() as AddressInfo).port);
  const { code, stderr } = await localHere(["local", "up", "--port", port, "--json"], env);
  assert.equal(code, 1, stderr);
  assert.equal(JSON.parse(stderr).error.code, "port_taken");
});

test("local logs shows the end of the log, and goes on with it until Ctrl-C", async (t) => {
  const { folder, env } = ownState(t);
  const log = join(folder, "zae-limiter", "local-8000.log");
  mkdirSync(join(folder, "zae-limiter"));
  writeFileSync(log, "one\ntwo\nthree\n");
  const shown = async (...args: string[]) => (await localHere(["local", "logs", ...args], env)).stdout;
  assert.equal(await shown(), "one\ntwo\nthree\n");
  assert.equal(await shown("--tail", "2"), "two\nthree\n");
  assert.equal(await shown("--tail", "9"), "one\ntwo\nthree\n");
  assert.equal(await shown("--tail", "0"), "");
  const following = started(["local", "logs", "-f", "--tail", "1"], env);
  const said = async (text: string) => {
    while (!following.said.stdout.includes(text)) {
      await new Promise((resolve) => following.child.stdout.once("data", resolve));
    }
  };
  await said("three\n");
  writeFileSync(log, "four\n", { flag: "a" });
  await said("four\n");
  following.child.kill("SIGINT");
  assert.deepEqual(await following.ended, { code: 0, stdout: "three\nfour\n", stderr: "" });
});

/** Stands in for `docker`: notes what it is asked, and lets something that answers like DynamoDB run meanwhile. */
const DOCKER = (folder: string, server: string) => `#!/bin/sh
echo "$@" >> "${folder}/calls"
case "$1" in
  version) echo 28 ;;
  inspect) [ -e "${folder}/pid" ] && echo true ;;
  logs) echo "from the container" ;;
  run) "${process.execPath}" "${server}" "$PORT" > /dev/null 2>&1 & echo $! > "${folder}/pid" ;;
  rm) [ -e "${folder}/pid" ] && kill "$(cat "${folder}/pid")" && /bin/rm "${folder}/pid" ;;
esac
`;

test("with Docker it runs the image of the same version, at this machine's own address alone", async (t) => {
  const { folder, env } = ownState(t);
  const server = join(folder, "server.mjs");
  writeFileSync(
    server,
    'import { createServer } from "node:http";\n' +
      'createServer((_, answer) => answer.end(\'{"TableNames":[]}\')).listen(Number(process.argv[2]), "127.0.0.1");\n',
  );
  writeFileSync(join(folder, "docker"), DOCKER(folder, server));
  chmodSync(join(folder, "docker"), 0o755);
  const port = await freePort();
  const own = { ...env, PATH: `${folder}:/bin:/usr/bin`, PORT: port };
  const data = join(folder, "tables");
  const up = await zaeLimiter(["local", "up", "--port", port, "--engine", "docker", "--data", data, "--json"], own);
  assert.deepEqual([up.code, up.stderr], [0, ""]);
  const log = join(folder, "zae-limiter", `local-${port}.log`);
  const endpoint = `http://127.0.0.1:${port}`;
  assert.deepEqual(JSON.parse(up.stdout), { running: true, endpoint, engine: "docker", data, log });
  assert.equal((await zaeLimiter(["local", "status"], own)).code, 0);
  assert.match(readFileSync(log, "utf8"), /from the container/);
  const down = await zaeLimiter(["local", "down", "--json"], own);
  assert.deepEqual(JSON.parse(down.stdout), { running: false, endpoint, log });
  const calls = readFileSync(join(folder, "calls"), "utf8").split("\n");
  const name = `zae-limiter-local-${port}`;
  assert.deepEqual(
    calls.filter((call) => call.startsWith("run")),
    [
      `run --detach --name ${name} --publish 127.0.0.1:${port}:8000 --volume ${data}:/data --user root ` +
        "amazon/dynamodb-local:3.1.0 -jar DynamoDBLocal.jar -dbPath /data -sharedDb",
    ],
  );
  assert.ok(calls.includes(`logs --follow ${name}`));
  assert.equal(calls.filter((call) => call === `rm --force ${name}`).length, 2);
});

await describeDynamo("zae-limiter local", () => {
  const { ZAEL_TEST_ENDPOINT, ZAEL_TEST_ENGINE } = process.env;

  deepTest(
    "up starts it once with a runner that sweeps its tables, down ends both, and --data keeps the tables",
    async (t) => {
      if (ZAEL_TEST_ENDPOINT && ZAEL_TEST_ENGINE !== "local") return t.skip("the endpoint was given, not started here");
      const { folder, env } = ownState(t);
      const port = await freePort();
      const up = ["local", "up", "--port", port, "--data", join(folder, "tables"), "--engine", "java", "--json"];
      const first = await zaeLimiter(up, env);
      assert.deepEqual([first.code, first.stderr], [0, ""]);
      const status = JSON.parse(first.stdout);
      assert.deepEqual([status.running, status.engine, status.endpoint], [true, "java", `http://127.0.0.1:${port}`]);
      await createTable({ stack: "kept", endpoint: status.endpoint, ...LOCAL_ACCESS });
      assert.deepEqual(JSON.parse((await zaeLimiter(up, env)).stdout), status);
      assert.deepEqual(JSON.parse((await zaeLimiter(["local", "status", "--json"], env)).stdout), status);
      assert.match((await zaeLimiter(["local", "env"], env)).stdout, new RegExp(`:${port}$`, "m"));
      assert.match((await zaeLimiter(["local", "logs"], env)).stdout, /^--- java$/m);
      const logs = started(["local", "logs", "-f"], env);
      while (!/^kept .*"swept"/m.test(logs.said.stdout)) {
        await new Promise((resolve) => logs.child.stdout.once("data", resolve));
      }
      logs.child.kill("SIGINT");
      assert.equal((await logs.ended).code, 0);
      const runner = JSON.parse(readFileSync(join(folder, "zae-limiter", `local-${port}.json`), "utf8")).runner.pid;
      const down = await zaeLimiter(["local", "down", "--json"], env);
      assert.deepEqual(JSON.parse(down.stdout), { running: false, endpoint: status.endpoint, log: status.log });
      await assert.rejects(tablesAt(status.endpoint));
      for (const pid of [status.pid, runner]) assert.ok(!isRunning({ pid, startMark: startMarkOf(pid) }));
      assert.equal((await zaeLimiter(["local", "status"], env)).code, 1);
      assert.equal((await zaeLimiter(up, env)).code, 0);
      assert.deepEqual(await tablesAt(status.endpoint), ["kept"]);
    },
  );
});
