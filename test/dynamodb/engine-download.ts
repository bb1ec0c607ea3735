import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** The folder with DynamoDB Local and all it needs; fetched the first time, kept outside of the repository. */
export async function fetchedEngine(): Promise<string> {
  const folder = join(cacheFolder(), `dynamodb-local-${pinnedVersion()}`);
  if (existsSync(folder)) return folder;
  mkdirSync(cacheFolder(), { recursive: true });
  const unlock = await locked(`${folder}.lock`);
  try {
    // Another test file may have fetched it meanwhile.
    if (!existsSync(folder)) await fetchInto(folder);
  } finally {
    unlock();
  }
  return folder;
}

const POM = fileURLToPath(new URL("pom.xml", import.meta.url));
const FETCH_TIMEOUT_MS = 10 * 60_000;
const LOCK_POLL_MS = 250;
/** A lock whose owner has not yet written its name is younger than this. */
const LOCK_BIRTH_MS = 5_000;

/** Where what is fetched is kept, for this and other checkouts. */
export function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "zae-limiter");
}

function pinnedVersion(): string {
  const [, version] = /<artifactId>DynamoDBLocal<\/artifactId>\s*<version>([^<]+)<\/version>/.exec(pom()) ?? [];
  if (version === undefined) throw new Error(`${POM} does not name a version of DynamoDBLocal; pin one.`);
  return version;
}

function pom(): string {
  return readFileSync(POM, "utf8");
}

// It appears under its name only when it is whole.
async function fetchInto(folder: string): Promise<void> {
  const part = `${folder}.part-${process.pid}`;
  rmSync(part, { recursive: true, force: true });
  process.stderr.write("Fetching DynamoDB Local for the tests (48 MB, once; a minute or two) ...\n");
  try {
    mkdirSync(part);
    await maven(["dependency:copy-dependencies", "-DincludeScope=runtime", `-DoutputDirectory=${part}`]);
    renameSync(part, folder);
  } finally {
    rmSync(part, { recursive: true, force: true });
  }
}

function maven(args: readonly string[]): Promise<void> {
  const child = spawn("mvn", ["--batch-mode", "--quiet", "--file", POM, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  const listen = (chunk: Buffer) => {
    said = `${said}${chunk}`.slice(-2_000);
  };
  child.stdout.on("data", listen);
  child.stderr.on("data", listen);
  const stop = () => child.kill("SIGKILL");
  process.once("exit", stop);
  // Not spawn's own: that one keeps a process waiting for a child that never started.
  const timer = setTimeout(stop, FETCH_TIMEOUT_MS);
  return new Promise((resolve, reject) => {
    const ended = () => {
      clearTimeout(timer);
      process.off("exit", stop);
    };
    child.once("error", (cause) => {
      ended();
      reject(new Error(`\`mvn\` does not start (${cause.message}); install Maven and Java 17.`, { cause }));
    });
    child.once("close", (code) => {
      ended();
      if (code === 0) resolve();
      else reject(new Error(`\`mvn\` could not fetch DynamoDB Local (it ended with ${code}): ${firstError(said)}`));
    });
  });
}

function firstError(said: string): string {
  return said.split("\n").find((line) => line.includes("ERROR")) ?? (said.trim() || "it said nothing");
}

/** One process at a time. A lock whose owner is gone counts for nothing. */
async function locked(path: string): Promise<() => void> {
  for (;;) {
    try {
      mkdirSync(path);
      writeFileSync(join(path, "pid"), String(process.pid));
      const release = () => rmSync(path, { recursive: true, force: true });
      process.once("exit", release);
      return () => {
        process.off("exit", release);
        release();
      };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (isDead(path)) {
      // Only one of those who see it dead gets to move it away.
      const grave = `${path}-${process.pid}`;
      try {
        renameSync(path, grave);
        rmSync(grave, { recursive: true, force: true });
      } catch {
        // Another was faster.
      }
    } else await sleep(LOCK_POLL_MS);
  }
}

function isDead(path: string): boolean {
  try {
    const file = join(path, "pid");
    if (!existsSync(file)) return existsSync(path) && statSync(path).mtimeMs < Date.now() - LOCK_BIRTH_MS;
    process.kill(Number(readFileSync(file, "utf8")), 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}
