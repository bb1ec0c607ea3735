import { NotFoundError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { nearestName } from "../domain/names/known-names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { Listing } from "../engine/limiter/listing.ts";
import type { LimiterClient } from "../entry/client.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";
import type { AwsConfig } from "../infra/aws-clients.ts";
import type { CommandContext } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import type { LeaseAccess, LevelAccess, ServiceClient } from "./service-client.ts";
import { chosenStore, serviceToken, serviceUrl } from "./store-option.ts";
import { useProfile } from "./stores.ts";
import { countOf, durationMs } from "./values.ts";

/** The methods of a limiter that commands call, whether it works on a store or asks a service. */
export type CommandLimiter = {
  readonly [Name in keyof RateLimiter & keyof LimiterClient]: Loosened<RateLimiter[Name]>;
};

/** A list is awaited for a page, or walked through; which class it is, does not matter. */
type Loosened<Method> = Method extends (...given: infer Given) => Listing<infer Item, infer Shown>
  ? (...given: Given) => PromiseLike<Shown> & AsyncIterable<Item>
  : Method;

/** The client of a service, where the limiter is one. */
export function clientOf(limiter: CommandLimiter): ServiceClient | undefined {
  return "levels" in limiter ? (limiter as ServiceClient) : undefined;
}

export async function levelsOf(limiter: CommandLimiter): Promise<LevelAccess> {
  const client = clientOf(limiter);
  if (client !== undefined) return client.levels;
  const { partsOf } = await import("../engine/limiter/limiter-parts.ts");
  const { admin } = partsOf(limiter);
  return {
    get: (scope) => admin.shownConfig(scope),
    set: (scope, limits, options) => admin.setConfig(scope, limits, options),
    delete: (scope, options) => admin.deleteConfig(scope, options),
    changeSystem: (change, options) => admin.changeSystem(change, options),
  };
}

export async function leasesOf(limiter: CommandLimiter): Promise<LeaseAccess> {
  const client = clientOf(limiter);
  if (client !== undefined) return client.leases;
  const { StoredLeases } = await import("../leases/stored-leases.ts");
  // Nothing is taken here, so that no hold has to be chosen.
  return new StoredLeases(limiter as unknown as Limiter, { ...UNUSED_HOLD, onChange: () => {} });
}

const UNUSED_HOLD = { holdMs: 60_000, holdMaxMs: 86_400_000, onExpiry: "charge" } as const;

/** Does the work on a limiter of the chosen namespace. */
export async function onStore<Answer>(
  context: CommandContext,
  work: (limiter: CommandLimiter) => Promise<Answer>,
): Promise<Answer> {
  const { max } = context.options;
  // Wrong options are refused before the store is asked whether it is there.
  if (max !== undefined) countOf(max, "--max");
  return onNamespace(context, namespaceOf(context), work);
}

/** Opens the chosen store, which must be there, or asks the service; does the work on a limiter of the namespace, and closes it. */
export async function onNamespace<Answer>(
  context: CommandContext,
  namespace: string,
  work: (limiter: RateLimiter | ServiceClient) => Promise<Answer>,
): Promise<Answer> {
  const url = serviceUrl(context);
  if (url !== undefined) return onService(context, { url, namespace }, work);
  const limiter = await openLimiter(context, namespace);
  try {
    return await work(limiter);
  } finally {
    await limiter.close();
  }
}

async function onService<Answer>(
  context: CommandContext,
  { url, namespace }: { readonly url: string; readonly namespace: string },
  work: (limiter: ServiceClient) => Promise<Answer>,
): Promise<Answer> {
  const token = await serviceToken(context);
  const { ServiceClient } = await import("./service-client.ts");
  const limiter = new ServiceClient(given({ url, namespace, timeoutMs: timeoutOf(context), token }));
  try {
    return await work(limiter);
  } catch (error) {
    if (!(error instanceof NotFoundError) || error.code !== "namespace_not_found") throw error;
    // A caller that may not list them gets the error of the service.
    const known = await limiter.listNamespaces({ limit: 1000 }).then(
      (all) => all.map(({ name }) => name),
      () => undefined,
    );
    if (known === undefined || known.includes(namespace)) throw error;
    throw missingNamespace(namespace, known);
  }
}

export function namespaceOf({ env, options }: CommandContext): string {
  return options.namespace ?? (env.ZAEL_NAMESPACE || "default");
}

/**
 * The limiter that the options and the environment describe. Nothing is made or migrated by opening it. It remembers nothing, unless
 * `memory` is that of any other process.
 */
export async function openLimiter(
  context: CommandContext,
  namespace: string,
  memory: "none" | "default" = "none",
): Promise<RateLimiter> {
  const target = chosenStore(context);
  const timeoutMs = timeoutOf(context);
  const { RateLimiter } = await import("../entry/rate-limiter.ts");
  try {
    return await RateLimiter.open({
      // A command names what it takes, and programs read its errors.
      unnamedLimits: "allow",
      ...target.place,
      ...target.ofCommand,
      create: false,
      namespace,
      timeoutMs,
      adminTimeoutMs: timeoutMs,
      ...(memory === "none" ? { configTtlMs: 0, denyMemoryMs: 0 } : {}),
    });
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    if (isMissing(error)) throw await target.missing(timeoutMs, error);
    if (error.code !== "namespace_not_found" || namespace === "default") throw error;
    throw await namespaceMissing(context, namespace);
  }
}

/** Whether an error says that there is no store at its place. */
export function isMissing(error: unknown): boolean {
  return error instanceof NotFoundError && (error.code === "store_not_found" || error.code === "table_not_found");
}

export function timeoutOf({ options: { timeout } }: Pick<CommandContext, "options">): number {
  const ms = durationMs(timeout ?? "10s", "--timeout");
  if (ms < 1) throw new UsageError(`--timeout is "${timeout}"; give at least 1ms.`);
  return ms;
}

/** Opens the namespace that every store has, to look for names that are near. */
async function namespaceMissing(context: CommandContext, name: string): Promise<NotFoundError> {
  const limiter = await openLimiter(context, "default");
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

/** The near name and the known ones; the text follows a sentence that says that something is not there. */
export function nearText(name: string, known: readonly string[]): string {
  const near = nearestName(name, known);
  if (near !== undefined) return `; did you mean ${near}?`;
  if (known.length === 0) return "; there are none.";
  return `; there are ${known.slice(0, 5).join(", ")}${known.length > 5 ? " and others" : ""}.`;
}

/** The way to AWS for commands on a stack. */
export function awsConfigOf(context: CommandContext): AwsConfig {
  const { region, endpointUrl: endpoint } = context.options;
  useProfile(context);
  return { region, endpoint, timeoutMs: timeoutOf(context) };
}
