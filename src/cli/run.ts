import { Command, CommanderError, Option, type OptionValues, type OutputConfiguration } from "commander";
import { warnThrough } from "../adapters/system/environment.ts";
import { withoutSecrets } from "../domain/names/names.ts";
import { packageVersion } from "../entry/package-version.ts";
import { storeOfEnvironment } from "../entry/store-kinds.ts";
import { type CommandContext, type CommandRow, describe } from "./command.ts";
import { COMMANDS, type CommandEntry, called, GROUPS, HIDDEN, mentioned } from "./commands.ts";
import { CommandEnd, EXIT, type Fault, faultOf, type Suggestions, UsageError } from "./exit-code.ts";
import type { Host } from "./output.ts";
import { checkPrincipalOf, typedNamesWithNotes } from "./store-option.ts";
import { jsonOf, printableLines } from "./table.ts";

interface Interruptions {
  readonly signal: AbortSignal;
  /** Set once one came. */
  readonly exitCode: number | undefined;
  end(): void;
}

const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

/** The first one ends the command after what it has in hand; the second ends the process at once. */
function interruptions(): Interruptions {
  const controller = new AbortController();
  let exitCode: number | undefined;
  const listeners = Object.entries(SIGNALS).map(([name, code]) => {
    const listener = () => {
      if (exitCode !== undefined) process.exit(code);
      exitCode = code;
      controller.abort(new CommandEnd({ code: "interrupted", message: `Interrupted by ${name}.`, exitCode: code }));
    };
    process.on(name, listener);
    return [name, listener] as const;
  });
  return {
    signal: controller.signal,
    get exitCode() {
      return exitCode;
    },
    end: () => {
      for (const [name, listener] of listeners) process.off(name, listener);
    },
  };
}

/** Words for one deed. Groups do not all use the same one: namespaces are registered, and plans are got. */
const SYNONYMS: readonly (readonly string[])[] = [
  ["create", "register", "add", "new", "make"],
  ["show", "get", "describe", "view", "info"],
  ["delete", "remove", "rm", "del"],
  ["update", "set", "edit", "change", "modify"],
  ["list", "ls"],
  ["follow", "tail"],
];

/** Suggests commands for the word `word` of the command line `args` that is none: of its group, if it stands after one. */
function suggestCommands(word: string, args: readonly string[]): Suggestions {
  const group = args.find((arg, at) => Object.hasOwn(GROUPS, arg) && args.indexOf(word, at + 1) > at);
  const words = SYNONYMS.find((each) => each.includes(word)) ?? [word];
  const endingIn = (endings: readonly string[]) => inGroups((_, last) => endings.includes(last));
  if (group === undefined) return { same: endingIn(words), others: [] };
  const within = (test: (last: string) => boolean) => inGroups((of, last) => of === group && test(last));
  const exact = within((last) => words.includes(last) || last.startsWith(`${word}-`) || last.endsWith(`-${word}`));
  const same = exact.length > 0 ? exact : within((last) => words.some((each) => last.startsWith(`${each}-`)));
  const elsewhere = endingIn([word]);
  return { same, others: elsewhere.length > 0 ? elsewhere : within(() => true) };
}

function inGroups(test: (group: string, last: string) => boolean): readonly string[] {
  return COMMANDS.filter(({ path: [group, last] }) => last !== undefined && test(String(group), last)).map(({ path }) =>
    path.join(" "),
  );
}

