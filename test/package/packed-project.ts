import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { isDeep } from "../depth.ts";
import { plainEnvironment } from "../docs/readme.ts";

export const root = fileURLToPath(new URL("../..", import.meta.url));
const exec = promisify(execFile);

/** The Node that programs of the project run on, as a user has it: that of ZAEL_TEST_NODE, else the one that runs the tests. */
export const userNode = process.env.ZAEL_TEST_NODE || process.execPath;

/** The environment of a user: what begins with `#!/usr/bin/env node` runs on the user's Node, too. */
function userEnvironment(): Record<string, string | undefined> {
  const env = plainEnvironment();
  return { ...env, PATH: [dirname(userNode), env.PATH ?? ""].join(delimiter) };
}

/** Runs a command to its end and answers with what it printed; throws with all of that when it fails. */
export async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    return (await exec(command, args, { cwd, env: userEnvironment(), timeout: 600_000 })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args[0]} failed:\n${stdout}${stderr}`);
  }
}

/** An empty project that has installed the package as it is packed. */
export interface PackedProject {
  readonly tarball: string;
  readonly folder: string;
  /** A file of the project, for a program that is run or compiled there. */
  write(file: string, lines: readonly string[]): Promise<void>;
  /** What a program of the project printed. */
  node(file: string): Promise<string>;
  /** Compiles one file as a strict user would, and answers with the errors. */
  compile(file: string, options: Readonly<Record<string, unknown>>): Promise<string[]>;
  remove(): Promise<void>;
}

export async function packedProject(): Promise<PackedProject> {
  const outer = await mkdtemp(join(tmpdir(), "package-"));
  // A deep run packs it as it is published, which compiles the types anew; they are not needed to run it.
  if (!isDeep) await run(process.execPath, ["scripts/build.ts", "--no-types"], root);
  await run("npm", ["pack", "--pack-destination", outer, ...(isDeep ? [] : ["--ignore-scripts"])], root);
  const [packed] = (await readdir(outer)).filter((name) => name.endsWith(".tgz"));
  assert.ok(packed !== undefined, "npm pack left no tarball");
  const tarball = join(outer, packed);
  const folder = join(outer, "project");
  await mkdir(folder);
  const write = (file: string, lines: readonly string[]) => writeFile(join(folder, file), lines.join("\n"));
  await write("package.json", [JSON.stringify({ name: "empty", private: true, type: "module" })]);
  await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", tarball], folder);
  return {
    tarball,
    folder,
    write,
    // Before Node 22.18 types are stripped only where that is asked for.
    node: (file) => run(userNode, [...(file.endsWith(".ts") ? ["--experimental-strip-types"] : []), file], folder),
    compile: async (file, options) => {
      await write("tsconfig.json", [JSON.stringify({ compilerOptions: { ...STRICT, ...options }, files: [file] })]);
      try {
        await run(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.json"], folder);
        return [];
      } catch (error) {
        return String(error)
          .split("\n")
          .filter((line) => line.includes(": error TS"));
      }
    },
    remove: () => rm(outer, { recursive: true }),
  };
}

/** What package.json exports, but for files of data: `.`, `./memory`. */
export async function entryNames(): Promise<string[]> {
  const { exports } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    exports: Record<string, unknown>;
  };
  return Object.keys(exports).filter((name) => !name.endsWith(".json"));
}

const STRICT = {
  target: "es2023",
  lib: ["es2023", "esnext.disposable"],
  module: "nodenext",
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  // Our declarations must be sound by themselves, not only where they are used.
  skipLibCheck: false,
  noEmit: true,
  types: ["node"],
  typeRoots: [join(root, "node_modules/@types")],
};
