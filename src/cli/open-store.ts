import { existsSync } from "node:fs";
import { NotFoundError } from "../domain/errors.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { namedTable } from "./store-option.ts";

const STORE_DEFAULT = "sqlite:.zae-limiter/limiter.db";

/** A limiter on the store that the options or the environment name. Makes none: a store that is not there is an error. */
export async function openLimiter(options: GlobalOptions, context: CommandContext): Promise<RateLimiter> {
  const { RateLimiter } = await import("../entry/rate-limiter.ts");
  const namespace = options.namespace ?? (context.env.ZAEL_NAMESPACE || undefined);
  const named = namespace === undefined ? {} : { namespace };
  const table = namedTable(options, context);
  if (table !== undefined) {
    const { stack, ...way } = table;
    return RateLimiter.open({ store: `dynamodb:${stack}`, ...way, ...named });
  }
  const store = options.store ?? (context.env.ZAEL_STORE || STORE_DEFAULT);
  if (!store.startsWith("sqlite:")) {
    throw new UsageError(`The store is "${store}"; give sqlite:FILE or dynamodb:STACK.`);
  }
  const file = store.slice("sqlite:".length);
  if (!existsSync(file)) {
    throw new NotFoundError(
      "store_not_found",
      `There is no store ${file}; correct the name, or let a program make it.`,
    );
  }
  return RateLimiter.open({ store, ...named });
}
