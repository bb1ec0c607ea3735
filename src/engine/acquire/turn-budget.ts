import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Turns } from "../../ports/system.ts";

/** How many rows are read in one turn: at some ten microseconds each, a few milliseconds. */
const ROWS_PER_TURN = 128;

/**
 * What a limiter may ask in one turn of a store that answers at once. Such a store never lets go of the thread by itself: a walk
 * over all its rows would keep timers, sockets and signals waiting until it is through. So a long page is read in parts, and
 * once enough was read, or something was written, the next call waits for the next turn. Between two parts others may write: what is there
 * from the first part to the last is shown once, what comes or goes meanwhile may be shown or not, as between two pages.
 */
export class TurnBudget {
  readonly #turns: Turns;
  #spent = 0;

  constructor(turns: Turns) {
    this.#turns = turns;
  }

  /** A call that reads one thing. */
  read<Reply>(call: () => MaybePromise<Reply>): MaybePromise<Reply> {
    return this.#call(1, call);
  }

  /** A call that changes something: whoever wants to stop after it, must be heard. */
  write<Reply>(call: () => MaybePromise<Reply>): MaybePromise<Reply> {
    return this.#call(ROWS_PER_TURN, call);
  }

  page<Item>(request: PageRequest, read: (part: PageRequest) => MaybePromise<Page<Item>>): MaybePromise<Page<Item>> {
    if (this.#spent + request.limit > ROWS_PER_TURN) return this.#inParts(request, read, []);
    const page = read(request);
    if (page instanceof Promise) return page;
    this.#spent += costOf(page, request.limit);
    // A store may stop before the page is full, lest it looks at too much in one go.
    if (page.cursor === undefined || page.items.length >= request.limit) return page;
    return request.mayBeShort ? page : this.#inParts({ ...request, cursor: page.cursor }, read, page.items);
  }

  /** Things that are read by a list of keys, in their order. */
  async all<Key, Found>(
    keys: readonly Key[],
    read: (part: readonly Key[]) => MaybePromise<readonly Found[]>,
  ): Promise<readonly Found[]> {
    const found: Found[] = [];
    while (found.length < keys.length) {
      const room = await this.#room();
      const part = keys.slice(found.length, found.length + room);
      this.#spent += part.length;
      for (const one of await read(part)) found.push(one);
    }
    return found;
  }

  #call<Reply>(cost: number, call: () => MaybePromise<Reply>): MaybePromise<Reply> {
    if (this.#spent >= ROWS_PER_TURN) return this.#later(cost, call);
    this.#spent += cost;
    return call();
  }

  async #later<Reply>(cost: number, call: () => MaybePromise<Reply>): Promise<Reply> {
    await this.#room();
    this.#spent += cost;
    return await call();
  }

  async #inParts<Item>(
    { limit, cursor, mayBeShort }: PageRequest,
    read: (part: PageRequest) => MaybePromise<Page<Item>>,
    first: readonly Item[],
  ): Promise<Page<Item>> {
    const items = [...first];
    for (let at = cursor; ; ) {
      const part = Math.min(limit - items.length, await this.#room());
      const page = await read({ limit: part, ...(at === undefined ? {} : { cursor: at }) });
      this.#spent += costOf(page, part);
      for (const item of page.items) items.push(item);
      at = page.cursor;
      if (at === undefined) return { items };
      if (mayBeShort || items.length >= limit) return { items, cursor: at };
    }
  }

  /** How many rows may be read in this turn, or, where none may be, in the next. */
  async #room(): Promise<number> {
    if (this.#spent >= ROWS_PER_TURN) {
      await this.#turns.next();
      this.#spent = 0;
    }
    return ROWS_PER_TURN - this.#spent;
  }
}

/** A page that is not full although there are more has looked at many rows for few. */
function costOf({ items, cursor }: Page<unknown>, limit: number): number {
  return cursor !== undefined && items.length < limit ? ROWS_PER_TURN : 1 + items.length;
}
