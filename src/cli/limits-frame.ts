import { existsSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { createInterface } from "node:readline/promises";
import { styleText } from "node:util";
import { ConflictError, NotFoundError, ValidationError } from "../domain/errors.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { namedTable } from "./store-option.ts";

/** What commands that change are given besides. */
export interface ChangeOptions extends GlobalOptions {
  readonly principal?: string;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly color?: string;
}

const STORE_DEFAULT = "sqlite:.zae-limiter/limiter.db";

/** The limiter that the options and the environment describe. The store must be there. */
export async function openLimiter(
  context: CommandContext,
  options: GlobalOptions,
  namespace: string,
): Promise<RateLimiter> {
  const { RateLimiter: Opened } = await import("../entry/rate-limiter.ts");
  const common = { namespace, configTtlMs: 0, denyMemoryMs: 0, timeoutMs: 10_000 };
  const table = namedTable(options, context);
  if (table !== undefined) {
    const { stack, ...way } = table;
    return Opened.open({ store: `dynamodb:${stack}`, ...way, ...common });
  }
  const store = options.store ?? (context.env.ZAEL_STORE || STORE_DEFAULT);
  if (!store.startsWith("sqlite:")) {
    throw new UsageError(`The store is "${store}"; give sqlite:FILE or dynamodb:STACK.`);
  }
  const file = store.slice("sqlite:".length);
  if (!existsSync(file)) {
    throw new NotFoundError(
      "store_not_found",
      `There is no store at ${store}; name another with --store or ZAEL_STORE.`,
    );
  }
  return Opened.open({ store, ...common });
}

/** Whether somebody can be asked. */
export function canAsk({ yes }: ChangeOptions): boolean {
  return yes !== true && process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Asks before something is changed; returns only if it is wanted. */
export async function confirmed(options: ChangeOptions, question: string): Promise<void> {
  if (options.yes === true) return;
  if (!canAsk(options)) {
    throw new ValidationError(
      "confirmation_required",
      `${question} Nobody can be asked here, and nothing was changed; give --yes.`,
    );
  }
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await lines.question(`${question} [y/N] `);
  lines.close();
  if (!/^y(es)?$/i.test(answer.trim())) throw new ConflictError("declined", "Declined; nothing was changed.");
}

/** Whom the audit trail names: the option, the environment, or who runs the command on which machine. */
export function principalOf({ env }: CommandContext, { principal }: ChangeOptions): { readonly principal: string } {
  const given = principal ?? (env.ZAEL_PRINCIPAL || undefined);
  const found = `${userInfo().username}@${hostname()}`;
  return { principal: given ?? found.replace(/[^a-zA-Z0-9_.\-:@]/g, "-").replace(/^[^a-zA-Z0-9]/, "u") };
}

/** Marks a text, where colours are wanted. */
export type Paint = (format: "green" | "yellow" | "red" | "cyan" | "dim", text: string) => string;

/** The option wins, then NO_COLOR, then FORCE_COLOR, then: a terminal that is not dumb. */
export function paintOf({ env }: CommandContext, { color }: ChangeOptions): Paint {
  const isTerminal = process.stdout.isTTY === true && env.TERM !== "dumb";
  const forced = env.FORCE_COLOR === undefined || env.FORCE_COLOR === "" ? isTerminal : env.FORCE_COLOR !== "0";
  const fromEnvironment = env.NO_COLOR ? false : forced;
  const isColored = color === "always" || (color !== "never" && fromEnvironment);
  return (format, text) => (isColored ? styleText(format, text, { validateStream: false }) : text);
}
