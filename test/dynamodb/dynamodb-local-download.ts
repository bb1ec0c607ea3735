import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { keptFolder } from "../kept-folder.ts";

/** The folder with DynamoDB Local and all it needs; fetched the first time, kept outside of the repository. */
export function fetchedDynamodbLocal(): Promise<string> {
  return keptFolder(`dynamodb-local-${pinnedVersion()}`, async (folder) => {
    process.stderr.write("Fetching DynamoDB Local for the tests (48 MB, once; a minute or two) ...\n");
    await maven(["dependency:copy-dependencies", "-DincludeScope=runtime", `-DoutputDirectory=${folder}`]);
  });
}

const POM = fileURLToPath(new URL("pom.xml", import.meta.url));
const FETCH_TIMEOUT_MS = 10 * 60_000;

function pinnedVersion(): string {
  const [, version] = /<artifactId>DynamoDBLocal<\/artifactId>\s*<version>([^<]+)<\/version>/.exec(pom()) ?? [];
  if (version === undefined) throw new Error(`${POM} does not name a version of DynamoDBLocal; pin one.`);
  return version;
}

function pom(): string {
  return readFileSync(POM, "utf8");
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
