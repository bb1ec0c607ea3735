import assert from "node:assert/strict";
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { here } from "../cli/in-process.ts";
import { importingFrom, plainEnvironment } from "./readme.ts";

// A tutorial is followed from top to bottom in an empty folder: files are saved, commands run, and each prints what the tutorial says.

const run = promisify(execFile);
const before = process.cwd();
const entryOf = (subpath: string) => new URL(`../../src/entry/${subpath}.ts`, import.meta.url).href;
const env = { ...plainEnvironment(), FORCE_COLOR: "0", PORT: "0" };

/** Where the tutorial's server listens; here it takes a port that is free. */
const ADDRESS = "http://127.0.0.1:8080/";

type Step =
  | { readonly kind: "file"; readonly name: string; readonly text: string }
  | { readonly kind: "edit"; readonly line: string }
  /** `printed` is absent where the tutorial does not show it: then the commands must only succeed. */
  | { readonly kind: "commands"; readonly lines: readonly string[]; readonly printed: string | undefined };

for (const page of globSync(fileURLToPath(new URL("../../docs/tutorial/*.md", import.meta.url))).sort()) {
  test(`${basename(page)} works as it is told, step by step`, { timeout: 300_000 }, async (t) => {
    if (!hasCurl(t)) return;
    const folder = mkdtempSync(join(tmpdir(), "tutorial-"));
    const follower = new Follower(folder);
    process.chdir(folder);
    t.after(async () => {
      await follower.stop();
      process.chdir(before);
      rmSync(folder, { recursive: true });
    });
    const steps = stepsOf(readFileSync(page, "utf8"));
    assert.ok(steps.length >= 6, `only ${steps.length} steps were found`);
    for (const step of steps) await follower.follow(step);
  });
}

/** What a reader does with each block. Blocks that install the package are left out: here it is the source. */
function stepsOf(markdown: string): Step[] {
  const blocks = [...markdown.matchAll(/([^\n]*)\n\n```(\w+)\n([\s\S]*?)^```$/gm)];
  return blocks.flatMap(({ 1: above = "", 2: language, 3: text = "" }, i): Step[] => {
    const [, name] = /^Save this as `([\w.]+)`:$/.exec(above) ?? [];
    if (name !== undefined) return [{ kind: "file", name, text }];
    if (language === "text" || text.includes("npm install")) return [];
    if (language === "yaml") return [{ kind: "edit", line: text }];
    assert.equal(language, "sh", `a block in ${language} that no reader saves: ${text}`);
    const [, , after, printed] = blocks[i + 1] ?? [];
    return [{ kind: "commands", lines: text.trimEnd().split("\n"), printed: after === "text" ? printed : undefined }];
  });
}

class Follower {
  readonly #folder: string;
  #server: ChildProcess | undefined;
  #url = "";

  constructor(folder: string) {
    this.#folder = folder;
  }

  async follow(step: Step): Promise<void> {
    if (step.kind === "file") writeFileSync(step.name, importingFrom(step.text, entryOf));
    else if (step.kind === "edit") this.#edit(step.line);
    else {
      let printed = "";
      for (const line of step.lines) printed += await this.#output(line);
      if (step.printed === undefined) return;
      const shown = this.#url === "" ? printed : printed.replaceAll(this.#url, ADDRESS);
      assert.equal(shown, step.printed, step.lines.join("\n"));
    }
  }

  /** A line that is shown alone takes the place of the one that begins like it. */
  #edit(line: string): void {
    const [start = ""] = line.split(": ");
    const text = readFileSync("limits.yaml", "utf8");
    const lines = text.split("\n").map((old) => (old.startsWith(`${start}: `) ? line.trimEnd() : old));
    assert.notEqual(lines.join("\n"), text);
    writeFileSync("limits.yaml", lines.join("\n"));
  }

  async #output(line: string): Promise<string> {
    const words = (line.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ""));
    const [program = "", ...args] = words;
    if (program === "npx") return commandOutput(args.slice(1));
    if (program === "curl")
      return (
        await run(
          "curl",
          args.map((arg) => this.#ofServer(arg)),
        )
      ).stdout;
    assert.equal(program, "node", line);
    if (args[0] === "server.mts") return this.#start();
    return (await run(process.execPath, args, { env, cwd: this.#folder })).stdout;
  }

  #ofServer(text: string): string {
    return text.replace(ADDRESS, this.#url);
  }

  /** The server stays; its first line has its address. */
  async #start(): Promise<string> {
    this.#server = spawn(process.execPath, ["server.mts"], {
      cwd: this.#folder,
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(createInterface(this.#server.stdout!), "line")) as [string];
    this.#url = line;
    return `${line}\n`;
  }

  async stop(): Promise<void> {
    if (this.#server === undefined || this.#server.exitCode !== null) return;
    const exited = once(this.#server, "exit");
    this.#server.kill("SIGTERM");
    assert.deepEqual(await exited, [0, null], "the server does not end by itself");
  }
}

async function commandOutput(args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await here(args);
  assert.equal(code, 0, `zae-limiter ${args.join(" ")}: ${stderr}`);
  return stdout;
}

function hasCurl(t: TestContext): boolean {
  try {
    execFileSync("curl", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    t.diagnostic("SKIPPED: there is no curl on this machine, so the tutorial was not followed.");
    t.skip("no curl (needs curl)");
    return false;
  }
}
