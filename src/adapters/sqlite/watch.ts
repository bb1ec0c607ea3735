import type { Connection, Statement } from "./connection.ts";
import { faultOf, thrownFor } from "./faults.ts";

/**
 * Notices what other connections did to the file. `PRAGMA data_version` changes when any of them has committed: as long as it
 * does not, everything remembered about the file still holds, the generation of configuration among it.
 */
export class Watch {
  readonly #connection: Connection;
  readonly #dataVersion: Statement;
  readonly #read: Statement;
  readonly #bump: Statement;
  readonly #onForeignWrite: () => void;
  #seenVersion: number | undefined;
  #generation = 0;
  #turn: "none" | "open" | "checked" = "none";

  constructor(connection: Connection, onForeignWrite: () => void) {
    this.#connection = connection;
    this.#dataVersion = connection.prepare("PRAGMA data_version");
    this.#read = connection.prepare("SELECT value FROM generation");
    this.#bump = connection.prepare("UPDATE generation SET value = value + 1 RETURNING value");
    this.#onForeignWrite = onForeignWrite;
    connection.read(() => this.refresh());
  }

  /** The generation as of the last look. Inside a transaction, after `refresh`, it is exact. */
  get generation(): number {
    return this.#generation;
  }

  /** Looks whether anything was written elsewhere; inside a transaction the answer holds until its end. */
  refresh(): void {
    const version = this.#dataVersion.get()?.[0] as number;
    if (version === this.#seenVersion) return;
    // In this order: a write between the two reads shows at the next look, and is never missed.
    this.#seenVersion = version;
    this.#onForeignWrite();
    this.#generation = this.#read.get()?.[0] as number;
  }

  /**
   * The generation for a caller outside a transaction. While a flush is due in this very turn one look is enough for all:
   * what they go on to take is checked against the generation again, inside the transaction.
   */
  lookedUp(): number {
    this.#connection.requireOpen();
    if (this.#turn === "checked") return this.#generation;
    try {
      this.refresh();
    } catch (error) {
      // Another process is recovering the log. The number last seen will do: takes compare it again.
      if (faultOf(error) === "other") throw thrownFor(error, this.#connection.file);
    }
    if (this.#turn === "open") this.#turn = "checked";
    return this.#generation;
  }

  /** Another number once another connection has committed. While another process recovers the log: the one that was seen last. */
  foreignWrites(): number {
    this.#connection.requireOpen();
    try {
      return this.#dataVersion.get()?.[0] as number;
    } catch (error) {
      if (faultOf(error) === "other") throw thrownFor(error, this.#connection.file);
      return this.#seenVersion ?? 0;
    }
  }

  /** A flush was put off to the end of this turn. */
  openTurn(): void {
    this.#turn = "open";
  }

  closeTurn(): void {
    this.#turn = "none";
  }

  /** The next generation, written in the transaction under way; `adopt` it once that is committed. */
  bump(): number {
    return this.#bump.get()?.[0] as number;
  }

  adopt(generation: number): void {
    this.#generation = generation;
  }
}
