import type { Command } from "commander";
import { measureOf } from "../domain/charge/measures.ts";
import type { Limit } from "../domain/limits/limit.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import type { CommandLimiter } from "./command-limiter.ts";
import { onStore } from "./on-store.ts";
import { tablesNear } from "./stores.ts";

/** The whole command line, with the options of the commands that these words mention. */
type MakeProgram = (words: readonly string[]) => Promise<Command>;

/** What shells ask: the words so far, the last of them unfinished. One candidate a line; silent when anything fails. */
export async function complete(context: CommandContext, words: readonly string[], make: MakeProgram): Promise<void> {
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
  if (pending !== undefined) return valuesOf(context, pending === "name" ? "stack" : pending, before);
  if (last.startsWith("-")) {
    return [...command.options, ...global].filter(({ hidden }) => !hidden).flatMap(({ long }) => (long ? [long] : []));
  }
  const names = command.commands.filter((child) => !isHidden(child)).map((child) => child.name());
  if (names.length > 0) return names;
  const argument = command.registeredArguments[Math.min(operands, command.registeredArguments.length - 1)];
  return argument === undefined ? [] : valuesOf(context, argument.name(), before, argument.argChoices);
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
  before: readonly string[],
  choices?: readonly string[],
): Promise<readonly string[]> {
  if (choices !== undefined) return choices;
  const fixed = FIXED[name];
  if (fixed !== undefined) return fixed;
  const options = storeOptions(before);
  const limit = NAMES_MAX;
  switch (name) {
    case "id":
    case "entity":
    case "entityId":
    case "parent":
      return onStore(context, options, async (limiter) => (await limiter.listEntities({ limit })).map(({ id }) => id));
    case "plan":
      return onStore(context, options, async (limiter) => (await limiter.listPlans({ limit })).map(({ id }) => id));
    case "resource":
    case "withCustomLimits":
      return onStore(context, options, async (limiter) => limiter.listResources({ limit }));
    case "name":
    case "namespace":
      return onStore(context, { ...options, namespace: "default" }, async (limiter) =>
        (await limiter.listNamespaces({ limit })).map((namespace) => namespace.name),
      );
    case "stack":
      return tablesNear(wayOf(context, options), COMPLETION_MS);
    case "store":
      return (await tablesNear(wayOf(context, options), COMPLETION_MS)).map((table) => `dynamodb:${table}`);
    case "consume":
      return onStore(context, options, async (limiter) => namesOf(await limitsIn(limiter), measureOf));
    case "limit":
    case "amount":
    case "soft":
      return onStore(context, options, async (limiter) => namesOf(await limitsIn(limiter), ({ name }) => name));
    default:
      return [];
  }
}

/** Where tables are looked for. */
function wayOf(
  { env }: CommandContext,
  { region, endpointUrl }: GlobalOptions,
): { region?: string; endpoint?: string } {
  const endpoint = endpointUrl ?? (env.AWS_ENDPOINT_URL_DYNAMODB || env.AWS_ENDPOINT_URL || undefined);
  return { ...(region === undefined ? {} : { region }), ...(endpoint === undefined ? {} : { endpoint }) };
}

const FIXED: Readonly<Record<string, readonly string[]>> = {
  color: ["auto", "always", "never"],
  window: ["hourly", "daily", "monthly"],
  mode: ["disabled", "bypass", "enforce", "inherit"],
  "on|off|inherit": ["on", "off", "inherit"],
  shell: ["bash", "zsh", "fish", "powershell"],
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
  const store = valueAfter("--store");
  const stack = valueAfter("-n", "--stack");
  const namespace = valueAfter("-N", "--namespace");
  const region = valueAfter("--region");
  const endpointUrl = valueAfter("--endpoint", "--endpoint-url");
  return {
    timeout: `${COMPLETION_MS}ms`,
    ...(store === undefined ? {} : { store }),
    ...(stack === undefined ? {} : { stack }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(region === undefined ? {} : { region }),
    ...(endpointUrl === undefined ? {} : { endpointUrl }),
  };
}
