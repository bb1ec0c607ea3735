import { spawn } from "node:child_process";
import { LimiterError } from "../domain/names/errors.ts";
import { isFetched } from "./fetch-engine.ts";

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
