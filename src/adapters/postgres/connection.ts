import { LimiterError } from "../../domain/names/errors.ts";
import { faultOf, thrownFor } from "./faults.ts";

export type Row = Readonly<Record<string, unknown>>;

/** What of a client is used: a `pg.Pool`, a `pg.Client`, PGlite, or any object that has this. */
export interface PostgresClient {
  /** Runs one statement with values for its parameters `$1`, `$2` and so on. */
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** How long is waited for a connection, and then for the answer. */
export interface Patience {
  readonly connectMs: number;
  readonly answerMs: number;
}

/** How statements reach the server: one call is one statement, in a transaction of its own. */
export interface Session {
  /** Rejects with the error of the driver, or with `TimeIsUp`; then the statement may still be under way. */
  run(text: string, values: readonly unknown[], patience: Patience): Promise<readonly Row[]>;
  close(): Promise<void>;
}

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
  readonly #adminPatience: Patience;
  readonly #texts = new Map<string, string>();
  #closing: Promise<void> | undefined;

  constructor(parts: {
    readonly name: string;
    readonly schema: string;
    /** For takes; `others` may be the same. */
    readonly takes: Session;
    readonly others: Session;
    readonly adminTimeoutMs: number;
  }) {
    this.name = parts.name;
    this.schema = parts.schema;
    this.#takes = parts.takes;
    this.#others = parts.others;
    this.#adminPatience = { connectMs: parts.adminTimeoutMs, answerMs: parts.adminTimeoutMs };
  }

  /**
   * Runs one statement that is no take. It waits for the whole time of administration, and throws what a caller may see: of the
   * driver's errors none gets out.
   */
  async query(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    this.requireOpen();
    try {
      return await this.#others.run(this.text(text), values, this.#adminPatience);
    } catch (error) {
      throw thrownFor(error, this.name);
    }
  }

  /**
   * The same again while the server answers that it has rolled the statement back for the sake of another one. For statements that may be
   * repeated whatever became of them, such as reads, a lost connection counts as well.
   */
  async queryAgain(
    text: string,
    values: readonly unknown[],
    repeats: "always" | "rolledBack",
  ): Promise<readonly Row[]> {
    this.requireOpen();
    for (let tries = 1; ; tries++) {
      try {
        return await this.#others.run(this.text(text), values, this.#adminPatience);
      } catch (error) {
        const fault = faultOf(error);
        const mayRepeat = fault === "rolledBack" || (repeats === "always" && fault === "unknown");
        if (!mayRepeat || tries >= TRIES_MAX) throw thrownFor(error, this.name);
      }
    }
  }

  /** Runs a statement that is no take; rejects with the driver's own error, for whoever tells what it means for a commit. */
  runOther(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.#others.run(this.text(text), values, this.#adminPatience);
  }

  /** Runs a statement of a take; rejects with the driver's own error, for whoever tells what it means for the take. */
  runTake(text: string, values: readonly unknown[], patience: Patience): Promise<readonly Row[]> {
    return this.#takes.run(this.text(text), values, patience);
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
