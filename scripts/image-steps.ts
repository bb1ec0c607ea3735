import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { dynamodbLocalOrReason } from "../test/dynamodb/dynamodb-local.ts";
import { postgresOrReason } from "../test/postgres/postgres.ts";
import { type Recipe, recipesOf } from "./deploying-recipes.ts";
import { takesNoArguments } from "./script.ts";

takesNoArguments(`npm run image-steps      runs the steps of the Dockerfile in an empty folder, without a container engine; then starts the service by
                         every recipe of docs/guide/deploying.md, on SQLite, DynamoDB Local and PostgreSQL, asks it as
                         probes and clients do, and ends it as an engine does
`);

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "zae-limiter-image-"));
const lines = readFileSync(join(root, "Dockerfile"), "utf8").split("\n");

/** A path of the image, in the folder. */
const inside = (path: string) => join(folder, path);
/** What a command says of paths of the image, in the folder. */
const placed = (text: string) => text.replaceAll(/(?<![\w.:/])\/(build|opt|var|etc)\b/g, `${folder}/$1`);

const state = { workdir: "/", env: {} as Record<string, string>, entry: [] as string[], health: [] as string[] };

function copied(words: readonly string[]): void {
  const from = words.find((word) => word.startsWith("--from="));
  const [source = "", target = ""] = words.filter((word) => !word.startsWith("--"));
  if (from === undefined) {
    const ignored = readFileSync(join(root, ".dockerignore"), "utf8")
      .split("\n")
      .filter((line) => line !== "" && !line.includes("*"));
    const isIgnored = (path: string) =>
      ignored.some((name) => path === join(root, name) || path.startsWith(join(root, name, "/")));
    cpSync(root, inside(state.workdir), { recursive: true, filter: (path) => !isIgnored(path) });
    return;
  }
  execFileSync("sh", ["-c", `cp ${placed(source)} ${inside(join(state.workdir, target))}`], { stdio: "inherit" });
}

function ran(command: string): void {
  // Users of the image are not there.
  const here = placed(command).replace(/ && chown \S+ \S+/, "");
  console.log(`RUN ${here}`);
  execFileSync("sh", ["-c", here], { cwd: inside(state.workdir), stdio: ["ignore", "inherit", "inherit"] });
}

/** The stores that the image has packages for: what the service is told of each. */
async function stores(): Promise<readonly Readonly<Record<string, string>>[]> {
  const [dynamodb, postgres] = await Promise.all([dynamodbLocalOrReason(), postgresOrReason()]);
  if (typeof dynamodb === "string") throw new Error(dynamodb);
  if (typeof postgres === "string") throw new Error(postgres);
  return [
    { ZAEL_STORE: `sqlite:${inside("/var/lib/zae-limiter/limiter.db")}` },
    {
      ...{ ZAEL_STORE: "dynamodb:limits", AWS_ENDPOINT_URL_DYNAMODB: dynamodb.endpoint, AWS_REGION: "eu-central-1" },
      ...{ AWS_ACCESS_KEY_ID: "x", AWS_SECRET_ACCESS_KEY: "x" },
    },
    { ZAEL_STORE: "postgres", DATABASE_URL: postgres.url },
  ];
}

type Env = Readonly<Record<string, string | undefined>>;

