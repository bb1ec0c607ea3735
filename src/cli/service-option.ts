import { ValidationError } from "../domain/names/errors.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { readGiven } from "./files.ts";

/** The address of the service that a command is to ask; undefined: it works on a store. */
export function serviceUrl(options: GlobalOptions, { env }: Pick<CommandContext, "env">): string | undefined {
  const { url, store, stack } = options;
  if (url !== undefined) {
    if (store !== undefined || stack !== undefined) {
      throw new UsageError("--url names a service, --store and --stack name a store; give one of them.");
    }
    return url;
  }
  if (store !== undefined || stack !== undefined) return undefined;
  const named = env.ZAEL_URL || undefined;
  if (named !== undefined && (env.ZAEL_STORE || env.ZAEL_STACK)) {
    throw new UsageError(
      "ZAEL_URL names a service, and ZAEL_STORE or ZAEL_STACK a store; unset one, or give --url or --store.",
    );
  }
  return named;
}

/** For what only a store can answer: whoever names a service must not be given the store of this machine instead. */
export function refuseService(options: GlobalOptions, context: Pick<CommandContext, "env">): void {
  if (serviceUrl(options, context) === undefined) return;
  throw new UsageError(
    "This command needs a store and does not work over a service; give --store instead of --url (ZAEL_URL).",
  );
}

/** The token: of the file, or of the environment. Never on the line, where every user of the machine sees it. */
export async function serviceToken(options: GlobalOptions, { env }: CommandContext): Promise<string | undefined> {
  const { tokenFile } = options;
  if (tokenFile === undefined) return env.ZAEL_TOKEN || undefined;
  const token = (await readGiven(tokenFile, "The token file")).trim();
  if (/^[\x21-\x7e]+$/.test(token) && !token.startsWith("{")) return token;
  throw new ValidationError(
    "token_invalid",
    `${tokenFile} does not contain a token; write the line that \`zae-limiter token add\` printed into it (a service's own token file has only hashes).`,
  );
}
