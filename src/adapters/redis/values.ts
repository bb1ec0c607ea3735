import assert from "node:assert/strict";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { type RedisConnection, type Reply, scriptOf, textOf } from "./connection.ts";
import { appliedBy, thrownFor } from "./faults.ts";
import { type Hint, hintCommand, type NamespaceKeys } from "./keys.ts";
import { luaText } from "./lua-texts.ts";

const SWAP = scriptOf("swap", luaText("swap"));

/** Scripts of one row are over in no time. */
export const SCRIPT_PATIENCE = { answerMs: 10_000 };

/** So many replicas must have confirmed a write, within this time; 0: none. */
export interface Replicas {
  readonly count: number;
  readonly timeoutMs: number;
}

/** The commands behind a script whose writes replicas have to confirm. */
export function waitFor({ count, timeoutMs }: Replicas): readonly (readonly string[])[] {
  return count === 0 ? [] : [["WAIT", String(count), String(timeoutMs)]];
}

/** Why a write is not confirmed, by the replies of those commands; undefined: it is. */
export function unconfirmed(
  { count, timeoutMs }: Replicas,
  [confirmed]: readonly (Reply | undefined)[],
): RateLimiterUnavailable | undefined {
  if (Number(confirmed ?? 0) >= count) return undefined;
  return new RateLimiterUnavailable(`Fewer than ${count} replicas confirmed a write within ${timeoutMs} ms.`);
}

/** A value that becomes another one; empty: none. Rows are compared by their versions. */
export interface Swap {
  readonly key: string;
  readonly form: "row" | "record" | "text";
  readonly is: Uint8Array | string;
  readonly becomes: Uint8Array | string;
}

/** Values of a server: read, and replaced by others if they are as they were read. */
export class Values {
  readonly #connection: RedisConnection;

  constructor(connection: RedisConnection) {
    this.#connection = connection;
  }

  /** Values that there are: an empty one is none. */
  async of(keys: readonly string[]): Promise<readonly (Uint8Array | null)[]> {
    if (keys.length === 0) return [];
    const [values] = await this.#connection.send([["MGET", ...keys]]);
    assert(Array.isArray(values) && values.length === keys.length, `MGET of ${keys.length} keys`);
    return (values as readonly (Uint8Array | null)[]).map((value) => (value?.length === 0 ? null : value));
  }

  /** Members of an index, in their order. */
  async range(index: string, from: string, to: string, limitMax: number): Promise<readonly string[]> {
    const command = ["ZRANGEBYLEX", index, from, to, "LIMIT", "0", String(limitMax)];
    const [members] = await this.#connection.send([command]);
    return (members as readonly Reply[]).map((member) => textOf(member) ?? "");
  }

  /** `done`, or the value that another one has changed meanwhile; undefined: the indexes were swept. */
  async swapped(
    at: NamespaceKeys,
    swaps: readonly Swap[],
    hints: readonly Hint[],
    replicas: Replicas,
  ): Promise<"done" | Swap | undefined> {
    const indexes = [...new Set(hints.map(({ index }) => index))];
    const keys = [at.writes, ...swaps.map(({ key }) => key), ...indexes];
    const args = [
      String(swaps.length),
      ...swaps.flatMap(({ form, is, becomes }) => [form, is, becomes]),
      ...hints.flatMap(({ index, member }) => [String(swaps.length + 2 + indexes.indexOf(index)), member]),
    ];
    const ahead = hints.map(hintCommand);
    const beside = { ahead, behind: waitFor(replicas) };
    const { reply, behind, aheadError } = await this.#connection.run(SWAP, keys, args, SCRIPT_PATIENCE, beside);
    const place = Number(reply);
    if (place === 0) {
      const cause = unconfirmed(replicas, behind);
      if (cause !== undefined) throw cause;
      return "done";
    }
    if (place < 0 && aheadError !== undefined) throw aheadError;
    return place < 0 ? undefined : swaps[place - 1];
  }

  /** What is asked may be asked again: reads, and swaps, which find what they have done already. */
  async asked<Value>(work: () => Promise<Value>): Promise<Value> {
    try {
      try {
        return await work();
      } catch (error) {
        if (appliedBy(error) !== "unknown") throw error;
        return await work();
      }
    } catch (error) {
      throw thrownFor(error, this.#connection.name);
    }
  }
}
