import { type RedisConnection, scriptOf } from "./connection.ts";
import type { Hint } from "./keys.ts";
import { luaText } from "./lua-texts.ts";

/** A key that may be empty, and entries of indexes that may name it in vain. */
export interface Drop {
  readonly key: string;
  /**
   * The first line of its value as it was seen: by it the entries go, and the key stays. With `-` before it the key goes, too. `""`: the key is
   * empty, and goes; `"*"`: it goes whatever it holds.
   */
  readonly version: string;
  readonly hints: readonly Hint[];
}

const DROP = scriptOf("drop", luaText("drop"));

/** One call clears at most so many: it holds up everybody else. */
const DROPS_AT_ONCE = 200;

/**
 * Clears away what is named in vain, and what is empty. It is compared with what was seen in the script: whoever makes a record puts its entries
 * before, and finds them missing if they went in between. Answers how many keys went.
 */
export async function dropKeys(connection: RedisConnection, drops: readonly Drop[], answerMs: number): Promise<number> {
  let dropped = 0;
  for (let from = 0; from < drops.length; from += DROPS_AT_ONCE) {
    const some = drops.slice(from, from + DROPS_AT_ONCE);
    const keys = some.flatMap(({ key, hints }) => [key, ...hints.map(({ index }) => index)]);
    const args = some.flatMap(({ version, hints }) => [
      version,
      String(hints.length),
      ...hints.map(({ member }) => member),
    ]);
    const { reply } = await connection.run(DROP, keys, args, { answerMs });
    dropped += Number(reply);
  }
  return dropped;
}

/** Clears away behind whoever wrote or listed. Nobody waits for it; what fails is met again. */
export class DropQueue {
  readonly #connection: RedisConnection;
  readonly #answerMs: number;
  /** By namespace: a call has keys of one slot. */
  readonly #waiting = new Map<string, Drop[]>();
  #running: Promise<void> | undefined;

  constructor(connection: RedisConnection, answerMs: number) {
    this.#connection = connection;
    this.#answerMs = answerMs;
  }

  add(namespaceId: string, drops: readonly Drop[]): void {
    if (drops.length === 0) return;
    const waiting = this.#waiting.get(namespaceId);
    if (waiting === undefined) this.#waiting.set(namespaceId, [...drops]);
    else waiting.push(...drops);
    this.#running ??= this.#run();
  }

  /** Resolves when nothing is under way. */
  async drained(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Drops that are added in the same turn go along.
    await Promise.resolve();
    try {
      for (const [namespaceId, drops] of this.#waiting) {
        this.#waiting.delete(namespaceId);
        await dropKeys(this.#connection, drops, this.#answerMs);
      }
    } catch {
      // Entries in vain are left out of lists, and cleared when a list or a sweep meets them.
      this.#waiting.clear();
    } finally {
      this.#running = undefined;
    }
  }
}
