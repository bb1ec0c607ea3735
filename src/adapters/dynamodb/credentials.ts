import { LimiterError } from "../../domain/errors.ts";
import { loadCredentialProviders } from "./transport-peer.ts";

/** As the AWS SDK has them. */
export interface Credentials {
  /** Which key. */
  readonly accessKeyId: string;
  /** What requests are signed with. */
  readonly secretAccessKey: string;
  /** Of a role or session. */
  readonly sessionToken?: string | undefined;
  /** New ones are fetched before; absent: never. */
  readonly expiration?: Date | undefined;
}

/** Fetches credentials. Every provider of the AWS SDK is one; `forceRefresh` asks it to pass over what it remembers. */
export type CredentialsProvider = (hint?: { readonly forceRefresh?: boolean }) => Promise<Credentials>;

/** The AWS SDK's own chain: environment, profiles, SSO, web identity, containers, instance metadata. */
export async function defaultProvider(region: string): Promise<CredentialsProvider> {
  const { fromNodeProviderChain } = await loadCredentialProviders();
  return fromNodeProviderChain({ clientConfig: { region } });
}

/**
 * Remembers credentials and asks for new ones before they expire: once, however many callers need them; in the background
 * while the old ones are still good, so that nobody waits.
 */
export class CredentialsCache {
  readonly #provider: CredentialsProvider;
  readonly #now: () => number;
  #held: Credentials | undefined;
  #refused: Credentials | undefined;
  #asking: Promise<Credentials> | undefined;
  #askAgainAtMs = 0;

  /** `now` in ms, the same clock that signs: close to the server's, by which credentials expire. */
  constructor(provider: CredentialsProvider, now: () => number) {
    this.#provider = provider;
    this.#now = now;
  }

  /** At once if there are good ones; otherwise a promise, which rejects with `credentials_unavailable`. */
  current(): Credentials | Promise<Credentials> {
    const held = this.#held;
    if (held === undefined || held === this.#refused) return this.#ask();
    if (held.expiration === undefined) return held;
    const nowMs = this.#now();
    const leftMs = held.expiration.getTime() - nowMs;
    if (leftMs > RENEW_BEFORE_MS) return held;
    // A provider that has nothing newer is not asked on every call; whether what it has still works, the service decides.
    if (nowMs < this.#askAgainAtMs) return held;
    if (leftMs <= 0) return this.#ask();
    this.#askAgainAtMs = nowMs + ASK_AGAIN_AFTER_MS;
    this.#ask().catch(() => {}); // Still good ones are held; when they are not, the next caller hears of it.
    return held;
  }

  /** The service says that these have expired: whatever their date, no one is given them again. */
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
      // Without a hint unless there is a reason: not every provider of a caller's own takes one.
      const refused = this.#refused;
      const fetched = await (refused === undefined ? this.#provider() : this.#provider({ forceRefresh: true }));
      if (!fetched?.accessKeyId || !fetched.secretAccessKey) throw new TypeError("The provider returned no keys.");
      // A new object, so that one that the provider keeps and changes does not go on with the old signing key.
      this.#held = { ...fetched };
      this.#refused = undefined;
      this.#askAgainAtMs = this.#now() + ASK_AGAIN_AFTER_MS;
      return this.#held;
    } catch (cause) {
      throw new LimiterError(
        "credentials_unavailable",
        `There are no AWS credentials to sign with: ${cause instanceof Error ? cause.message : String(cause)} ` +
          "Set AWS_PROFILE or the keys in the environment, or pass `credentials`.",
        { cause },
      );
    }
  }
}

/** As the AWS SDK has it, so that its own memory lets go of them at the same time. */
const RENEW_BEFORE_MS = 300_000;

const ASK_AGAIN_AFTER_MS = 10_000;
