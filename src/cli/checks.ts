import { DEFAULT_NAMESPACE } from "../domain/config/namespace.ts";
import { LimiterError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { type AddCheck, CHECKS, type Check } from "./check.ts";
import type { CommandContext } from "./command.ts";
import { clientOf, namespaceOf, onStore, openLimiter, timeoutOf } from "./on-store.ts";
import { chosenStore, serviceUrl } from "./store-option.ts";
import type { StoreTarget } from "./stores.ts";

/** Each thing that must be well, in the order in which one depends on the other. */
export async function checksOf(context: CommandContext): Promise<readonly Check[]> {
  const found: Check[] = [];
  const add = (name: Check["name"], ok: boolean, detail: string, remedy?: string) =>
    found.push(given({ name, ok, detail, remedy }));
  const target = serviceUrl(context) === undefined ? chosenStore(context) : undefined;
  if (target === undefined) await serviceChecks(context, add);
  else await storeChecks(context, target, { found, add });
  const names: readonly string[] = [...CHECKS, ...(target?.checkNames ?? [])];
  const missing = names.filter((name) => found.every((check) => check.name !== name));
  const unknown = missing.map((name) => ({ name, ok: null, detail: "skipped: an earlier check failed" }));
  return [...found, ...unknown].sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name));
}

async function storeChecks(
  context: CommandContext,
  target: StoreTarget,
  { found, add }: { readonly found: readonly Check[]; readonly add: AddCheck },
): Promise<void> {
  const timeoutMs = timeoutOf(context);
  const namespace = namespaceOf(context);
  try {
    await target.checkFirst?.(timeoutMs, add);
    const limiter = await openLimiter(context, namespace);
    try {
      const { id } = await limiter.getNamespace(namespace);
      add("store", true, `${target.name} answers`);
      add("namespace", true, `${namespace} exists`);
      await target.check({ namespaceId: id, timeoutMs }, add);
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
    const remedy = namespace === DEFAULT_NAMESPACE ? target.init : `zae-limiter namespace register ${namespace}`;
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
  // The rights that this user lacks are reported already; the server answered.
  if (found.some((check) => check.name === "permissions" && check.ok === false)) {
    add("store", true, `${target.name} answers`);
    return;
  }
  const isMissing = code === "store_not_found";
  add("store", false, message, isMissing ? target.init : "See the message; --debug shows the cause.");
}

function versionRemedy(code: string, target: StoreTarget): string {
  if (code === "schema_older" || code === "version_missing") return target.init;
  return target.versionRemedy?.(code) ?? "Upgrade zae-limiter, or name another store.";
}

const SCOPES = ["acquire", "read", "admin"];

/** Whether a service answers, and what the token may do there. */
async function serviceChecks(context: CommandContext, add: AddCheck): Promise<void> {
  const namespace = namespaceOf(context);
  try {
    await onStore(context, async (limiter) => {
      const client = clientOf(limiter);
      if (client === undefined) return;
      const me = await client.me();
      const { version, atMs } = await client.about();
      add("store", true, `${client.url} answers`);
      add("version", true, `service ${version}`);
      const aheadMs = atMs === undefined ? 0 : Date.now() - atMs;
      add("clock", true, `the service uses its own clock; this machine is ${Math.round(aheadMs / 1000)} s ahead of it`);
      const denied = SCOPES.filter((scope) => !me.scopes.includes(scope));
      const has = `${me.id} has ${me.scopes.join(", ")}`;
      if (denied.length === 0) add("permissions", true, has);
      else add("permissions", false, `${has}, not ${denied.join(", ")}`, "Use a token that has these scopes.");
      const isNamed = me.namespaces === "*" || me.namespaces.includes(namespace);
      if (!isNamed)
        add("namespace", false, `${me.id} has no access to ${namespace}`, "Choose a namespace of this token with -N.");
      else if (me.scopes.includes("read")) {
        await limiter.listEntities({ limit: 1 });
        add("namespace", true, `${namespace} exists`);
      }
    });
  } catch (error) {
    if (!(error instanceof LimiterError)) throw error;
    if (error.code === "namespace_not_found")
      add("namespace", false, error.message, "zae-limiter namespace register NAME");
    else if (error.httpStatus === 401) add("permissions", false, error.message, "Give --token-file or ZAEL_TOKEN.");
    else add("store", false, error.message, "See the message; --debug shows the cause.");
  }
}
