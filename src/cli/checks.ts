import { accessSync, constants } from "node:fs";
import { dirname } from "node:path";
import { LimiterError } from "../domain/errors.ts";
import { DEFAULT_NAMESPACE } from "../domain/namespace.ts";
import { type AddCheck, CHECKS, type Check, SERVER_CHECKS } from "./check.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { namespaceOf, openLimiter, timeoutOf } from "./on-store.ts";
import { schemaOf } from "./schema-of.ts";
import { serviceUrl } from "./service-option.ts";
import { chosenStore, type PostgresTarget, type StoreTarget, type TableTarget } from "./store-option.ts";

/** A machine whose clock is further off than this is likely to be refused by AWS before long. */
const AHEAD_MAX_MS = 60_000;

/** Each thing that must be well, in the order in which one depends on the other. */
export async function checksOf(context: CommandContext, options: GlobalOptions): Promise<readonly Check[]> {
  const found: Check[] = [];
  const add = (name: Check["name"], ok: boolean, detail: string, remedy?: string) =>
    found.push({ name, ok, detail, ...(remedy === undefined ? {} : { remedy }) });
  const isStore = serviceUrl(options, context) === undefined;
  if (isStore) await storeChecks(context, options, { found, add });
  else await (await import("./service-checks.ts")).serviceChecks(context, options, add);
  const isServer = isStore && chosenStore(options, context).kind === "postgres";
  const names: readonly Check["name"][] = isServer ? [...CHECKS, ...SERVER_CHECKS] : CHECKS;
  const missing = names.filter((name) => found.every((check) => check.name !== name));
  const unknown = missing.map((name) => ({ name, ok: null, detail: "skipped: an earlier check failed" }));
  return [...found, ...unknown].sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name));
}

async function storeChecks(
  context: CommandContext,
  options: GlobalOptions,
  { found, add }: { readonly found: readonly Check[]; readonly add: AddCheck },
): Promise<void> {
  const target = chosenStore(options, context);
  const timeoutMs = timeoutOf(options);
  const namespace = namespaceOf(context, options);
  try {
    if (target.kind === "postgres") await lookedAt(target, timeoutMs, add);
    const limiter = await openLimiter(context, options, namespace);
    try {
      const { id } = await limiter.getNamespace(namespace);
      add("store", true, `${target.name} answers`);
      add("namespace", true, `${namespace} exists`);
      if (target.kind !== "dynamodb") add("version", true, `schema ${await schemaOf(target, options)}`);
      if (target.kind === "sqlite") fileChecks(target.file, add);
      if (target.kind === "dynamodb") await tableChecks(target.table, { namespaceId: id, timeoutMs }, add);
    } finally {
      await limiter.close();
    }
  } catch (error) {
    if (!(error instanceof LimiterError)) throw error;
    addFault(error, found, target, namespace, add);
  }
}

/** Which of the things an error of opening is about. */
function addFault(
  error: LimiterError,
  found: readonly Check[],
  target: StoreTarget,
  namespace: string,
  add: AddCheck,
): void {
  const { code, message } = error;
  const has = (name: Check["name"]) => found.some((check) => check.name === name);
  if (code === "namespace_not_found") {
    add("store", true, `${target.name} answers`);
    // The one that comes with the table nobody can register.
    const remedy = namespace === DEFAULT_NAMESPACE ? initOf(target) : `zae-limiter namespace register ${namespace}`;
    add("namespace", false, message, remedy);
    return;
  }
  if (/^(schema_|version_|client_|shared_|table_(migrating|shared|taken_over)|index_projection)/.test(code)) {
    if (!has("store")) add("store", true, `${target.name} exists`);
    add("version", false, message, versionRemedy(code, target));
    return;
  }
  if (has("store")) {
    add("permissions", false, message);
    return;
  }
  // What this user lacks is told already; the server answered.
  if (found.some((check) => check.name === "permissions" && check.ok === false)) {
    add("store", true, `${target.name} answers`);
    return;
  }
  const isMissing = code === "store_not_found";
  add("store", false, message, isMissing ? initOf(target) : "See the message; --debug shows the cause.");
}

function versionRemedy(code: string, target: StoreTarget): string {
  const table = target.kind === "dynamodb" ? target.table.stack : "";
  switch (code) {
    case "schema_older":
    case "version_missing":
      return initOf(target);
    case "table_migrating":
      return `zae-limiter migrate --name ${table}`;
    case "table_shared":
      return `--shared-table, or zae-limiter migrate --take-over --name ${table}`;
    case "table_taken_over":
      return "Leave --shared-table out.";
    // Older or newer: the message says which.
    case "schema_version":
      return `If the table is older: zae-limiter migrate --name ${table}. Otherwise upgrade zae-limiter.`;
    default:
      return "Upgrade zae-limiter, or name another store.";
  }
}

function initOf(target: StoreTarget): string {
  return target.kind === "dynamodb" ? `zae-limiter init --stack ${target.table.stack}` : "zae-limiter init";
}

/** The server and this user's rights, before anything is opened: what is wrong there keeps a limiter from being opened. */
async function lookedAt(target: PostgresTarget, timeoutMs: number, add: AddCheck): Promise<void> {
  const { inspectPostgres } = await import("../entry/postgres-admin.ts");
  const { clockCheck, permissionsCheck, serverChecks } = await import("./postgres-checks.ts");
  const found = await inspectPostgres({ url: target.url, timeoutMs });
  serverChecks(found, add);
  clockCheck(found, add);
  if (found.hasTables) permissionsCheck(found, add);
}

function fileChecks(file: string, add: AddCheck): void {
  add("clock", true, "all processes on the file share this machine's clock");
  const denied = [file, dirname(file)].filter((path) => !isWritable(path));
  if (denied.length === 0) add("permissions", true, "the file and its folder are writable");
  else add("permissions", false, `${denied.join(" and ")} not writable`, "Give this user write permission.");
}

async function tableChecks(
  { sharedTable: _, ...table }: TableTarget,
  { namespaceId, timeoutMs }: { readonly namespaceId: string; readonly timeoutMs: number },
  add: AddCheck,
): Promise<void> {
  const { inspectTable } = await import("../entry/dynamodb.ts");
  const { schema, denied, aheadMs } = await inspectTable({ ...table, namespaceId, timeoutMs });
  add("version", schema !== undefined, schema === undefined ? "the table has no version record" : `schema ${schema}`);
  const isNear = Math.abs(aheadMs) <= AHEAD_MAX_MS;
  const off = `this machine is ${Math.abs(aheadMs)} ms ${aheadMs < 0 ? "behind" : "ahead of"} DynamoDB`;
  if (isNear) add("clock", true, off);
  else add("clock", false, off, "Set the machine's clock, or use NTP.");
  if (denied.length === 0) add("permissions", true, "every operation that a limiter needs is allowed");
  else add("permissions", false, `not allowed: ${denied.join(", ")}`, "Allow them in the policy of this user or role.");
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
