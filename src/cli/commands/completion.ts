import type { Command } from "commander";
import { measureOf } from "../../domain/charge/amounts.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { given } from "../../domain/names/given.ts";
import { type CommandContext, command, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { type CommandLimiter, onStore } from "../on-store.ts";
import { tablesNear } from "../stores.ts";
import { choiceOf } from "../values.ts";

// Each script hands the words so far to the tool itself, so that it need not change when commands do.

const SCRIPTS = {
  bash: `_zae_limiter() {
  local cur="\${COMP_WORDS[COMP_CWORD]}"
  local IFS=$'\\n'
  COMPREPLY=($(zae-limiter __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
}
complete -o default -F _zae_limiter zae-limiter
`,
  zsh: `#compdef zae-limiter
_zae_limiter() {
  local -a found
  found=("\${(@f)$(zae-limiter __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  (( \${#found} )) && [[ -n "\${found[1]}" ]] && compadd -a found || _files
}
if [ "$funcstack[1]" = "_zae_limiter" ]; then _zae_limiter; else compdef _zae_limiter zae-limiter; fi
`,
  fish: `function __zae_limiter_complete
  set -l words (commandline -opc)
  set -e words[1]
  zae-limiter __complete -- $words (commandline -ct) 2>/dev/null
end
complete -c zae-limiter -f -a '(__zae_limiter_complete)'
`,
  powershell: `Register-ArgumentCompleter -Native -CommandName zae-limiter -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
  if ($wordToComplete -eq '') { $words += '' }
  zae-limiter __complete -- @words 2>$null | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}
`,
} as const;

const SHELLS = ["bash", "zsh", "fish", "powershell"] as const;

export const completion = command({
  arguments: [["<shell>", "bash, zsh, fish or powershell"]],
  examples: ["completion bash"],
  notes: [
    "bash: add `source <(zae-limiter completion bash)` to ~/.bashrc. zsh: the same in ~/.zshrc. fish: write it to\n" +
      "~/.config/fish/completions/zae-limiter.fish. powershell: add it to $PROFILE.",
  ],
  run: async ({ output }, _, [shell = ""]) => {
    await output.write(SCRIPTS[choiceOf(shell, SHELLS, "The shell")]);
    return EXIT.done;
  },
});

/** The whole command line, with the options of the commands that these words mention. */
type MakeProgram = (words: readonly string[]) => Promise<Command>;

/** What shells ask: the words so far, the last of them unfinished. One candidate a line; silent when anything fails. */
export async function complete(
  surroundings: Omit<CommandContext, "options">,
  words: readonly string[],
  make: MakeProgram,
): Promise<void> {
  const context = { ...surroundings, options: storeOptions(words.slice(0, -1)) };
  // Later than a second nobody waits for it.
  const late = new Promise<readonly string[]>((resolve) => setTimeout(() => resolve([]), 900).unref());
  const found = await Promise.race([candidates(context, words, make).catch(() => []), late]);
  const last = words.at(-1) ?? "";
  const lines = found.filter((each) => each.startsWith(last)).map((each) => `${each}\n`);
  await context.output.write(lines.join(""));
}

/** A store that has not answered by then has nothing to offer. */
const COMPLETION_MS = 800;
/** How many names of a store are offered. */
const NAMES_MAX = 500;

async function candidates(
  context: CommandContext,
  words: readonly string[],
  make: MakeProgram,
): Promise<readonly string[]> {
  const before = words.slice(0, -1);
  const last = words.at(-1) ?? "";
  const program = await make(before);
  const { command, operands, pending } = walk(program, before);
  const global = program.options;
  // As an argument it is a namespace's; as an option, a stack's.
  if (pending !== undefined) return valuesOf(context, pending === "name" ? "stack" : pending);
  if (last.startsWith("-")) {
    return [...command.options, ...global].filter(({ hidden }) => !hidden).flatMap(({ long }) => (long ? [long] : []));
  }
  const names = command.commands.filter((child) => !isHidden(child)).map((child) => child.name());
  if (names.length > 0) return names;
  const argument = command.registeredArguments[Math.min(operands, command.registeredArguments.length - 1)];
  return argument === undefined ? [] : valuesOf(context, argument.name(), argument.argChoices);
}

function isHidden(command: Command): boolean {
  return (command as unknown as { _hidden?: boolean })._hidden === true;
}

/** The command that the words reach, how many of its arguments are there, and the option that waits for its value. */
function walk(
  program: Command,
  words: readonly string[],
): { command: Command; operands: number; pending: string | undefined } {
  let command = program;
  let operands = 0;
  let pending: string | undefined;
  for (const word of words) {
    if (pending !== undefined) {
      pending = undefined;
      continue;
    }
    if (word.startsWith("-")) {
      const option = [...command.options, ...program.options].find(
        ({ short, long }) => short === word || long === word,
      );
      pending = option?.required ? option.attributeName() : undefined;
      continue;
    }
    const child = command.commands.find((each) => each.name() === word);
    if (child === undefined) operands += 1;
    else command = child;
  }
  return { command, operands, pending };
}

/** Names from the store for an argument or option of this name. */
async function valuesOf(
  context: CommandContext,
  name: string,
  choices?: readonly string[],
): Promise<readonly string[]> {
  if (choices !== undefined) return choices;
  const fixed = FIXED[name];
  if (fixed !== undefined) return fixed;
  const limit = NAMES_MAX;
  switch (name) {
    case "id":
    case "entity":
    case "entityId":
    case "parent":
      return onStore(context, async (limiter) => (await limiter.listEntities({ limit })).map(({ id }) => id));
    case "plan":
      return onStore(context, async (limiter) => (await limiter.listPlans({ limit })).map(({ id }) => id));
    case "resource":
    case "withCustomLimits":
      return onStore(context, async (limiter) => limiter.listResources({ limit }));
    case "name":
    case "namespace":
      return onStore({ ...context, options: { ...context.options, namespace: "default" } }, async (limiter) =>
        (await limiter.listNamespaces({ limit })).map((namespace) => namespace.name),
      );
    case "stack":
      return tablesNear(wayOf(context), COMPLETION_MS);
    case "store":
      return (await tablesNear(wayOf(context), COMPLETION_MS)).map((table) => `dynamodb:${table}`);
    case "consume":
      return onStore(context, async (limiter) => namesOf(await limitsIn(limiter), measureOf));
    case "limit":
    case "amount":
    case "soft":
      return onStore(context, async (limiter) => namesOf(await limitsIn(limiter), ({ name }) => name));
    default:
      return [];
  }
}

/** Where tables are looked for. */
function wayOf({ env, options: { region, endpointUrl } }: CommandContext): { region?: string; endpoint?: string } {
  const endpoint = endpointUrl ?? (env.AWS_ENDPOINT_URL_DYNAMODB || env.AWS_ENDPOINT_URL || undefined);
  return given({ region, endpoint });
}

const FIXED: Readonly<Record<string, readonly string[]>> = {
  color: ["auto", "always", "never"],
  window: ["hourly", "daily", "monthly"],
  mode: ["disabled", "bypass", "enforce", "inherit"],
  "on|off|inherit": ["on", "off", "inherit"],
  shell: SHELLS,
  format: ["csv", "ndjson", "json"],
  onUnavailable: ["allow", "block"],
  appliesTo: ["everyone", "callers"],
};

async function limitsIn(limiter: CommandLimiter): Promise<readonly Limit[]> {
  const found: Limit[] = [];
  for (const resource of await limiter.listResources({ limit: 50 })) {
    found.push(...(await limiter.getResourceDefaults(resource)));
  }
  return found;
}

function namesOf(limits: readonly Limit[], name: (limit: Limit) => string): readonly string[] {
  return [...new Set(limits.map(name))].sort();
}

/** The store that the words so far name. */
function storeOptions(words: readonly string[]): GlobalOptions {
  const valueAfter = (...flags: readonly string[]) => {
    const at = words.findLastIndex((word) => flags.includes(word));
    return at === -1 ? undefined : words[at + 1];
  };
  return given({
    timeout: `${COMPLETION_MS}ms`,
    store: valueAfter("--store"),
    stack: valueAfter("-n", "--stack"),
    namespace: valueAfter("-N", "--namespace"),
    region: valueAfter("--region"),
    endpointUrl: valueAfter("--endpoint", "--endpoint-url"),
  });
}
