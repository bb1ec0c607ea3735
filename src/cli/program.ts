import { Command, type OutputConfiguration } from "commander";
import { packageVersion } from "../entry/package-version.ts";
import type { CommandFile, GlobalOptions } from "./command.ts";
import { COMMANDS, type CommandEntry, GROUPS, HIDDEN } from "./commands.ts";
import { globalOptions } from "./global-options.ts";

/** Does what the command that was called is for. */
export type Act = (file: CommandFile<GlobalOptions>, options: GlobalOptions, args: readonly string[]) => Promise<void>;

interface ProgramOptions {
  /** Which commands are loaded with all their options; the others are known by name and summary alone. */
  readonly isLoaded: (entry: CommandEntry) => boolean;
  /** Which commands are known at all: the one that is called needs no others, and making each costs a moment. */
  readonly isKnown: (entry: CommandEntry) => boolean;
  readonly output: OutputConfiguration;
  readonly act: Act;
}

/** The whole command line as the parser sees it. */
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
    const words = COMMANDS.filter(({ path }) => path[0] === name).map(({ path }) => path.join(" "));
    program
      .command(name)
      .summary(summary)
      .description(summary)
      .helpCommand(false)
      .addHelpText(
        "after",
        `\nExamples:\n${words
          .slice(0, 1)
          .map((word) => `  $ zae-limiter ${word} --help`)
          .join("\n")}\n`,
      );
  }
  for (const entry of known) await addCommand(program, entry, isLoaded(entry), act);
  program.addHelpText("after", "\nExamples:\n  $ zae-limiter init\n  $ zae-limiter entity --help\n");
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
  const file = await load();
  file.configure(command);
  command.action(() => act(file, command.optsWithGlobals<GlobalOptions>(), command.args));
}
