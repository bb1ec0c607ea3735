import type { BackgroundFault } from "../../ports/store.ts";
import { type Connection, type Reply, textOf } from "./connection.ts";
import type { NamespaceKeys } from "./keys.ts";

type Listener = (fault: BackgroundFault) => void;

/**
 * Notices when the server has lost writes: after a failover, or a restart without its data. Every batch tells how many writes its namespace has
 * had. Answers may overtake each other, so a number that is lower than one before is asked for again, and only then believed. What was lost is
 * noted beside the number, so that it is told later, too.
 */
export class LostWrites {
  readonly #connection: Connection;
  readonly #keysOf: (namespaceId: string) => NamespaceKeys;
  readonly #nowMs: () => number;
  readonly #highest = new Map<string, number>();
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #asking = new Set<string>();

  constructor(connection: Connection, keysOf: (namespaceId: string) => NamespaceKeys, nowMs: () => number) {
    this.#connection = connection;
    this.#nowMs = nowMs;
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
      const keys = this.#keysOf(namespaceId);
      const { writes, loss } = await writesOf(this.#connection, keys);
      if (writes >= highest) return;
      this.#highest.set(namespaceId, writes);
      const lost = highest - writes;
      const reason = `The server has lost ${lost} or more of the writes that it had answered; what they took can be taken again.`;
      const cause = new Error(`The namespace had ${highest} writes, and has ${writes}.`);
      const fault: BackgroundFault = { entityId: "$SYSTEM", resource: "*", kind: "writes_lost", reason, cause };
      for (const listener of this.#listeners.get(namespaceId) ?? []) listener(fault);
      // Each process notices the same loss by what it has seen: the largest number is the nearest to it.
      const nowMs = this.#nowMs();
      if (loss !== undefined && nowMs - loss.atMs < SAME_LOSS_MS && loss.writes >= lost) return;
      const noted: WritesLoss = { writes: lost, atMs: nowMs };
      await this.#connection.send([["MSET", keys.lostWrites, JSON.stringify(noted)]]);
    } catch {
      // The next batch tells the number again.
    } finally {
      this.#asking.delete(namespaceId);
    }
  }
}

/** What is noticed within this time of another loss is the same one. */
const SAME_LOSS_MS = 60_000;

/** At least so many writes were lost; it was noticed at this instant. */
interface WritesLoss {
  readonly writes: number;
  readonly atMs: number;
}

/** How many writes a namespace has had, and the last loss of some that a process has noticed. */
export interface NamespaceWrites {
  readonly writes: number;
  readonly loss: WritesLoss | undefined;
}

export async function writesOf(connection: Connection, keys: NamespaceKeys): Promise<NamespaceWrites> {
  const [reply] = await connection.send([["MGET", keys.writes, keys.lostWrites]]);
  const [writes, loss] = (reply as readonly Reply[]).map(textOf);
  return { writes: Number(writes ?? 0), loss: loss === undefined ? undefined : (JSON.parse(loss) as WritesLoss) };
}
