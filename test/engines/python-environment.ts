import { spawn } from "node:child_process";
import { join } from "node:path";
import { keptFolder } from "../../src/local/kept-folder.ts";

interface PythonEnvironment {
  /** The folder in the user's cache; it says which versions are in it. */
  readonly name: string;
  /** For the sentence that says what is being fetched. */
  readonly what: string;
  /** Arguments of `pip install`. */
  readonly install: readonly string[];
}

/** A Python with packages; made the first time, kept outside of the repository. */
export async function pythonWith({ name, what, install }: PythonEnvironment): Promise<string> {
  const folder = await keptFolder(name, async (empty) => {
    process.stderr.write(`Fetching ${what} for the tests (once; a minute) ...\n`);
    await run("python3", ["-m", "venv", empty], "install Python 3.11 or later, with its venv module");
    const remedy = "look whether the package index can be reached";
    await run(pythonIn(empty), ["-m", "pip", "install", "--quiet", ...install], remedy);
  });
  return pythonIn(folder);
}

const TIMEOUT_MS = 5 * 60_000;

function pythonIn(folder: string): string {
  return join(folder, "bin", "python");
}

function run(command: string, args: readonly string[], remedy: string): Promise<void> {
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said = `${said}${chunk}`.slice(-2_000);
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
  return new Promise((resolve, reject) => {
    child.once("error", (cause) => {
      clearTimeout(timer);
      reject(new Error(`\`${command}\` does not start (${cause.message}); ${remedy}.`, { cause }));
    });
    child.once("close", (code) => {
      clearTimeout(timer);
      if (code === 0) resolve();
      else reject(new Error(`\`${command} ${args.join(" ")}\` ended with ${code}: ${said.trim()}; ${remedy}.`));
    });
  });
}
