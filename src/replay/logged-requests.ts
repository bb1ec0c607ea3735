import { type Also, leavingOut, type Tokens } from "../domain/charge/amounts.ts";
import { given } from "../domain/names/given.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import type { LineRequest } from "./request-line.ts";

export interface LoggedRequest {
  readonly atMs: number;
  /** Measures that nothing counts are left out: the logs of today may name some that the limits of tomorrow do not count. */
  readonly request: AcquireRequest;
  /** The totals that it was settled to; undefined: those that it took. */
  readonly actual: Tokens | undefined;
  /** When its work ended; the same as `atMs` if the log does not say. */
  readonly endMs: number;
}

/**
 * The requests of a log, as columns of numbers: a million objects would take ten times the room, and the garbage collector would walk
 * through them again and again.
 */
export class LoggedRequests {
  readonly #texts = new Numbered();
  /** The measures of an object of amounts, in its order. */
  readonly #shapes = new Numbered();
  readonly #measures: (readonly string[])[] = [];
  readonly #atMs = new Column();
  readonly #endMs = new Column();
  readonly #entities = new Column();
  readonly #resources = new Column();
  /** The shape of `consume`, then that of `actual`; `NO_SHAPE`: there is none. */
  readonly #shapesOfAmounts = new Column();
  /** The place of the first amount of each. */
  readonly #firstAmounts = new Column();
  readonly #amounts = new Column();
  readonly #also = new Map<number, Also>();
  #isInOrder = true;

  get length(): number {
    return this.#atMs.length;
  }

  /** The first instant. */
  get fromMs(): number {
    return this.#atMs.values().reduce((first, atMs) => Math.min(first, atMs), Number.POSITIVE_INFINITY);
  }

  /** The last instant. */
  get toMs(): number {
    return this.#atMs.values().reduce((last, atMs) => Math.max(last, atMs), Number.NEGATIVE_INFINITY);
  }

  add({ atMs, endMs, entityId, resource, consume, actual, also }: LineRequest): void {
    const { length } = this;
    if (length > 0 && atMs < this.#atMs.at(length - 1)) this.#isInOrder = false;
    if (also !== undefined) this.#also.set(length, also);
    this.#atMs.push(atMs);
    this.#endMs.push(endMs);
    this.#entities.push(this.#texts.numberOf(entityId));
    this.#resources.push(this.#texts.numberOf(resource));
    this.#addAmounts(consume);
    this.#addAmounts(actual);
  }

  #addAmounts(tokens: Tokens | undefined): void {
    this.#firstAmounts.push(this.#amounts.length);
    if (tokens === undefined) {
      this.#shapesOfAmounts.push(NO_SHAPE);
      return;
    }
    const measures = Object.keys(tokens);
    const shape = this.#shapes.numberOf(JSON.stringify(measures));
    this.#measures[shape] ??= measures;
    this.#shapesOfAmounts.push(shape);
    for (const measure of measures) this.#amounts.push(tokens[measure] as number);
  }

  /** By their instants; those of one instant stay in the order of their lines. */
  *inOrder(): Generator<LoggedRequest, void> {
    const order = this.#isInOrder ? undefined : this.#sorted();
    for (let i = 0; i < this.length; i++) yield this.#at(order === undefined ? i : (order[i] as number));
  }

  #sorted(): Uint32Array {
    const atMs = this.#atMs.values();
    const order = Uint32Array.from(atMs, (_, i) => i);
    return order.sort((a, b) => (atMs[a] as number) - (atMs[b] as number) || a - b);
  }

  #at(i: number): LoggedRequest {
    const entityId = this.#texts.textOf(this.#entities.at(i));
    const resource = this.#texts.textOf(this.#resources.at(i));
    const consume = this.#amountsAt(2 * i);
    const actual = this.#amountsAt(2 * i + 1);
    const request = given({ entityId, resource, consume, also: this.#also.get(i) });
    return { atMs: this.#atMs.at(i), request: leavingOut(request, "ignore"), actual, endMs: this.#endMs.at(i) };
  }

  #amountsAt(place: number): Tokens | undefined {
    const shape = this.#shapesOfAmounts.at(place);
    if (shape === NO_SHAPE) return undefined;
    const first = this.#firstAmounts.at(place);
    const tokens: Record<string, number> = {};
    for (const [i, measure] of (this.#measures[shape] as readonly string[]).entries()) {
      tokens[measure] = this.#amounts.at(first + i);
    }
    return tokens;
  }
}

const NO_SHAPE = -1;

/** Texts by number, each once: a million lines have few of them. */
class Numbered {
  readonly #numbers = new Map<string, number>();
  readonly #texts: string[] = [];

  numberOf(text: string): number {
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    const number = this.#texts.push(text) - 1;
    this.#numbers.set(text, number);
    return number;
  }

  textOf(number: number): string {
    return this.#texts[number] as string;
  }
}

/** A list of numbers that grows. */
class Column {
  length = 0;
  #values = new Float64Array(1_024);

  push(value: number): void {
    if (this.length === this.#values.length) {
      const values = new Float64Array(2 * this.length);
      values.set(this.#values);
      this.#values = values;
    }
    this.#values[this.length++] = value;
  }

  at(i: number): number {
    return this.#values[i] as number;
  }

  values(): Float64Array {
    return this.#values.subarray(0, this.length);
  }
}
