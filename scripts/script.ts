import { type ParseArgsConfig, parseArgs } from "node:util";

// Shared by the scripts of package.json. `--help` is answered before a script loads or does anything. A mistake in the arguments is
// answered with one sentence and exit code 2, without a stack; any other error is a defect, and its stack is wanted.

/** A mistake in the arguments. The message says what was given and what can be given. */
export class UsageError extends Error {}

/** Runs a script on the arguments of this process; what `main` answers with is the exit code. */
export async function runScript(usage: string, main: (args: readonly string[]) => Promise<number>): Promise<void> {
  const args = process.argv.slice(2);
  if (args.includes("--help") || args.includes("-h")) {
    process.stdout.write(usage);
    return;
  }
  try {
    process.exitCode = await main(args);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 2;
  }
}

/** For a script without arguments that does its work at the top of its file: `--help` and any other argument end the process. */
export function takesNoArguments(usage: string): void {
  const [given] = process.argv.slice(2);
  if (given === undefined) return;
  const isHelp = given === "--help" || given === "-h";
  if (isHelp) process.stdout.write(usage);
  else process.stderr.write(`Got ${JSON.stringify(given)}, but this script takes no arguments.\n`);
  process.exit(isHelp ? 0 : 2);
}

/** `parseArgs` of Node, whose complaints become a `UsageError` of one sentence. */
export function parsedArgs<const Config extends ParseArgsConfig>(config: Config) {
  try {
    return parseArgs(config);
  } catch (error) {
    if (!(error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS_")))
      throw error;
    const [sentence = ""] = error.message.split(/\. |\n/);
    throw new UsageError(`${sentence.replace(/\.$/, "")}; --help lists what can be given.`);
  }
}

/** The whole number that an option was given. */
export function wholeNumber(option: string, given: string): number {
  const value = Number(given);
  if (given.trim() !== "" && Number.isSafeInteger(value) && value >= 0) return value;
  throw new UsageError(`${option} is ${JSON.stringify(given)}; give a whole number.`);
}
