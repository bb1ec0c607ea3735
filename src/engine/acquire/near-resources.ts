import { messageFor, ValidationError } from "../../domain/names/errors.ts";
import { nearestName } from "../../domain/names/known-names.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import type { Clock } from "../../ports/system.ts";

/** The search for a near name reads at most this many names. */
const NAMES_MAX = 1_000;

/**
 * Suggests the resource that a misspelled name probably meant. Only an error asks the store for names, and the answer is cached: a
 * client that keeps misspelling costs nothing more.
 */
export class NearResources {
  readonly #config: ConfigStore;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  #read: { readonly atMs: number; readonly names: Promise<readonly string[]> } | undefined;

  constructor(config: ConfigStore, clock: Clock, ttlMs: number) {
    this.#config = config;
    this.#clock = clock;
    this.#ttlMs = ttlMs;
  }

  /** Throws the error. If limits are missing and a near name exists, the message suggests it. */
  async rethrow(error: unknown, asked: { readonly resource: string }): Promise<never> {
    if (!(error instanceof ValidationError) || error.code !== "limits_missing") throw error;
    // With this code the request was checked; before that, `asked` may be no request at all.
    const near = nearestName(asked.resource, await this.#names());
    if (near === undefined || near === asked.resource) throw error;
    throw new ValidationError(error.code, (ways) => `${messageFor(error, ways)} Did you mean the resource ${near}?`);
  }

  #names(): Promise<readonly string[]> {
    const atMs = this.#clock.now();
    if (this.#read === undefined || atMs - this.#read.atMs >= this.#ttlMs) {
      // A store that cannot list must not hide what was wrong with the request.
      const list = async () => (await this.#config.listResources(atMs, { limit: NAMES_MAX })).items;
      this.#read = { atMs, names: list().catch(() => []) };
    }
    return this.#read.names;
  }
}
