import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Background } from "./background.ts";

/** The record of an engine that was started, by which other processes find it. */
export interface EngineRecord {
  readonly port: number;
  /** The folder of its tables; undefined: all in memory. */
  readonly data?: string | undefined;
  readonly engine: "java" | "docker";
  /** The engine itself; of a container, what copies its log. */
  readonly process: Background;
  /** The process that sweeps the tables; undefined when it did not start. */
  readonly runner?: Background | undefined;
}

/** The file that takes what the engine and its runner say. It stays when they have ended. */
export function logFile(port: number): string {
  return join(stateFolder(), `local-${port}.log`);
}

export function readRecord(port: number): EngineRecord | undefined {
  try {
    return JSON.parse(readFileSync(recordFile(port), "utf8")) as EngineRecord;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export function writeRecord(record: EngineRecord): void {
  const file = recordFile(record.port);
  // Readers see the old one or the new one.
  writeFileSync(`${file}.part`, JSON.stringify(record));
  renameSync(`${file}.part`, file);
}

export function removeRecord(port: number): void {
  rmSync(recordFile(port), { force: true });
}

/** Ports at which an engine was started and not ended, ascending. */
export function recordedPorts(): readonly number[] {
  return portsOf(/^local-(\d+)\.json$/);
}

/** Ports of which there is a log, ascending. */
export function loggedPorts(): readonly number[] {
  return portsOf(/^local-(\d+)\.log$/);
}

/** The folder of records and logs; made when it is first written to. */
export function stateFolder(): string {
  return join(process.env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "zae-limiter");
}

export function makeStateFolder(): void {
  mkdirSync(stateFolder(), { recursive: true });
}

function recordFile(port: number): string {
  return join(stateFolder(), `local-${port}.json`);
}

function portsOf(pattern: RegExp): readonly number[] {
  let names: readonly string[] = [];
  try {
    names = readdirSync(stateFolder());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  const found = names.map((name) => pattern.exec(name)?.[1]).filter((port) => port !== undefined);
  return found.map(Number).sort((a, b) => a - b);
}

/** Where an engine is reached. */
export function endpointOf(port: number): string {
  return `http://127.0.0.1:${port}`;
}

// DynamoDB Local wants somebody to have signed, whoever it was.
const AUTHORIZATION =
  "AWS4-HMAC-SHA256 Credential=local/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";

const ANSWER_TIMEOUT_MS = 10_000;

/** Names of all tables there; rejects where no DynamoDB answers. */
export async function tablesAt(endpoint: string): Promise<readonly string[]> {
  const names: string[] = [];
  for (let after: string | undefined, isMore = true; isMore; isMore = after !== undefined) {
    const response = await fetch(endpoint, {
      method: "POST",
      body: JSON.stringify(after === undefined ? {} : { ExclusiveStartTableName: after }),
      headers: {
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": "DynamoDB_20120810.ListTables",
        authorization: AUTHORIZATION,
      },
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const page = (await response.json()) as { TableNames?: string[]; LastEvaluatedTableName?: string };
    if (!response.ok || page.TableNames === undefined) throw new Error(`${endpoint} is not a DynamoDB`);
    names.push(...page.TableNames);
    after = page.LastEvaluatedTableName;
  }
  return names;
}

type Answering = "dynamodb" | "something else" | "nobody";

/** Asks who answers there. */
export async function answering(endpoint: string): Promise<Answering> {
  try {
    await tablesAt(endpoint);
    return "dynamodb";
  } catch {
    try {
      await (await fetch(endpoint, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })).arrayBuffer();
      return "something else";
    } catch {
      return "nobody";
    }
  }
}
