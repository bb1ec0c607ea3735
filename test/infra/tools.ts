import { execFile } from "node:child_process";
import { isDeep } from "../depth.ts";
import { describeOn } from "../engines/describe-on.ts";
import { pythonTools, startMoto } from "../engines/python-tools.ts";

// Suites that need Python: moto's server, which answers like AWS over HTTP, or cfn-lint. Where there is no Python they are skipped and
// say so; with ZAEL_REQUIRE_PYTHON=1 that is a failure.

/** A suite on an AWS of its own, which is empty. To be awaited, at the top of a file. */
export async function describeMoto(name: string, define: (endpoint: string) => void): Promise<void> {
  await describeWith(name, startMoto, define);
}

/** A suite of deep runs that lints templates. To be awaited, at the top of a file. */
export async function describeLint(name: string, define: (lint: Lint) => void): Promise<void> {
  if (!isDeep) return;
  await describeWith(name, pythonTools, (python) => define((files) => linted(python, files)));
}

/** Answers with every message about these files, notes included. */
export type Lint = (files: readonly string[]) => Promise<readonly string[]>;

async function describeWith<Tool>(
  name: string,
  start: () => Promise<Tool>,
  define: (tool: Tool) => void,
): Promise<void> {
  const found = await start().then(
    (tool) => ({ tool }),
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  describeOn("python", name, found, ({ tool }) => define(tool));
}

interface Message {
  readonly Rule: { readonly Id: string };
  readonly Message: string;
  readonly Filename: string;
  readonly Location: { readonly Path: readonly (string | number)[] | null };
}

function linted(python: string, files: readonly string[]): Promise<readonly string[]> {
  // Its own command names the folder that the environment was made in, and was then moved from.
  const args = [
    "-c",
    "import sys; from cfnlint.runner import main; sys.exit(main())",
    "--include-checks",
    "I",
    "--format",
    "json",
    "--",
    ...files,
  ];
  return new Promise((resolve, reject) => {
    execFile(python, args, { maxBuffer: 64 << 20 }, (error, stdout, stderr) => {
      try {
        const messages = JSON.parse(stdout) as readonly Message[];
        resolve(
          messages.map(
            ({ Rule, Message: text, Filename, Location }) =>
              `${Filename} ${Rule.Id} ${(Location.Path ?? []).join("/")}: ${text}`,
          ),
        );
      } catch {
        reject(error ?? new Error(stderr));
      }
    });
  });
}