/** Runs one command line; answers with its exit code. Nothing is thrown, and nothing exits. */
export async function run(given: readonly string[], host: Host): Promise<number> {
  const args = given[0] === "help" ? [...given.slice(1), "--help"] : given;
  const signals = interruptions();
  const warnAsBefore = warnThrough((text) => host.output.note(`${text}\n`));
  const surroundings = { ...host, interrupted: signals.signal };
  let exitCode: number = EXIT.done;
  const help = helpOutput(host);
  let isEnd = (_: number | undefined) => false;
  const act: Act = async (file, options, operands) => {
    isEnd = (code) =>
      file.endsBySignal === true ? code !== undefined : file.endsByInterrupt === true && code === INTERRUPTED;
    const context: CommandContext = { ...surroundings, options };
    checkPrincipalOf(context);
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
      const { complete } = await import("./commands/completion.ts");
      await complete(surroundings, args.slice(args[1] === "--" ? 2 : 1), (words) => make(words, undefined));
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

/** Adds the options that may stand before or after any command. */
function globalOptions(program: Command): void {
  program
    .option("--store <store>", `${typedNamesWithNotes()} (ZAEL_STORE); default ${storeOfEnvironment({})}`)
    .option("-n, --stack <name>", "the same as --store dynamodb:NAME (ZAEL_STACK)")
    .option("--url <url>", "use a running service instead of a store (ZAEL_URL), such as https://limits.internal")
    .option("--token-file <file>", "file with the token for --url, one line (ZAEL_TOKEN: the token itself)")
    .option("-N, --namespace <name>", "the namespace (ZAEL_NAMESPACE); default: default")
    .option("--region <region>", "AWS region")
    .option("--profile <profile>", "AWS profile")
    .option("--endpoint, --endpoint-url <url>", "URL of DynamoDB, such as http://localhost:8000")
    .option("--shared-table", "the Python original writes to this table too (ZAEL_SHARED_TABLE=1)")
    .option("--json", "print one JSON document")
    .option("--ndjson", "print lists and streams as one JSON value per line")
    .option("--principal <who>", "your name in the audit log (ZAEL_PRINCIPAL); default user@host")
    .option("-y, --yes", "do not ask for confirmation")
    .option("--dry-run", "check everything, show what would change, write nothing")
    .option("-q, --quiet", "no progress, no notes")
    .addOption(new Option("--color <when>", "colours (NO_COLOR, FORCE_COLOR)").choices(["auto", "always", "never"]))
    .option("--timeout <duration>", "timeout of each call to the store; default 10s")
    .option("--debug", "print causes and stack traces of errors (ZAEL_DEBUG=1)");
}

type Act = (row: CommandRow, options: OptionValues, args: readonly string[]) => Promise<void>;

interface ProgramOptions {
  /** Whether a command is loaded with all its options; the others are known by name and summary alone. */
  readonly isLoaded: (entry: CommandEntry) => boolean;
  /** Whether a command is known at all: the one that is called needs no others, and making each costs a moment. */
  readonly isKnown: (entry: CommandEntry) => boolean;
  readonly output: OutputConfiguration;
  readonly act: Act;
}

async function programFor({ isLoaded, isKnown, output, act }: ProgramOptions): Promise<Command> {
  // Commands copy these settings when they are made, so that they come first.
  const program = new Command("zae-limiter")
    .description("Rate limits that are never exceeded, on every store.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand(false)
    .exitOverride()
    .configureOutput(output);
  globalOptions(program);
  const known = [...COMMANDS, ...HIDDEN].filter(isKnown);
  for (const [name, summary] of Object.entries(GROUPS)) {
    if (!known.some(({ path }) => path[0] === name)) continue;
    const group = program.command(name).summary(summary).description(summary).helpCommand(false);
    const first = COMMANDS.find(({ path }) => path[0] === name)?.path ?? [];
    describe(group, { examples: [`${first.join(" ")} --help`] });
  }
  for (const entry of known) await addCommand(program, entry, isLoaded(entry), act);
  describe(program, { examples: ["init", "entity --help"] });
  return program;
}

async function addCommand(program: Command, entry: CommandEntry, isLoaded: boolean, act: Act): Promise<void> {
  const { path, summary, load } = entry;
  const group = program.commands.find((each) => path.length > 1 && each.name() === path[0]);
  const command = (group ?? program)
    .command(path.at(-1) ?? "", { hidden: entry.hidden === true })
    .summary(summary)
    .description(summary);
  if (!isLoaded) return;
  const row = await load();
  describe(command, row);
  command.action(() => act(row, command.optsWithGlobals(), command.args));
}
