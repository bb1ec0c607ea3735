import { LimiterError } from "../domain/names/errors.ts";
import type { AddCheck } from "./check.ts";
import type { CommandContext } from "./command.ts";
import { clientOf, namespaceOf, onStore } from "./on-store.ts";

const SCOPES = ["acquire", "read", "admin"];

/** Whether a service answers, and what the token may do there. */
export async function serviceChecks(context: CommandContext, add: AddCheck): Promise<void> {
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
