import type { BackgroundFault } from "../../ports/store.ts";
import { type Connection, textOf } from "./connection.ts";
import type { NamespaceKeys } from "./keys.ts";

type Listener = (fault: BackgroundFault) => void;

/**
 * Notices when the server has lost writes: after a failover, or a restart without its data. Every batch tells how many writes its namespace has
 * had. Answers may overtake each other, so a number that is lower than one before is asked for again, and only then believed.
 */
export class LostWrites {
  readonly #connection: Connection;
  readonly #keysOf: (namespaceId: string) => NamespaceKeys;
  readonly #highest = new Map<string, number>();
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #asking = new Set<string>();

  constructor(connection: Connection, keysOf: (namespaceId: string) => NamespaceKeys) {
    this.#connection = connection;
    this.#keysOf = keysOf;
  }

  note(namespaceId: string, writes: number): void {
    const highest = this.#highest.get(namespaceId) ?? 0;
    if (writes >= highest) this.#highest.set(namespaceId, writes);
    else if (!this.#asking.has(namespaceId)) void this.#ask(namespaceId, highest);
  }

  on(namespaceId: string, listener: Listener): () => void {
    const listeners = this.#listeners.get(namespaceId) ?? new Set();
    this.#listeners.set(namespaceId, listeners);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  async #ask(namespaceId: string, highest: number): Promise<void> {
    this.#asking.add(namespaceId);
    try {
      const [reply] = await this.#connection.send([["GET", this.#keysOf(namespaceId).writes]]);
      const writes = Number(textOf(reply) ?? 0);
      if (writes >= highest) return;
      this.#highest.set(namespaceId, writes);
      const lost = highest - writes;
      const reason = `The server has lost ${lost} or more of the writes that it had answered; what they took can be taken again.`;
      const cause = new Error(`The namespace had ${highest} writes, and has ${writes}.`);
      const fault: BackgroundFault = { entityId: "$SYSTEM", resource: "*", kind: "writes_lost", reason, cause };
      for (const listener of this.#listeners.get(namespaceId) ?? []) listener(fault);
    } catch {
      // The next batch tells the number again.
    } finally {
      this.#asking.delete(namespaceId);
    }
  }
}
