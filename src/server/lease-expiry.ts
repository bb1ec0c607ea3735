import type { Limiter } from "../engine/limiter.ts";
import type { Tenants } from "./tenants.ts";

/** Every lease whose time is up ends within two of these. */
const LOOK_MS = 1_000;

/** How many namespaces one look visits; further ones have their turn with the next. */
const VISITS_MAX = 200;

/** After so many looks the list of namespaces is read again. */
const LOOKS_PER_LIST = 10;

/** Writes down the end of leases whose time is up, in all namespaces of the store, whoever opened them. */
export class LeaseExpiry {
  readonly #limiter: Limiter;
  readonly #tenants: Tenants;
  readonly #log: (line: string) => void;
  #timer: NodeJS.Timeout | undefined;
  #names: readonly string[] = [];
  #looks = 0;
  #next = 0;
  #looking: Promise<void> | undefined;
  #hasFailed = false;

  constructor(limiter: Limiter, tenants: Tenants, log: (line: string) => void) {
    this.#limiter = limiter;
    this.#tenants = tenants;
    this.#log = log;
  }

  start(): void {
    this.#timer = setInterval(() => this.look(), LOOK_MS).unref();
    this.look();
  }

  /** Resolves when a look that is under way has ended. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  /** One look at a time: a store that is slow is not asked again before it has answered. */
  look(): void {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
  }

  async #look(): Promise<void> {
    try {
      if (this.#looks++ % LOOKS_PER_LIST === 0) this.#names = await namesOf(this.#limiter);
      const count = Math.min(VISITS_MAX, this.#names.length);
      for (let i = 0; i < count; i++) await this.#visit(this.#names[this.#next++ % this.#names.length] ?? "");
      this.#hasFailed = false;
    } catch (error) {
      // Once for an outage, not once a second.
      if (!this.#hasFailed) this.#log(`Leases whose time is up could not be ended: ${(error as Error).message}`);
      this.#hasFailed = true;
    }
  }

  async #visit(name: string): Promise<void> {
    try {
      await (await this.#tenants.get(name).tools()).desk.expireDue();
    } catch (error) {
      // The namespace may have been deleted since it was listed.
      if ((error as { code?: unknown }).code !== "namespace_not_found") throw error;
    }
  }
}

async function namesOf(limiter: Limiter): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const { name } of limiter.listNamespaces({ limit: 1000 })) names.push(name);
  return names;
}
