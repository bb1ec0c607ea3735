import { hostname, userInfo } from "node:os";
import { checkPrincipal } from "../domain/names/names.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { serviceUrl } from "./service-option.ts";

/** Whom the audit trail names: the option, the environment, or who runs the command on which machine. */
export function principalOf(context: CommandContext, options: GlobalOptions): { readonly principal?: string } {
  const { env } = context;
  const { principal } = options;
  // Over a service it is the token's own id.
  if (serviceUrl(options, context) !== undefined) return {};
  const given = principal ?? (env.ZAEL_PRINCIPAL || undefined);
  // A name that was given is checked as it is; one that was found is made to pass.
  return {
    principal: given ?? `${userName()}@${hostname()}`.replace(/[^a-zA-Z0-9_.\-:@]/g, "-").replace(/^[^a-zA-Z0-9]/, "u"),
  };
}

/** A dry run checks what the real one does; whoever gives the option means it to count. */
export function checkPrincipalOf(context: CommandContext, options: GlobalOptions): void {
  const { env } = context;
  const { principal, dryRun } = options;
  if (principal !== undefined && serviceUrl(options, context) !== undefined) {
    throw new UsageError("With --url, the audit log names the token; leave --principal out.");
  }
  const given = principal ?? (dryRun === true ? env.ZAEL_PRINCIPAL || undefined : undefined);
  if (given !== undefined) checkPrincipal(given);
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may have a user without a name.
    return "unknown";
  }
}
