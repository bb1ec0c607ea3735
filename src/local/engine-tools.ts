import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LimiterError } from "../domain/names/errors.ts";
import { keptFolder, keptPath } from "./kept-folder.ts";

/** The DynamoDB Local that is run. */
const DYNAMODB_LOCAL_VERSION = "3.1.0";

/** The project that Maven fetches. It stands here as text, so that it is part of the built package without a file of its own. */
const POM = `<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>zae-limiter</groupId>
  <artifactId>local-engine</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>software.amazon.dynamodb</groupId>
      <artifactId>DynamoDBLocal</artifactId>
      <version>${DYNAMODB_LOCAL_VERSION}</version>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <version>3.8.1</version>
      </plugin>
    </plugins>
  </build>
</project>
`;

const NAME = `dynamodb-local-${DYNAMODB_LOCAL_VERSION}`;
const FETCH_TIMEOUT_MS = 10 * 60_000;

/** True once nothing needs to be fetched. */
function isFetched(): boolean {
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

interface ToolAnswer {
  readonly isDone: boolean;
  /** Both of its outputs. */
  readonly said: string;
}

/** Runs a program to its end. */
export function ranTool(program: string, args: readonly string[]): Promise<ToolAnswer> {
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (said += chunk));
    child.once("error", (error) => resolve({ isDone: false, said: error.message }));
    child.once("close", (code) => resolve({ isDone: code === 0, said: said.trim() }));
  });
}

/** The engine to start: the one that is asked for, else Java, else Docker; refused where it cannot be started. */
export async function chosenEngine(asked: "java" | "docker" | undefined): Promise<"java" | "docker"> {
  const lacks: string[] = [];
  for (const engine of asked === undefined ? (["java", "docker"] as const) : [asked]) {
    const lack = engine === "java" ? await lackOfJava() : await lackOfDocker();
    if (lack === undefined) return engine;
    lacks.push(lack);
  }
  const remedy = {
    java: "Install Java 17 or later and Maven, which is needed once",
    docker: "Install Docker and start it",
    either: "Install Java 17 or later and Maven, which is needed once, or Docker",
  }[asked ?? "either"];
  throw new LimiterError("engine_missing", `DynamoDB Local cannot be started: ${lacks.join("; ")}. ${remedy}.`);
}

async function lackOfJava(): Promise<string | undefined> {
  const java = await ranTool("java", ["-version"]);
  if (!java.isDone) return "there is no Java";
  const [, major = "17"] = /version "(\d+)/.exec(java.said) ?? [];
  if (Number(major) < 17) return `Java is ${major}, and it needs 17`;
  if (isFetched() || (await ranTool("mvn", ["--version"])).isDone) return undefined;
  return "there is Java, but no Maven to download it with";
}

async function lackOfDocker(): Promise<string | undefined> {
  const docker = await ranTool("docker", ["version", "--format", "{{.Server.Version}}"]);
  if (docker.isDone) return undefined;
  return /ENOENT/.test(docker.said) ? "there is no Docker" : "Docker is installed, but not running";
}

interface DockerEngine {
  readonly port: number;
  /** The folder of its tables; undefined: all in memory. */
  readonly data: string | undefined;
}

/** The port of DynamoDB Local within its container. */
const INNER_PORT = 8000;

/** The name of the container at a port: by it the engine is found again and ended. */
export function containerName(port: number): string {
  return `zae-limiter-local-${port}`;
}

/** The arguments of `docker` that run DynamoDB Local at a port of this machine alone. */
export function dockerRunArguments({ port, data }: DockerEngine): readonly string[] {
  // Root can write to a folder of this machine whoever owns it.
  const volume = data === undefined ? [] : ["--volume", `${data}:/data`, "--user", "root"];
  const tables = data === undefined ? ["-inMemory"] : ["-dbPath", "/data"];
  return [
    ...["run", "--detach", "--name", containerName(port), "--publish", `127.0.0.1:${port}:${INNER_PORT}`, ...volume],
    ...[`amazon/dynamodb-local:${DYNAMODB_LOCAL_VERSION}`, "-jar", "DynamoDBLocal.jar", ...tables, "-sharedDb"],
  ];
}

interface JavaEngine {
  /** The folder with its jars. */
  readonly folder: string;
  readonly port: number;
  /** The folder of its tables; undefined: all in memory. */
  readonly data: string | undefined;
}

/** It says nothing to its makers about its use. */
export const JAVA_ENGINE_ENV = { DDB_LOCAL_TELEMETRY: "0" } as const;

/** The command with its arguments that runs DynamoDB Local at a port. All credentials see the same tables. */
export function javaEngineCommand({ folder, port, data }: JavaEngine): readonly [string, ...string[]] {
  const tables = data === undefined ? ["-inMemory"] : ["-dbPath", data];
  return [
    ...(["java", "-Xmx512m", "-XX:+UseSerialGC", `-Djava.library.path=${folder}`, "-cp", join(folder, "*")] as const),
    ...["software.amazon.dynamodb.services.local.main.ServerRunner", ...tables, "-sharedDb", "-port", String(port)],
  ];
}
