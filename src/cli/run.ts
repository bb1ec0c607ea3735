import { CommanderError, type OutputConfiguration } from "commander";
import { warnThrough } from "../adapters/system/warnings.ts";
import { withoutSecrets } from "../domain/names/names.ts";
import type { CommandContext } from "./command.ts";
import { type CommandEntry, called, mentioned } from "./commands.ts";
import { CommandEnd, EXIT, type Fault, faultOf, UsageError } from "./exit-code.ts";
import { interruptions } from "./interruptions.ts";
import type { Host } from "./output.ts";
import { checkPrincipalOf } from "./principal.ts";
import { jsonOf, printableLines } from "./printable.ts";
import { type Act, programFor } from "./program.ts";
import { suggestCommands } from "./suggest-command.ts";

/** Runs one command line; answers with its exit code. Nothing is thrown, and nothing exits. */
export async function run(given: readonly string[], host: Host): Promise<number> {
  const args = given[0] === "help" ? [...given.slice(1), "--help"] : given;
  const signals = interruptions();
  const warnAsBefore = warnThrough((text) => host.output.note(`${text}\n`));
  const context: CommandContext = { ...host, interrupted: signals.signal };
  let exitCode: number = EXIT.done;
  const help = helpOutput(host);
  let isEnd = (_: number | undefined) => false;
  const act: Act = async (file, options, operands) => {
    isEnd = (code) =>
      file.endsBySignal === true ? code !== undefined : file.endsByInterrupt === true && code === INTERRUPTED;
    checkPrincipalOf(context, options);
    exitCode = await file.run(context, options, operands);
  };
  try {
    const make = (words: readonly string[], only: CommandEntry | undefined) =>
      programFor({
        isLoaded: (entry) => (only === undefined ? mentioned(entry, words) : entry === only),
        isKnown: (entry) => only === undefined || entry === only,
        output: help.configuration,
        act,
      });
    if (args[0] === "__complete") {
      const { complete } = await import("./complete.ts");
      await complete(context, args.slice(args[1] === "--" ? 2 : 1), (words) => make(words, undefined));
      return EXIT.done;
    }
    refuseVersionOf(args);
    const program = await make(args, called(args));
    if (args.length === 0) program.outputHelp();
    else await program.parseAsync([...args], { from: "user" });
    await help.written();
    if (isEnd(signals.exitCode)) return EXIT.done;
    return signals.exitCode ?? exitCode;
  } catch (error) {
    if (error instanceof CommanderError && ANSWERED.has(error.code)) {
      const code = error.code === "commander.help" ? EXIT.usage : EXIT.done;
      return await help.written().then(
        () => code,
        (fault: unknown) => tell(fault, args, host),
      );
    }
    if (isEnd(signals.exitCode)) return EXIT.done;
    const end = signals.exitCode === undefined ? error : interruptedBy(error, signals.exitCode);
    return tell(end, args, host);
  } finally {
    warnAsBefore();
    signals.end();
  }
}

const INTERRUPTED = 130;

/** `entity update ID --version 3` means the version of the entity: it must not print that of the tool, and change nothing. */
function refuseVersionOf(args: readonly string[]): void {
  const at = args.findIndex((arg) => arg === "--version" || arg.startsWith("--version="));
  const isValued = args[at]?.includes("=") || /^[^-]/.test(args[at + 1] ?? "");
  if (at < 1 || args[0]?.startsWith("-") || !isValued) return;
  throw new UsageError("--version prints the tool's version and takes no value; did you mean --if-version?");
}

/** The parser has shown what was asked for. */
const ANSWERED: ReadonlySet<string> = new Set(["commander.helpDisplayed", "commander.version", "commander.help"]);

/** Help is an answer, too. What the parser has to say of an error is told by the error itself. */
function helpOutput({ output, terminal }: Host): {
  readonly configuration: OutputConfiguration;
  readonly written: () => Promise<unknown>;
} {
  const writes: Promise<void>[] = [];
  const configuration: OutputConfiguration = {
    // The parser does not wait: a fault is kept until somebody does.
    writeOut: (text) => {
      const write = output.write(text);
      write.catch(() => {});
      writes.push(write);
    },
    writeErr: (text) => output.note(text),
    outputError: () => {},
    getOutHelpWidth: () => terminal.columns ?? 80,
    getErrHelpWidth: () => terminal.columns ?? 80,
    getOutHasColors: () => false,
    getErrHasColors: () => false,
  };
  return { configuration, written: () => Promise.all(writes) };
}

function interruptedBy(error: unknown, exitCode: number): unknown {
  if (error instanceof CommandEnd && error.code === "interrupted") return error;
  return new CommandEnd({ code: "interrupted", message: "Interrupted.", exitCode });
}

function tell(error: unknown, args: readonly string[], { output, env }: Host): number {
  const fault: Fault = faultOf(error, (word) => suggestCommands(word, args));
  const isJson = args.includes("--json") || args.includes("--ndjson");
  const { code, exitCode } = fault;
  const message = withoutSecrets(fault.message);
  output.note(isJson ? `${jsonOf({ error: { code, message, exitCode } })}\n` : `${printableLines(message)}\n`);
  const isDebug = args.includes("--debug") || env.ZAEL_DEBUG === "1";
  if (isDebug && error instanceof Error)
    output.note(`${withoutSecrets(`${error.stack}\n${String(error.cause ?? "")}`)}\n`);
  return exitCode;
}
