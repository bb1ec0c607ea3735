import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { keptFolder, keptPath } from "./kept-folder.ts";
import { DYNAMODB_LOCAL_VERSION, POM } from "./pom.ts";

const NAME = `dynamodb-local-${DYNAMODB_LOCAL_VERSION}`;
const FETCH_TIMEOUT_MS = 10 * 60_000;

/** Whether nothing needs to be fetched any more. */
export function isFetched(): boolean {
  return existsSync(keptPath(NAME));
}

/** The folder with DynamoDB Local and all it needs; fetched with Maven the first time. `beforeFetch` is told when that begins. */
export function fetchedDynamodbLocal(beforeFetch: () => void): Promise<string> {
  return keptFolder(NAME, async (folder) => {
    beforeFetch();
    const pom = join(folder, "pom.xml");
    writeFileSync(pom, POM);
    await maven(pom, ["dependency:copy-dependencies", "-DincludeScope=runtime", `-DoutputDirectory=${folder}`]);
  });
}

function maven(pom: string, args: readonly string[]): Promise<void> {
  const child = spawn("mvn", ["--batch-mode", "--quiet", "--file", pom, ...args], {
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
      else reject(new Error(`\`mvn\` could not download DynamoDB Local (exit code ${code}): ${firstError(said)}`));
    });
  });
}

function firstError(said: string): string {
  return said.split("\n").find((line) => line.includes("ERROR")) ?? (said.trim() || "no output");
}
