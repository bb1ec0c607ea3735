import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ConflictError, LimiterError } from "../domain/names/errors.ts";
import { type Background, endBackground, isRunning, siblingModule, startBackground } from "./background.ts";
import {
  answering,
  type EngineRecord,
  endpointOf,
  logFile,
  makeStateFolder,
  readRecord,
  removeRecord,
  stateFolder,
  writeRecord,
} from "./engine-record.ts";
import {
  chosenEngine,
  containerName,
  dockerRunArguments,
  fetchedDynamodbLocal,
  JAVA_ENGINE_ENV,
  javaEngineCommand,
  ranTool,
} from "./engine-tools.ts";
import { locked } from "./kept-folder.ts";

/** The state of an engine as it is shown. */
export interface EngineStatus {
  readonly running: boolean;
  readonly endpoint: string;
  readonly engine?: "java" | "docker";
  /** The process of Java. */
  readonly pid?: number;
  /** The folder of its tables; absent: all in memory. */
  readonly data?: string;
  readonly log: string;
}

interface EngineOptions {
  readonly port: number;
  /** Undefined: Java if it is there, else Docker. */
  readonly engine: "java" | "docker" | undefined;
  /** The folder of its tables; undefined: all in memory. */
  readonly data: string | undefined;
  /** Takes a sentence about what takes long. */
  readonly say: (sentence: string) => void;
  readonly signal: AbortSignal;
}

/** Starts DynamoDB Local and its runner in the background, unless they run; resolves when it answers. */
export async function engineUp(options: EngineOptions): Promise<EngineStatus & { readonly started: boolean }> {
  const { port } = options;
  makeStateFolder();
  const unlock = await locked(join(stateFolder(), `local-${port}.lock`));
  try {
    const found = readRecord(port);
    if (found !== undefined && (await isUp(found))) return { ...statusOf(found), started: false };
    // An engine that ended on its own may have left its runner, or its container.
    if (found !== undefined) await end(found);
    const there = await answering(endpointOf(port));
    if (there !== "nobody") {
      const what = there === "dynamodb" ? "A DynamoDB that `local up` did not start" : "Another program";
      throw new ConflictError(
        "port_taken",
        `${what} is listening at ${endpointOf(port)}; stop it, or give another --port.`,
      );
    }
    return { ...statusOf(await start(options)), started: true };
  } finally {
    unlock();
  }
}

/** Ends it with its runner, if it runs. */
export async function engineDown(port: number): Promise<EngineStatus & { readonly ended: boolean }> {
  const record = readRecord(port);
  if (record !== undefined) await end(record);
  return { ...NOT_RUNNING(port), ended: record !== undefined };
}

export async function engineStatus(port: number): Promise<EngineStatus> {
  const record = readRecord(port);
  return record !== undefined && (await isUp(record)) ? statusOf(record) : NOT_RUNNING(port);
}

const NOT_RUNNING = (port: number) => ({ running: false, endpoint: endpointOf(port), log: logFile(port) });

function statusOf({ port, engine, data, process }: EngineRecord): EngineStatus {
  return {
    ...{ running: true, endpoint: endpointOf(port), engine },
    ...(engine === "java" ? { pid: process.pid } : {}),
    ...(data === undefined ? {} : { data }),
    log: logFile(port),
  };
}

async function isUp(record: EngineRecord): Promise<boolean> {
  const { port, engine } = record;
  if (engine === "java" && !isRunning(record.process)) return false;
  if (engine === "docker" && !(await isContainerRunning(port))) return false;
  return (await answering(endpointOf(port))) === "dynamodb";
}

async function isContainerRunning(port: number): Promise<boolean> {
  const { isDone, said } = await ranTool("docker", ["inspect", "--format", "{{.State.Running}}", containerName(port)]);
  return isDone && said === "true";
}

async function start({ port, engine: asked, data: folder, say, signal }: EngineOptions): Promise<EngineRecord> {
  const engine = await chosenEngine(asked);
  const data = folder === undefined ? undefined : resolve(folder);
  if (data !== undefined) mkdirSync(data, { recursive: true });
  const log = logFile(port);
  writeFileSync(log, "");
  const process =
    engine === "java" ? await startJava({ port, data, log, say }) : await startDocker({ port, data, log });
  const record: EngineRecord = { port, data, engine, process };
  // Before it is waited for: should this process be killed meanwhile, `local down` still finds the engine.
  writeRecord(record);
  try {
    await answered(record, signal);
  } catch (error) {
    await end(record);
    throw error;
  }
  const whole = { ...record, runner: await startRunner(record) };
  writeRecord(whole);
  return whole;
}

interface Start {
  readonly port: number;
  readonly data: string | undefined;
  readonly log: string;
}

async function startJava({ port, data, log, say }: Start & Pick<EngineOptions, "say">): Promise<Background> {
  const folder = await fetchedDynamodbLocal(() =>
    say("Downloading DynamoDB Local (48 MB, once; a minute or two) ..."),
  ).catch((cause: Error) => {
    throw new LimiterError("engine_missing", cause.message, { cause });
  });
  return startBackground({ command: javaEngineCommand({ folder, port, data }), env: JAVA_ENGINE_ENV, log });
}

async function startDocker({ port, data, log }: Start): Promise<Background> {
  // One that ended on its own still has the name.
  await ranTool("docker", ["rm", "--force", containerName(port)]);
  const { isDone, said } = await ranTool("docker", dockerRunArguments({ port, data }));
  if (!isDone) throw new LimiterError("engine_failed", `Docker cannot run DynamoDB Local: ${said}`);
  return startBackground({ command: ["docker", "logs", "--follow", containerName(port)], env: {}, log });
}

/** It sweeps every table there, as the Lambda of a stack would. */
function startRunner({ port, engine, process: { pid } }: EngineRecord): Promise<Background> {
  const watched = engine === "java" ? [String(pid)] : [];
  const command = [process.execPath, siblingModule("runner-process", import.meta.url), endpointOf(port), ...watched];
  return startBackground({ command: command as [string, ...string[]], env: {}, log: logFile(port) });
}

const START_TIMEOUT_MS = 120_000;
const POLL_MS = 100;

async function answered(record: EngineRecord, signal: AbortSignal): Promise<void> {
  const { port, engine } = record;
  for (let waitedMs = 0; waitedMs < START_TIMEOUT_MS; waitedMs += POLL_MS) {
    signal.throwIfAborted();
    if ((await answering(endpointOf(port))) === "dynamodb") return;
    const isThere = engine === "java" ? isRunning(record.process) : await isContainerRunning(port);
    if (!isThere) throw new LimiterError("engine_failed", `DynamoDB Local stopped at once: ${lastLines(port)}`);
    await sleep(POLL_MS);
  }
  throw new LimiterError("engine_failed", `DynamoDB Local does not respond at ${endpointOf(port)}: ${lastLines(port)}`);
}

function lastLines(port: number): string {
  const lines = readFileSync(logFile(port), "utf8").trim().split("\n").slice(-3);
  return `${lines.join(" / ").slice(-500)} (full log: ${logFile(port)})`;
}

async function end({ port, engine, process, runner }: EngineRecord): Promise<void> {
  if (runner !== undefined) await endBackground(runner);
  if (engine === "docker") await ranTool("docker", ["rm", "--force", containerName(port)]);
  await endBackground(process);
  removeRecord(port);
}
