import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { takesNoArguments } from "./script.ts";

takesNoArguments("npm run check   types of the project and of the dashboard, and lint, at the same time\n");

const CHECKS = [
  ["tsc", "-p", "tsconfig.json"],
  ["tsc", "-p", "src/dashboard/tsconfig.json"],
  ["biome", "check"],
] as const;

const cwd = fileURLToPath(new URL("..", import.meta.url));

/** Runs one check to its end and then prints what it said, so that texts of several do not mix. */
async function ended([command, ...args]: readonly [string, ...string[]]): Promise<number> {
  const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (said += text));
  const code = await new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (exitCode) => resolve(exitCode ?? 1));
  });
  process.stdout.write(said);
  return code;
}

// `tsc` uses one core: two of them and the linter take half the time beside each other.
const codes = await Promise.all(CHECKS.map(ended));
process.exitCode = Math.max(...codes);
