import { execFileSync, spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { takesNoArguments } from "./script.ts";

takesNoArguments(`npm run image-steps      runs the steps of the Dockerfile in an empty folder, without a container engine; then starts the service as
                         its entry point does, asks it as its health check does, and ends it as an engine does
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

/** The stores of the recipes in the guide, beside SQLite; nothing answers at these addresses. */
const GUIDE_STORES: readonly Readonly<Record<string, string>>[] = [
  { ZAEL_STORE: "dynamodb:limits", AWS_REGION: "eu-central-1", AWS_ENDPOINT_URL_DYNAMODB: "http://127.0.0.1:9" },
  { ZAEL_STORE: "postgres", DATABASE_URL: "postgres://limiter@127.0.0.1:9/app" },
];

/** The service has to look for its store, with the packages that the image has. */
function tried(store: Readonly<Record<string, string>>, [node = "", ...rest]: readonly string[], env: object): void {
  const keys = { AWS_ACCESS_KEY_ID: "x", AWS_SECRET_ACCESS_KEY: "x", ZAEL_TIMEOUT: "3s" };
  const { status, stderr } = spawnSync(node, rest, { env: { ...env, ...keys, ...store } as never, encoding: "utf8" });
  console.log(`${store.ZAEL_STORE}: ${stderr.trim()}`);
  if (status !== 3 || /not installed|needs the package/.test(stderr)) {
    throw new Error(`With ${store.ZAEL_STORE} the image ends with ${status}.`);
  }
}

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
  const [node = "", main = "", ...args] = state.entry.map(placed);
  const tokens = state.env.ZAEL_TOKEN_FILE ?? "";
  const env = {
    ...process.env,
    ...state.env,
    ZAEL_STORE: `sqlite:${inside("/var/lib/zae-limiter/limiter.db")}`,
    ZAEL_HOST: "127.0.0.1",
  };
  execFileSync(node, [main, "token", "add", tokens, "--id", "ops", "--namespaces", "*", "--scopes", "read"], {
    env,
    stdio: "ignore",
  });
  const child = spawn(node, [main, ...args, "--json"], { env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const first = await new Promise<string>((resolve) => child.stdout.once("data", (chunk) => resolve(String(chunk))));
  console.log(first.trim());
  const [health = "", ...check] = state.health;
  execFileSync(health, check, { env, stdio: "inherit" });
  child.kill("SIGTERM");
  const code = await ended;
  if (code !== 0) throw new Error(`The service ended with ${code} after SIGTERM.`);
  for (const store of GUIDE_STORES) tried(store, [node, main, ...args], env);
  console.log("The steps of the Dockerfile make a service that answers its health check and ends with 0.");
} finally {
  rmSync(folder, { recursive: true, force: true });
}
