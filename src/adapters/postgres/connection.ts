import { LimiterError } from "../../domain/names/errors.ts";
import { faultOf, thrownFor } from "./faults.ts";

export type Row = Readonly<Record<string, unknown>>;

/** What of a client is used: a `pg.Pool`, a `pg.Client`, PGlite, or any object that has this. */
export interface PostgresClient {
  /** Runs one statement with values for its parameters `$1`, `$2` and so on. */
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** A statement waits this long for a connection, and then for the answer. */
export interface Patience {
  readonly connectMs: number;
  readonly answerMs: number;
}

/** The way of statements to the server: one call is one statement, in a transaction of its own. */
export interface Session {
  /** Rejects with the error of the driver, or with `TimeIsUp`; then the statement may still be under way. */
  run(text: string, values: readonly unknown[], patience: Patience): Promise<readonly Row[]>;
  close(): Promise<void>;
}

/** Runs one statement on a connection. */
type Run = (text: string, values: readonly unknown[]) => Promise<unknown>;

/**
 * The schema of one store on a server. Statements name what they mean with `@.` in front (`SELECT value FROM @.generation`): a
 * search path would be state of the session, which a pooler does not keep.
 */
export class Connection {
  /** For messages: `postgres://host:5432/db?schema=s`, without a user and without a password. */
  readonly name: string;
  readonly schema: string;
  readonly #takes: Session;
  readonly #others: Session;
  readonly #othersMax: number;
  readonly #warmBy: ((warm: (run: Run) => Promise<void>) => Promise<void>) | undefined;
  readonly #adminPatience: Patience;
  readonly #texts = new Map<string, string>();
  /** Statements that are no takes and under way by `#others`. */
  #othersUnderWay = 0;
  #closing: Promise<void> | undefined;

  constructor(parts: {
    readonly name: string;
    readonly schema: string;
    /** For takes; `others` may be the same. */
    readonly takes: Session;
    readonly others: Session;
    /** Calls that are no takes have at most this many connections. Default: one. */
    readonly othersMax?: number;
    /** Runs this on connections before requests use them. Absent: they are the caller's. */
    readonly warmBy?: (warm: (run: Run) => Promise<void>) => Promise<void>;
    readonly adminTimeoutMs: number;
  }) {
    this.name = parts.name;
    this.schema = parts.schema;
    this.#takes = parts.takes;
    this.#others = parts.others;
    this.#othersMax = parts.othersMax ?? 1;
    this.#warmBy = parts.warmBy;
    this.#adminPatience = { connectMs: parts.adminTimeoutMs, answerMs: parts.adminTimeoutMs };
  }

  /**
   * Runs one statement that is no take. It waits for the whole time of administration, and throws what a caller may see: of the
   * driver's errors none gets out.
   */
  async query(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    this.requireOpen();
    try {
      return await this.#run(this.#others, text, values);
    } catch (error) {
      throw thrownFor(error, this.name);
    }
  }

  /**
   * Runs one statement of a request that only reads, and repeats it as `queryAgain` does. It does not wait behind a long list or a sweep:
   * while something else is under way, a connection of takes serves it.
   */
  readAgain(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.#again(text, values, "always", this.#othersUnderWay < this.#othersMax ? this.#others : this.#takes);
  }

  /**
   * Runs one statement that is no take, again while the server has rolled it back for the sake of another one. For statements that may
   * be repeated whatever became of them, such as reads, a lost connection counts as well.
   */
  queryAgain(text: string, values: readonly unknown[], repeats: "always" | "rolledBack"): Promise<readonly Row[]> {
    return this.#again(text, values, repeats, this.#others);
  }

  async #again(
    text: string,
    values: readonly unknown[],
    repeats: "always" | "rolledBack",
    session: Session,
  ): Promise<readonly Row[]> {
    this.requireOpen();
    for (let tries = 1; ; tries++) {
      try {
        return await this.#run(session, text, values);
      } catch (error) {
        const fault = faultOf(error);
        const mayRepeat = fault === "rolledBack" || (repeats === "always" && fault === "unknown");
        if (!mayRepeat || tries >= TRIES_MAX) throw thrownFor(error, this.name);
      }
    }
  }

  /** Runs a statement that is no take; rejects with the driver's own error, for whoever tells what it means for a commit. */
  runOther(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.#run(this.#others, text, values);
  }

  /** Runs a statement of a take; rejects with the driver's own error, for whoever tells what it means for the take. */
  runTake(text: string, values: readonly unknown[], patience: Patience): Promise<readonly Row[]> {
    return this.#takes.run(this.text(text), values, patience);
  }

  /** Connections run this before requests use them, from now on, beside everything else. */
  warmBy(warm: (run: Run) => Promise<void>): void {
    void this.#warmBy?.((run) => warm((text, values) => run(this.text(text), values)));
  }

  /** The statement for this schema. */
  text(text: string): string {
    let own = this.#texts.get(text);
    if (own === undefined) {
      own = inSchema(text, this.schema);
      this.#texts.set(text, own);
    }
    return own;
  }

  requireOpen(): void {
    if (this.#closing === undefined) return;
    throw new LimiterError("closed", `The store ${this.name} is closed; open it again with RateLimiter.open.`);
  }

  /** From now on every call is refused; ends when those under way have ended. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #run(session: Session, text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    const counted = session === this.#others ? 1 : 0;
    this.#othersUnderWay += counted;
    try {
      return await session.run(this.text(text), values, this.#adminPatience);
    } finally {
      this.#othersUnderWay -= counted;
    }
  }

  async #end(): Promise<void> {
    await this.#takes.close();
    if (this.#others !== this.#takes) await this.#others.close();
  }
}

const TRIES_MAX = 5;

/** A text with the name of the schema in place of each `@`. Names of schemas are checked: nothing in them needs escaping. */
export function inSchema(text: string, schema: string): string {
  return text.replaceAll("@.", `"${schema}".`).replaceAll("@schema", schema);
}