/** Starts the service as a recipe does, asks it as probes and clients do, and ends it as an engine does. */
async function tried(recipe: Recipe, { program, env, token }: { program: Program; env: Env; token: string }) {
  const [node, main] = program;
  const ports: Record<string, number> = { 4780: await freePort(), 9090: await freePort() };
  /** With ports that are free here in place of those of the guide. */
  const here = (text: string) => text.replaceAll(/\b(4780|9090)\b/g, (port) => String(ports[port]));
  const own = Object.entries(recipe.env).filter(([name]) => name !== "ZAEL_STORE");
  const told: Env = {
    ...{ ...env, ZAEL_PORT: String(ports[4780]) },
    ...Object.fromEntries(own.map(([name, value]) => [name, here(value)])),
  };
  const args = recipe.args.length === 0 ? state.entry.slice(2) : recipe.args.filter(isNoStore);
  const child = spawn(node, [main, ...args.map(placed), "--json"], {
    env: told as NodeJS.ProcessEnv,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const kill = () => child.kill();
  process.once("exit", kill);
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const first = await Promise.race([once(child.stdout, "data"), ended.then((code) => [`It ended with ${code}.`])]);
  const { store } = JSON.parse(String(first[0])) as { store: string };
  for (const [command = "", ...rest] of [state.health, recipe.health.map(here)]) {
    if (command !== "") execFileSync(command, rest, { env: told as NodeJS.ProcessEnv, stdio: "inherit" });
  }
  const [host = `localhost:${ports[4780]}`] = told.ZAEL_ALLOW_HOST?.split(",") ?? [];
  const authorization = `Bearer ${token}`;
  const asked = async (at: { port: number; path: string; host: string; body?: object; method?: string }) => {
    const answer = await answerOf({ ...at, port: ports[at.port] ?? at.port, authorization });
    if (answer > 299) throw new Error(`${recipe.name}, ${store}: ${at.path} is answered with ${answer}.`);
  };
  // Probes ask by an address.
  for (const probe of recipe.probes) await asked({ ...probe, host: "10.1.2.3" });
  if (told.ZAEL_METRICS_PORT !== undefined) await asked({ port: 9090, path: "/metrics", host: "10.1.2.3" });
  const defaults = { port: 4780, path: "/v1/namespaces/default/limits", host, method: "PUT" };
  await asked({ ...defaults, body: { limits: ["rpm:1000"] } });
  const take = { entityId: recipe.name.replaceAll(" ", "-"), resource: "api", consume: { rpm: 1 } };
  await asked({ port: 4780, path: "/v1/namespaces/default/acquire", host, method: "POST", body: take });
  child.kill("SIGTERM");
  const code = await ended;
  process.off("exit", kill);
  if (code !== 0) throw new Error(`${recipe.name}, ${store}: the service ended with ${code} after SIGTERM.`);
  console.log(`${recipe.name}, ${store}: healthy, took, ended with 0`);
}

/** The store is that which is tried. */
function isNoStore(word: string, i: number, words: readonly string[]): boolean {
  return word !== "--store" && words[i - 1] !== "--store";
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

interface Asking {
  readonly port: number;
  readonly path: string;
  readonly host: string;
  readonly authorization: string;
  readonly method?: string;
  readonly body?: object;
}

/** The status of an answer. */
function answerOf({ port, path, host, authorization, method = "GET", body }: Asking): Promise<number> {
  const headers = { host, authorization, "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port, path, method, headers, agent: false }, (answer) => {
      answer.resume().on("end", () => resolve(answer.statusCode ?? 0));
    });
    sent.on("error", reject).end(body === undefined ? undefined : JSON.stringify(body));
  });
}

type Program = readonly [node: string, main: string];

for (const line of lines) {
  const [instruction = "", ...words] = line.split(" ");
  const rest = words.join(" ");
  if (instruction === "WORKDIR") {
    state.workdir = rest;
    mkdirSync(inside(rest), { recursive: true });
  } else if (instruction === "COPY") copied(words);
  else if (instruction === "RUN") ran(rest);
  else if (instruction === "ENV")
    for (const pair of words) state.env[pair.split("=")[0] ?? ""] = placed(pair.slice(pair.indexOf("=") + 1));
  else if (instruction === "HEALTHCHECK") state.health = JSON.parse(rest.slice(rest.indexOf("CMD ") + 4)) as string[];
  else if (instruction === "ENTRYPOINT" || instruction === "CMD") state.entry.push(...(JSON.parse(rest) as string[]));
}

try {
  const [node = "", main = ""] = state.entry.map(placed);
  const program = [node, main] as const;
  const { AWS_PROFILE: _, ...mine } = process.env;
  const base = { ...mine, ...state.env, ZAEL_HOST: "127.0.0.1" };
  const tokenFile = state.env.ZAEL_TOKEN_FILE ?? "";
  const words = ["token", "add", tokenFile, "--id", "ops", "--namespaces", "*", "--scopes", "read,acquire,admin"];
  const added = execFileSync(node, [main, ...words, "--json"], { env: base, encoding: "utf8" });
  const { token } = JSON.parse(added) as { token: string };
  const recipes = recipesOf(readFileSync(join(root, "docs/guide/deploying.md"), "utf8"));
  for (const store of await stores()) {
    const env = { ...base, ...store };
    execFileSync(node, [main, "init", "--yes"], { env, stdio: "inherit" });
    for (const recipe of recipes) await tried(recipe, { program, env, token });
  }
  console.log("The steps of the Dockerfile make a service that every recipe of the guide starts, on every store.");
} finally {
  rmSync(folder, { recursive: true, force: true });
}
