import { messageFor, ValidationError } from "../../domain/names/errors.ts";
import { nearestName } from "../../domain/names/known-names.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import type { Clock } from "../../ports/system.ts";

/** How many names are read to find a near one. */
const NAMES_MAX = 1_000;

/**
 * Tells whoever misspelled a resource which one was probably meant. Only an error that is on its way out asks the store for names, and
 * the answer is remembered: a client that goes on misspelling costs nothing more.
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

  /** Throws the error, with the near name where limits are missing and there is one. */
  async rethrow(error: unknown, asked: { readonly resource: string }): Promise<never> {
    if (!(error instanceof ValidationError) || error.code !== "limits_missing") throw error;
    // Whoever hears that limits are missing has asked rightly: before that, it may be no request at all.
    const near = nearestName(asked.resource, await this.#names());
    if (near === undefined || near === asked.resource) throw error;
    throw new ValidationError(error.code, (ways) => `${messageFor(error, ways)} Did you mean the resource ${near}?`);
  }

  #names(): Promise<readonly string[]> {
    const atMs = this.#clock.now();
    if (this.#read === undefined || atMs - this.#read.atMs >= this.#ttlMs) {
      // A store that cannot list must not hide what was wrong with the request.
      const list = async () => (await this.#config.listResources({ limit: NAMES_MAX })).items;
      this.#read = { atMs, names: list().catch(() => []) };
    }
    return this.#read.names;
  }
}
