import { Command, Option, type OptionValues, type OutputConfiguration } from "commander";
import { packageVersion } from "../entry/package-version.ts";
import { storeOfEnvironment } from "../entry/store-kinds.ts";
import { type CommandRow, describe } from "./command.ts";
import { COMMANDS, type CommandEntry, GROUPS, HIDDEN } from "./commands.ts";
import { typedNamesWithNotes } from "./store-option.ts";

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

/** Runs the command that was called. */
export type Act = (row: CommandRow, options: OptionValues, args: readonly string[]) => Promise<void>;

interface ProgramOptions {
  /** Whether a command is loaded with all its options; the others are known by name and summary alone. */
  readonly isLoaded: (entry: CommandEntry) => boolean;
  /** Whether a command is known at all: the one that is called needs no others, and making each costs a moment. */
  readonly isKnown: (entry: CommandEntry) => boolean;
  readonly output: OutputConfiguration;
  readonly act: Act;
}

/** Makes the parser of the command line. */
export async function programFor({ isLoaded, isKnown, output, act }: ProgramOptions): Promise<Command> {
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
