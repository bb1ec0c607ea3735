import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

export const PLAIN = { AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" };

/** Where the tests keep code that is stripped of its types and compiled: each command starts in half the time. */
const { NODE_COMPILE_CACHE } = process.env;
export const COMPILED = NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `zae-limiter` as a shell would, with a plain environment. */
export function zaeLimiter(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ran> {
  return started(args, env).ended;
}

/** The same, to be ended by a signal. */
export function started(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env.PATH ?? "", ...COMPILED, ...PLAIN, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) child[name].on("data", (chunk) => (said[name] += chunk));
  const ended = new Promise<Ran>((resolve) => child.once("close", (code) => resolve({ code, ...said })));
  return { child, ended, said };
}
