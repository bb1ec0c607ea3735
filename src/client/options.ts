import { ValidationError } from "../domain/errors.ts";
import { KnownNames } from "../domain/known-names.ts";
import { checkNamespace, shown } from "../domain/names.ts";

/** Which service, as whom, and how long an answer may take. */
export interface ClientOptions {
  /** Its address, http or https, such as `https://limits.internal`. */
  readonly url: string;
  /** As `zae-limiter token add` printed it; absent: the service is open. */
  readonly token?: string;
  /** The tenant. Default: `default`. */
  readonly namespace?: string;
  /** Bound on each request. Default 2,000. */
  readonly timeoutMs?: number;
}

export interface CheckedOptions {
  /** Without a slash at the end. */
  readonly base: string;
  /** For messages: without user and query. */
  readonly shown: string;
  readonly token: string | undefined;
  readonly namespace: string;
  readonly timeoutMs: number;
}

const OPTIONS = new KnownNames<ClientOptions>({ url: true, token: true, namespace: true, timeoutMs: true });

export function checkOptions(options: ClientOptions): CheckedOptions {
  const {
    url,
    token,
    namespace = "default",
    timeoutMs = 2_000,
  } = OPTIONS.check(options, "The options of LimiterClient");
  if (!Number.isSafeInteger(timeoutMs) || timeoutMs < 1) {
    throw new ValidationError(
      "option_invalid",
      `timeoutMs is ${shown(timeoutMs)}; give whole milliseconds, at least 1.`,
    );
  }
  // The token itself is in no message, whatever is wrong with it.
  if (token !== undefined && !(typeof token === "string" && /^[\x21-\x7e]+$/.test(token))) {
    throw new ValidationError(
      "token_invalid",
      "The token is empty or has an invalid character; give it as it was printed.",
    );
  }
  const { base, host } = addressOf(url);
  return { base, shown: host, token, namespace: checkNamespace(namespace), timeoutMs };
}

function addressOf(url: unknown): { readonly base: string; readonly host: string } {
  const parsed = typeof url === "string" ? URL.parse(url) : null;
  const isGood =
    parsed !== null &&
    /^https?:$/.test(parsed.protocol) &&
    parsed.username === "" &&
    parsed.password === "" &&
    parsed.search === "" &&
    parsed.hash === "";
  // Not shown: an address that is wrong may have a password in it, wherever that stands.
  if (!isGood) {
    throw new ValidationError(
      "url_invalid",
      'The address of the service is invalid; give an http or https URL such as "https://limits.internal", without user and query.',
    );
  }
  const base = `${parsed.origin}${parsed.pathname}`.replace(/\/+$/, "");
  return { base, host: base };
}
