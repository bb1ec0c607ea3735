import type { Connection, Reply } from "./connection.ts";
import { textOf } from "./connection.ts";

/** Bounds of ZRANGEBYLEX. */
export interface Range {
  readonly from: string;
  readonly to: string;
}

/** One trip reads at most so many entries of an index, and the values that they name. */
export const RANGE_MAX = 500;

/** Some entries of an index, in its order; backwards from the end of the range. */
export async function membersIn(
  connection: Connection,
  index: string,
  range: Range,
  { limitMax, isBackwards }: { readonly limitMax: number; readonly isBackwards: boolean },
): Promise<readonly string[]> {
  const limit = ["LIMIT", "0", String(limitMax)];
  const { from, to } = range;
  const command = isBackwards
    ? ["ZREVRANGEBYLEX", index, to, from, ...limit]
    : ["ZRANGEBYLEX", index, from, to, ...limit];
  const [reply] = await connection.send([command]);
  return (reply as readonly Reply[]).map((member) => textOf(member) ?? "");
}

/** All entries of a range. */
export async function allMembersIn(connection: Connection, index: string, range: Range): Promise<readonly string[]> {
  const all: string[] = [];
  for (let { from } = range; ; ) {
    const some = await membersIn(
      connection,
      index,
      { from, to: range.to },
      { limitMax: RANGE_MAX, isBackwards: false },
    );
    all.push(...some);
    if (some.length < RANGE_MAX) return all;
    from = `(${some.at(-1)}`;
  }
}

/** The values of keys of one slot; without a key no question. */
export async function valuesOf(connection: Connection, keys: readonly string[]): Promise<readonly Reply[]> {
  if (keys.length === 0) return [];
  const [reply] = await connection.send([["MGET", ...keys]]);
  return reply as readonly Reply[];
}
