import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Background } from "./background.ts";

/** What is kept of an engine that was started, so that other processes find it. */
export interface EngineRecord {
  readonly port: number;
  /** The folder of its tables; undefined: all in memory. */
  readonly data?: string | undefined;
  readonly engine: "java" | "docker";
  /** The engine itself; of a container, what copies its log. */
  readonly process: Background;
  /** What sweeps the tables; undefined when it did not start. */
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
