import { readdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import { NotFoundError } from "../domain/errors.ts";
import { nearestName } from "../domain/known-names.ts";
import type { OpenOptions } from "../entry/open.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";
import type { CommandContext, GlobalOptions, ListOptions } from "./command.ts";
import type { CommandLimiter } from "./command-limiter.ts";
import { UsageError } from "./exit-code.ts";
import { serviceToken, serviceUrl } from "./service-option.ts";
import { chosenStore, type PostgresTarget, type StoreTarget, type TableTarget } from "./store-option.ts";
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
      ...placeOf(target),
      ...{ namespace, timeoutMs, adminTimeoutMs: timeoutMs, configTtlMs: 0, denyMemoryMs: 0 },
    });
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    if (error.code === "store_not_found" && target.kind === "sqlite") throw storeMissing(target.file);
    if (error.code === "store_not_found" && target.kind === "postgres")
      throw await schemaMissing(target, timeoutMs, error);
    if (error.code === "table_not_found" && target.kind === "dynamodb")
      throw await tableMissing(target, timeoutMs, error);
    if (error.code !== "namespace_not_found" || namespace === "default") throw error;
    throw await namespaceMissing(context, options, namespace);
  }
}

export function timeoutOf({ timeout }: GlobalOptions): number {
  const ms = durationMs(timeout ?? "10s", "--timeout");
  if (ms < 1) throw new UsageError(`--timeout is "${timeout}"; give at least 1ms.`);
  return ms;
}

function placeOf(target: StoreTarget): OpenOptions {
  switch (target.kind) {
    case "sqlite":
      return { store: target.name, create: false };
    case "postgres":
      // Of a command: one connection that takes, one that asks. Each is made when it is needed.
      return { store: target.url, create: false, poolMax: 2 };
    case "dynamodb": {
      const { stack, ...way } = target.table;
      return { store: `dynamodb:${stack}`, ...way };
    }
  }
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

function storeMissing(file: string): NotFoundError {
  const near = nearestName(basename(file), filesBeside(file));
  const meant =
    near === undefined ? "" : ` Did you mean sqlite:${dirname(file) === "." ? "" : `${dirname(file)}/`}${near}?`;
  return new NotFoundError(
    "store_not_found",
    `There is no store at sqlite:${file}.${meant} Create it with \`zae-limiter init\`, or name another with --store or ZAEL_STORE.`,
  );
}

/** What to say where the tables are missing, with a schema that has some. */
export async function schemaMissing(
  { name, url, schema }: PostgresTarget,
  timeoutMs: number,
  cause: unknown,
): Promise<NotFoundError> {
  const { schemasBeside } = await import("../entry/postgres-admin.ts");
  const known = await schemasBeside({ url, timeoutMs }).catch(() => []);
  const near = nearestName(schema, known) ?? (known.length === 1 ? known[0] : undefined);
  const meant = near === undefined ? "" : ` Did you mean ?schema=${near}?`;
  return new NotFoundError(
    "store_not_found",
    `${name} has no tables of zae-limiter.${meant} Create them with \`zae-limiter init\`, or name another store with --store or ZAEL_STORE.`,
    { cause },
  );
}

async function tableMissing(
  { table }: Extract<StoreTarget, { kind: "dynamodb" }>,
  timeoutMs: number,
  cause: unknown,
): Promise<NotFoundError> {
  const { stack } = table;
  const near = nearestName(stack, await tablesNear(table, timeoutMs));
  return new NotFoundError(
    "store_not_found",
    `There is no table "${stack}" at this endpoint and in this region${near === undefined ? "" : `; did you mean ${near}?`}` +
      `${near === undefined ? ";" : " Or"} correct the name, the region or the endpoint, or create it ` +
      `with \`zae-limiter init --stack ${stack}\`.`,
    { cause },
  );
}

/** Tables where one was looked for; none where nobody may or can list them. */
export async function tablesNear(
  { region, endpoint }: Partial<TableTarget>,
  timeoutMs: number,
): Promise<readonly string[]> {
  const { listTables } = await import("../entry/dynamodb.ts");
  const way = { ...(region === undefined ? {} : { region }), ...(endpoint === undefined ? {} : { endpoint }) };
  return listTables({ ...way, timeoutMs }).catch(() => []);
}

function filesBeside(file: string): readonly string[] {
  try {
    return readdirSync(dirname(file)).filter((name) => !/-(wal|shm)$/.test(name) && name !== basename(file));
  } catch {
    return [];
  }
}
