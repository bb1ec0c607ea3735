import { CommanderError, type OutputConfiguration } from "commander";
import type { CommandContext } from "./command.ts";
import { commandsEndingIn, mentioned } from "./commands.ts";
import { CommandEnd, EXIT, type Fault, faultOf } from "./exit-code.ts";
import { interruptions } from "./interruptions.ts";
import type { Host } from "./output.ts";
import { type Act, programFor } from "./program.ts";

/** Runs one command line; answers with its exit code. Nothing is thrown, and nothing exits. */
export async function run(args: readonly string[], host: Host): Promise<number> {
  const signals = interruptions();
  const context: CommandContext = { ...host, interrupted: signals.signal };
  let exitCode: number = EXIT.done;
  let isEnd = (_: number | undefined) => false;
  const act: Act = async (file, options, given) => {
    isEnd = (code) =>
      file.endsBySignal === true ? code !== undefined : file.endsByInterrupt === true && code === INTERRUPTED;
    exitCode = await file.run(context, options, given);
  };
  try {
    const make = (words: readonly string[]) =>
      programFor({ isLoaded: (entry) => mentioned(entry, words), output: outputOf(host), act });
    if (args[0] === "__complete") {
      const { complete } = await import("./complete.ts");
      await complete(context, args.slice(args[1] === "--" ? 2 : 1), make);
      return EXIT.done;
    }
    const program = await make(args);
    if (args.length === 0) program.outputHelp();
    else await program.parseAsync([...args], { from: "user" });
    if (isEnd(signals.exitCode)) return EXIT.done;
    return signals.exitCode ?? exitCode;
  } catch (error) {
    if (error instanceof CommanderError && ANSWERED.has(error.code)) {
      return error.code === "commander.help" ? EXIT.usage : EXIT.done;
    }
    if (isEnd(signals.exitCode)) return EXIT.done;
    const end = signals.exitCode === undefined ? error : interruptedBy(error, signals.exitCode);
    return tell(end, args, host);
  } finally {
    signals.end();
  }
}

const INTERRUPTED = 130;

/** The parser has shown what was asked for. */
const ANSWERED: ReadonlySet<string> = new Set(["commander.helpDisplayed", "commander.version", "commander.help"]);

/** Help is an answer, too. What the parser has to say of an error is told by the error itself. */
function outputOf({ output, terminal }: Host): OutputConfiguration {
  return {
    writeOut: (text) => void output.write(text),
    writeErr: (text) => output.note(text),
    outputError: () => {},
    getOutHelpWidth: () => terminal.columns ?? 80,
    getErrHelpWidth: () => terminal.columns ?? 80,
    getOutHasColors: () => false,
    getErrHasColors: () => false,
  };
}

function interruptedBy(error: unknown, exitCode: number): unknown {
  if (error instanceof CommandEnd && error.code === "interrupted") return error;
  return new CommandEnd({ code: "interrupted", message: "Interrupted.", exitCode });
}

function tell(error: unknown, args: readonly string[], { output, env }: Host): number {
  const fault: Fault = faultOf(error, commandsEndingIn);
  const isJson = args.includes("--json") || args.includes("--ndjson");
  const { code, message, exitCode } = fault;
  output.note(isJson ? `${JSON.stringify({ error: { code, message, exitCode } })}\n` : `${message}\n`);
  const isDebug = args.includes("--debug") || env.ZAEL_DEBUG === "1";
  if (isDebug && error instanceof Error) output.note(`${error.stack}\n${String(error.cause ?? "")}\n`);
  return exitCode;
}
