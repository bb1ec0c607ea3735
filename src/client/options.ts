import type { OnUnavailable } from "../domain/config.ts";
import type { OnExpiry } from "../domain/lease-record.ts";
import { checkHold, checkNames, checkOnExpiry, invalid } from "./check.ts";

/** Which service, as whom, and how long an answer may take. */
export interface ClientOptions {
  /** The address of the service, http or https, such as `https://limits.internal`. */
  readonly url: string;
  /** The token, as `zae-limiter token add` printed it. Default: none, for a service that is open. */
  readonly token?: string;
  /** The tenant. Default: `"default"`. */
  readonly namespace?: string;
  /** How long an answer may take, in ms. Default: 2,000. */
  readonly timeoutMs?: number;
  /**
   * What a request gets while the service cannot answer. `"block"`: `RateLimiterUnavailable`. `"allow"`: a lease that
   * charges nothing and has `degraded`. Default: `"block"`.
   */
  readonly onUnavailable?: OnUnavailable;
  /** How long a lease is held, in ms, where the request does not say; 0: charged at once, and no lease. Default: 60,000. */
  readonly holdMs?: number;
  /** What happens to the tokens of a lease that expires, where the request does not say. Default: the service decides. */
  readonly onExpiry?: OnExpiry;
}

/** Options that were checked, and complete. */
export interface CheckedOptions {
  /** The address without a slash at the end. */
  readonly base: string;
  readonly token: string | undefined;
  readonly namespace: string;
  readonly timeoutMs: number;
  readonly onUnavailable: OnUnavailable;
  readonly holdMs: number;
  readonly onExpiry: OnExpiry | undefined;
}

const OPTIONS: readonly (keyof ClientOptions)[] = [
  ...(["url", "token", "namespace", "timeoutMs", "onUnavailable", "holdMs", "onExpiry"] as const),
];

export function checkOptions(options: ClientOptions): CheckedOptions {
  const {
    url,
    token,
    namespace = "default",
    timeoutMs = 2_000,
    onUnavailable = "block",
    holdMs = 60_000,
    onExpiry,
  } = checkNames(options, OPTIONS, "options_invalid", "The options of LimiterClient");
  if (!Number.isSafeInteger(timeoutMs) || timeoutMs < 1) {
    throw invalid("option_invalid", "timeoutMs", timeoutMs, "whole milliseconds, at least 1");
  }
  if (!["allow", "block"].includes(onUnavailable)) {
    throw invalid("option_invalid", "onUnavailable", onUnavailable, '"allow" or "block"');
  }
  // The token itself is in no message, whatever is wrong with it.
  if (token !== undefined && !(typeof token === "string" && /^[!-~]+$/.test(token))) {
    throw invalid("token_invalid", "The token", "invalid", "it as it was printed");
  }
  // The grammar of namespaces, which stand in every address.
  if (typeof namespace !== "string" || !/^[a-z\d][\w.\-:@]{0,63}$/i.test(namespace)) {
    throw invalid("namespace_invalid", "namespace", namespace, "a letter or digit, then letters, digits and _ . - : @");
  }
  return {
    ...{ base: addressOf(url), token, namespace, timeoutMs, onUnavailable },
    holdMs: checkHold(holdMs),
    onExpiry: checkOnExpiry(onExpiry),
  };
}

function addressOf(url: unknown): string {
  const { protocol, username, password, search, hash, origin, pathname } =
    typeof url === "string" && URL.canParse(url) ? new URL(url) : ({} as Partial<URL>);
  if (/^https?:$/.test(protocol ?? "") && !(username || password || search || hash)) {
    return `${origin}${pathname}`.replace(/\/+$/, "");
  }
  // Not shown: an address that is wrong may have a password in it, wherever that stands.
  throw invalid("url_invalid", "The url", "invalid", 'an http or https address such as "https://limits.internal", without user and query');
}
