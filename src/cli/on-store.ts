import { NotFoundError } from "../domain/names/errors.ts";
import { nearestName } from "../domain/names/known-names.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";
import type { CommandContext, GlobalOptions, ListOptions } from "./command.ts";
import type { CommandLimiter } from "./command-limiter.ts";
import { UsageError } from "./exit-code.ts";
import { serviceToken, serviceUrl } from "./service-option.ts";
import { chosenStore } from "./store-option.ts";
import { countOf, durationMs } from "./values.ts";

/** Opens the chosen store, which must be there, does the work on a limiter of the chosen namespace, and closes it. */
export async function onStore<Answer>(
  context: CommandContext,
  options: ListOptions,
  work: (limiter: CommandLimiter) => Promise<Answer>,
): Promise<Answer> {
  // What is wrong is told before the store is asked whether it is there.
  if (options.max !== undefined) countOf(options.max, "--max");
  const url = serviceUrl(options, context);
  if (url !== undefined) return onService(context, options, url, work);
  const limiter = await openLimiter(context, options, namespaceOf(context, options));
  try {
    return await work(limiter);
  } finally {
    await limiter.close();
  }
}

/** The same over a running service, in the chosen namespace. */
async function onService<Answer>(
  context: CommandContext,
  options: ListOptions,
  url: string,
  work: (limiter: CommandLimiter) => Promise<Answer>,
): Promise<Answer> {
  const namespace = namespaceOf(context, options);
  const token = await serviceToken(options, context);
  const { ServiceClient } = await import("./service-client.ts");
  const about = { url, namespace, timeoutMs: timeoutOf(options), ...(token === undefined ? {} : { token }) };
  const limiter = new ServiceClient(about);
  try {
    return await work(limiter);
  } catch (error) {
    if (!(error instanceof NotFoundError) || error.code !== "namespace_not_found") throw error;
    // Whoever may not list them hears what the service said.
    const known = await limiter.listNamespaces({ limit: 1000 }).then(
      (all) => all.map(({ name }) => name),
      () => undefined,
    );
    if (known === undefined || known.includes(namespace)) throw error;
    throw missingNamespace(namespace, known);
  }
}

export function namespaceOf({ env }: CommandContext, { namespace }: GlobalOptions): string {
  return namespace ?? (env.ZAEL_NAMESPACE || "default");
}

/** The limiter that the options and the environment describe. Nothing is made or migrated by opening it. */
export async function openLimiter(
  context: CommandContext,
  options: GlobalOptions,
  namespace: string,
): Promise<RateLimiter> {
  const target = chosenStore(options, context);
  const timeoutMs = timeoutOf(options);
  const { RateLimiter } = await import("../entry/rate-limiter.ts");
  try {
    return await RateLimiter.open({
      // Whoever types a take names what he means to take; its errors are read by programs.
      unnamedLimits: "allow",
      ...{ ...target.place, ...target.ofCommand, create: false },
      ...{ namespace, timeoutMs, adminTimeoutMs: timeoutMs, configTtlMs: 0, denyMemoryMs: 0 },
    });
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    if (isMissing(error)) throw await target.missing(timeoutMs, error);
    if (error.code !== "namespace_not_found" || namespace === "default") throw error;
    throw await namespaceMissing(context, options, namespace);
  }
}

/** Whether an error says that there is no store at its place. */
export function isMissing(error: unknown): boolean {
  return error instanceof NotFoundError && (error.code === "store_not_found" || error.code === "table_not_found");
}

export function timeoutOf({ timeout }: GlobalOptions): number {
  const ms = durationMs(timeout ?? "10s", "--timeout");
  if (ms < 1) throw new UsageError(`--timeout is "${timeout}"; give at least 1ms.`);
  return ms;
}

/** Opened once more where every store has a namespace, for names that are near. */
async function namespaceMissing(context: CommandContext, options: GlobalOptions, name: string): Promise<NotFoundError> {
  const limiter = await openLimiter(context, options, "default");
  try {
    const known = (await limiter.listNamespaces({ limit: 1000 })).map((namespace) => namespace.name);
    return missingNamespace(name, known);
  } finally {
    await limiter.close();
  }
}

function missingNamespace(name: string, known: readonly string[]): NotFoundError {
  return new NotFoundError(
    "namespace_not_found",
    `There is no namespace "${name}"${nearText(name, known)} Create it with \`zae-limiter namespace register ${name}\`.`,
  );
}

/** What may have been meant, and what there is; begins where a sentence says that something is not there. */
export function nearText(name: string, known: readonly string[]): string {
  const near = nearestName(name, known);
  if (near !== undefined) return `; did you mean ${near}?`;
  if (known.length === 0) return "; there are none.";
  return `; there are ${known.slice(0, 5).join(", ")}${known.length > 5 ? " and others" : ""}.`;
}
