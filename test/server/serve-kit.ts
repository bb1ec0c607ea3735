import { once } from "node:events";
import type { TestContext } from "node:test";
import { started } from "../cli/run-bin.ts";
import { clientOf } from "./service-kit.ts";

/** `zae-limiter serve` as a process of its own, once it listens; ended with its test. */
export async function serving(t: TestContext, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { child, ended, said } = started(["serve", "--port", "0", "--json", ...args], env);
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  while (!said.stdout.includes("\n")) {
    const { code } = child as { code?: number };
    if (code !== undefined || child.exitCode !== null) throw new Error(`It ended: ${said.stderr}`);
    await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
  }
  const line = JSON.parse(said.stdout.split("\n")[0] ?? "") as { url: string; port: number; pid: number };
  return { line, child, ended, said, call: clientOf(line.url) };
}
