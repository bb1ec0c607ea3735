import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { COMMANDS, GROUPS, mentioned } from "./commands.ts";
import { EXIT, type Fault, faultOf } from "./exit-code.ts";
import type { Output } from "./output.ts";

/** Runs one command line; answers with its exit code. Nothing is thrown, and nothing exits. */
export async function run(args: readonly string[], output: Output): Promise<number> {
  const signals = interruptions();
  const context: CommandContext = { output, env: process.env, interrupted: signals.signal };
  let exitCode: number = EXIT.done;
  try {
    const program = await programFor(args, async (work, { endsByInterrupt = false }) => {
      const answer = await work(context);
      exitCode = endsByInterrupt ? answer : (signals.exitCode ?? answer);
    });
    if (args.length === 0) program.outputHelp();
    else await program.parseAsync([...args], { from: "user" });
    return exitCode;
  } catch (error) {
    // What was waited for was given up.
    if (signals.exitCode !== undefined && error === signals.signal.reason) return signals.exitCode;
    if (error instanceof CommanderError && ANSWERED.has(error.code)) {
      return error.code === "commander.help" ? EXIT.usage : EXIT.done;
    }
    return tell(error, args, output);
  } finally {
    signals.end();
  }
}

/** The parser has shown what was asked for. */
const ANSWERED: ReadonlySet<string> = new Set(["commander.helpDisplayed", "commander.version", "commander.help"]);

type Act = (
  work: (context: CommandContext) => Promise<number>,
  file: { readonly endsByInterrupt?: true },
) => Promise<void>;

async function programFor(args: readonly string[], act: Act): Promise<Command> {
  const program = new Command("zae-limiter")
    .description("Rate limits that are never exceeded: operate them on every store.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand(false)
    .exitOverride()
    .configureOutput({ outputError: () => {} });
  globalOptions(program);
  for (const [name, summary] of Object.entries(GROUPS)) {
    const group = program.command(name).summary(summary).description(summary);
    group.action(() => group.help({ error: true }));
  }
  for (const { path, summary, load } of COMMANDS) {
    const group = program.commands.find((each) => path.length > 1 && each.name() === path[0]);
    const command = (group ?? program)
      .command(path.at(-1) ?? "")
      .summary(summary)
      .description(summary);
    if (!mentioned({ path, summary, load }, args)) continue;
    const file = await load();
    file.configure(command);
    command.action(() => act((context) => file.run(context, command.optsWithGlobals<GlobalOptions>()), file));
  }
  return program;
}

function globalOptions(program: Command): void {
  program
    .option("--store <store>", "sqlite:FILE or dynamodb:STACK (ZAEL_STORE)")
    .option("-n, --stack <name>", "the same as --store dynamodb:NAME (ZAEL_STACK)")
    .option("-N, --namespace <name>", "the tenant, default: default (ZAEL_NAMESPACE)")
    .option("--region <region>", "AWS region")
    .option("--profile <profile>", "AWS profile")
    .option("--endpoint, --endpoint-url <url>", "address of DynamoDB, such as http://localhost:8000")
    .option("--shared-table", "the original writes to this table too (ZAEL_SHARED_TABLE=1)")
    .option("--json", "one JSON document")
    .option("--ndjson", "one JSON value a line")
    .option("-q, --quiet", "no progress, no notes")
    .option("--debug", "causes and stack with an error (ZAEL_DEBUG=1)");
}

function tell(error: unknown, args: readonly string[], output: Output): number {
  const fault: Fault = faultOf(error);
  const isJson = args.includes("--json") || args.includes("--ndjson");
  const { code, message, exitCode } = fault;
  output.note(isJson ? `${JSON.stringify({ error: { code, message, exitCode } })}\n` : `${message}\n`);
  const isDebug = args.includes("--debug") || process.env.ZAEL_DEBUG === "1";
  if (isDebug && error instanceof Error) output.note(`${error.stack}\n${String(error.cause ?? "")}\n`);
  return exitCode;
}

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
      controller.abort();
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

/** The same two folders up, built or not. */
function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}
