import { LimiterError } from "../../domain/names/errors.ts";
import { loadCredentialProviders } from "./transport-peer.ts";

/** AWS credentials, as the AWS SDK has them. */
export interface Credentials {
  /** The id of the key. */
  readonly accessKeyId: string;
  /** The secret that requests are signed with. */
  readonly secretAccessKey: string;
  /** The token of a role or session. Default: none. */
  readonly sessionToken?: string | undefined;
  /** When they expire. New ones are fetched before. Default: never. */
  readonly expiration?: Date | undefined;
}

/**
 * A function that fetches credentials. Every provider of the AWS SDK is one. `forceRefresh` asks for new ones in place
 * of remembered ones.
 */
export type CredentialsProvider = (hint?: { readonly forceRefresh?: boolean }) => Promise<Credentials>;

/** The AWS SDK's own chain: environment, profiles, SSO, web identity, containers, instance metadata. */
export async function defaultProvider(region: string): Promise<CredentialsProvider> {
  const { fromIni, fromNodeProviderChain } = await loadCredentialProviders();
  const chain = fromNodeProviderChain({ clientConfig: { region } });
  return async (hint) => {
    try {
      return await chain(hint);
    } catch (error) {
      if (!(error instanceof Error) || error.name !== "CredentialsProviderError") throw error;
      // The chain does not say that the profile is the reason; the link that reads profiles does.
      const { message } = await fromIni()().then(
        () => error,
        (cause: unknown) => (cause instanceof Error ? cause : error),
      );
      if (error.message.includes(message)) throw error;
      throw new Error(`${sentence(error.message)} ${sentence(message)}`, { cause: error });
    }
  };
}

interface CredentialsSource {
  readonly provider: CredentialsProvider;
  /** The endpoint, for messages. */
  readonly origin: string;
  /** The time in ms by the clock that signs: close to the server's, by which credentials expire. */
  readonly now: () => number;
}

/**
 * Caches credentials and fetches new ones before they expire: one fetch for all callers, in the background while the
 * old ones are still valid.
 */
export class CredentialsCache {
  readonly #provider: CredentialsProvider;
  readonly #origin: string;
  readonly #now: () => number;
  #held: Credentials | undefined;
  #refused: Credentials | undefined;
  #asking: Promise<Credentials> | undefined;
  #askAgainAtMs = 0;

  constructor({ provider, origin, now }: CredentialsSource) {
    this.#provider = provider;
    this.#origin = origin;
    this.#now = now;
  }

  /** Valid credentials at once, or a promise that rejects with `credentials_unavailable`. */
  current(): Credentials | Promise<Credentials> {
    const held = this.#held;
    if (held === undefined || held === this.#refused) return this.#ask();
    if (held.expiration === undefined) return held;
    const nowMs = this.#now();
    const leftMs = held.expiration.getTime() - nowMs;
    if (leftMs > RENEW_BEFORE_MS) return held;
    // A provider without newer credentials is not asked on every call. The service decides whether the old ones still
    // work.
    if (nowMs < this.#askAgainAtMs) return held;
    if (leftMs <= 0) return this.#ask();
    this.#askAgainAtMs = nowMs + ASK_AGAIN_AFTER_MS;
    this.#ask().catch(() => {}); // Valid ones are still held. After they expire, the next caller gets the error.
    return held;
  }

  /** The service says that these have expired. They are not used again, whatever their date. */
  refuse(refused: Credentials): void {
    if (refused === this.#held) this.#refused = refused;
  }

  #ask(): Promise<Credentials> {
    this.#asking ??= this.#fetch().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #fetch(): Promise<Credentials> {
    try {
      // No hint unless needed: a caller's own provider may not take one.
      const refused = this.#refused;
      const fetched = await (refused === undefined ? this.#provider() : this.#provider({ forceRefresh: true }));
      if (!fetched?.accessKeyId || !fetched.secretAccessKey) throw new TypeError("The provider returned no keys.");
      // A new object, so that one that the provider keeps and changes does not go on with the old signing key.
      this.#held = { ...fetched };
      this.#refused = undefined;
      this.#askAgainAtMs = this.#now() + ASK_AGAIN_AFTER_MS;
      return this.#held;
    } catch (cause) {
      throw noCredentials(this.#origin, cause);
    }
  }
}

/** The error when no provider has keys to sign with. */
export function noCredentials(origin: string, cause: unknown): LimiterError {
  return new LimiterError(
    "credentials_unavailable",
    `No AWS credentials were found to sign requests to ${origin}: ` +
      `${sentence(cause instanceof Error ? cause.message : String(cause))} ` +
      "Set AWS_PROFILE to a profile with credentials, set the keys in the environment, or pass `credentials`.",
    { cause },
  );
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** The AWS SDK's own margin, so that its cache expires at the same time. */
const RENEW_BEFORE_MS = 300_000;

const ASK_AGAIN_AFTER_MS = 10_000;
