import { hostname, userInfo } from "node:os";
import { checkPrincipal } from "../domain/names.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";

/** Whom the audit trail names: the option, the environment, or who runs the command on which machine. */
export function principalOf({ env }: CommandContext, { principal }: GlobalOptions): { readonly principal: string } {
  const given = principal ?? (env.ZAEL_PRINCIPAL || undefined);
  // A name that was given is checked as it is; one that was found is made to pass.
  return {
    principal: given ?? `${userName()}@${hostname()}`.replace(/[^a-zA-Z0-9_.\-:@]/g, "-").replace(/^[^a-zA-Z0-9]/, "u"),
  };
}

/** A dry run checks what the real one does; whoever gives the option means it to count. */
export function checkPrincipalOf({ env }: CommandContext, { principal, dryRun }: GlobalOptions): void {
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
