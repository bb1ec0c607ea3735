import { CommanderError } from "commander";
import {
  ConflictError,
  ExistsError,
  LeaseClosed,
  LimiterError,
  messageFor,
  NotFoundError,
  RateLimitExceeded,
  ResourceDisabled,
  ValidationError,
} from "../domain/names/errors.ts";
import { accessAtInWords, type Ways } from "../domain/names/shown.ts";

/** Top-level words that are about stacks on AWS, and the commands on a store that may have been meant. */
const STACK_WORDS: Readonly<Record<string, string>> = {
  status: "doctor",
  check: "doctor",
  list: "entity list, resource list, plan list, namespace list, bucket list, usage list, refusals list or audit list",
  delete: "entity delete, plan delete or namespace delete",
};

/** A hint for a user who has a store and no stack; empty for a word that is not about stacks. */
export function besidesStacks(word: string): string {
  const others = STACK_WORDS[word];
  return others === undefined ? "" : `\`${word}\` is for stacks on AWS; on a store, use ${others}.`;
}

/** For those who read a message on the command line. */
const WAYS_OF_COMMANDS: Ways = {
  createEntity: "`zae-limiter entity create`",
  updateEntity: "`zae-limiter entity update`",
  createPlan: "`zae-limiter plan create`",
  updatePlan: "`zae-limiter plan update`",
  setSomeLimits:
    "`zae-limiter entity set-limits`, `zae-limiter resource set-defaults` or `zae-limiter system set-defaults`",
  limitsInRequest: "",
  setAccess: "`zae-limiter access set enforce`",
  registerNamespace: "`zae-limiter namespace register`",
  deleteNamespace: "`zae-limiter namespace delete`",
  recoverNamespace: "`zae-limiter namespace recover`",
  unfreezeNamespace: "`zae-limiter namespace unfreeze`",
  listOrphans: "`zae-limiter namespace orphans`",
  resetBucket: "`zae-limiter bucket reset` without --limit",
  ofText: () => "",
  accessAt: accessAtInWords,
};

/** How a command ends. */
export const EXIT = { done: 0, refused: 1, usage: 2, store: 3, missing: 4, defect: 70 } as const;

/** The report of a fault, and the exit code of the command. */
export interface Fault {
  readonly code: string;
  readonly message: string;
  readonly exitCode: number;
}

/** Wrong use of the command line, found by a command rather than by the parser. */
export class UsageError extends Error {}

/** An end that is neither of the library nor of wrong use: declined, interrupted, nobody to ask. */
export class CommandEnd extends Error {
  readonly code: string;
  readonly exitCode: number;

  constructor({ code, message, exitCode }: Fault) {
    super(message);
    this.code = code;
    this.exitCode = exitCode;
  }
}

/** The commands that an unknown word was probably meant for. */
export interface Suggestions {
  /** Commands for the same deed; they come before a word that is only spelled alike. */
  readonly same: readonly string[];
  /** Other commands, to be named if no word is spelled alike. */
  readonly others: readonly string[];
}

/** `suggest` answers the commands that an unknown word may have been meant for. */
export function faultOf(error: unknown, suggest: (word: string) => Suggestions): Fault {
  if (error instanceof UsageError || error instanceof CommanderError) {
    return { code: "usage", message: sentence(error.message, suggest), exitCode: EXIT.usage };
  }
  if (error instanceof CommandEnd) return { code: error.code, message: error.message, exitCode: error.exitCode };
  if (error instanceof LimiterError) {
    return { code: error.code, message: messageFor(error, WAYS_OF_COMMANDS), exitCode: exitCodeOf(error) };
  }
  const message = error instanceof Error ? error.message : String(error);
  if (isSystemError(error)) return { code: "file_failed", message: sentence(message, suggest), exitCode: EXIT.store };
  const where = "This is a bug in zae-limiter; please report it with the output of --debug";
  return { code: "internal", message: `${message}. ${where}.`, exitCode: EXIT.defect };
}

/** The system refused something of a file: the disk is full, or permission is denied. */
function isSystemError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error && "path" in error;
}

function exitCodeOf(error: LimiterError): number {
  if (error instanceof NotFoundError || error.code === "limits_missing") return EXIT.missing;
  if (error.code === "store_invalid") return EXIT.store;
  if (error instanceof ValidationError) return EXIT.usage;
  if (error instanceof RateLimitExceeded || error instanceof ResourceDisabled) return EXIT.refused;
  if (error instanceof ExistsError || error instanceof ConflictError || error instanceof LeaseClosed)
    return EXIT.refused;
  return EXIT.store;
}

/** The parser's messages begin with "error:" and end without a stop. */
function sentence(message: string, suggest: (word: string) => Suggestions): string {
  const said = message.replace(/^error: /, "");
  const word = /^(?:unknown command|too many arguments for) '([^']*)'/.exec(said)?.[1] ?? "";
  const { same, others } = said.startsWith("unknown command") ? suggest(word) : { same: [], others: [] };
  const known = same.length > 0 || said.includes("Did you mean") ? same : others;
  if (known.length > 0) return `Unknown command '${word}'; there is ${orOf(known)}.`;
  const hint = said.startsWith("too many") ? besidesStacks(word) : "";
  return [stopped(said), ...(hint === "" ? [] : [hint])].join(" ");
}

function stopped(said: string): string {
  const text = said
    .replace(/\n\(Did you mean (.+)\?\)$/, "; did you mean $1?")
    .replace(/^(unknown (?:command|option) '[^']*')$/, "$1; see --help");
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.?]$/.test(begun) ? begun : `${begun}.`;
}

/** `a, b or c`. */
export function orOf(words: readonly string[]): string {
  return words.length === 1 ? String(words[0]) : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}
