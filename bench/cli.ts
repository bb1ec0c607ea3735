import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const MAIN = join(ROOT, "dist/cli/main.js");
const ROUNDS = 15;

/** How long a command takes from the prompt to the prompt, against Node itself that opens the file and ends. */
export async function benchCli(): Promise<{ title: string; rows: object[] }[]> {
  if (!existsSync(MAIN)) execFileSync(process.execPath, [join(ROOT, "scripts/build.ts")], { stdio: "inherit" });
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-bench-"));
  const store = ["--store", `sqlite:${join(folder, "limiter.db")}`];
  const run = (args: readonly string[]) => {
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`${args.join(" ")}: ${stderr}`);
  };
  run([MAIN, "init", ...store]);
  run([MAIN, "entity", "create", "key-1", ...store]);
  const open =
    `const { DatabaseSync } = require("node:sqlite"); const d = new DatabaseSync(${JSON.stringify(join(folder, "limiter.db"))});` +
    'd.prepare("SELECT * FROM entity").all(); d.close()';
  const ways = {
    "node -e 0": ["-e", "0"],
    "node that opens the file": ["-e", open],
    "entity show": [MAIN, "entity", "show", "key-1", ...store],
    "entity show --json": [MAIN, "entity", "show", "key-1", "--json", ...store],
    "entity list": [MAIN, "entity", "list", ...store],
    "--help": [MAIN, "--help"],
  };
  const bestMs = new Map<string, number>();
  // Turn by turn, so that a busy moment of the machine meets all of them.
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, args] of Object.entries(ways)) {
      const beganMs = performance.now();
      run(args);
      bestMs.set(name, Math.min(bestMs.get(name) ?? Number.POSITIVE_INFINITY, performance.now() - beganMs));
    }
  }
  rmSync(folder, { recursive: true, force: true });
  const baseMs = bestMs.get("node that opens the file") ?? Number.NaN;
  const rows = Array.from(bestMs, ([name, ms]) => ({
    name,
    ms: Math.round(ms),
    ratio: Math.round((ms / baseMs) * 100) / 100,
  }));
  return [{ title: `the command line, built, best of ${ROUNDS} (ratio: to Node that opens the file)`, rows }];
}
