import type { MaybePromise } from "../../ports/bucket-store.ts";

/**
 * An answer that is asked for until there is one, and then remembered. Calls that come while a question is under way share it, so
 * that a store that is slow or down is asked once at a time. A failure is told to those who waited for it and is not remembered:
 * the next call asks again.
 */
export class RememberedAnswer<Value> {
  readonly #ask: () => Promise<Value>;
  #state:
    | { readonly kind: "unknown" }
    | { readonly kind: "asking"; readonly answer: Promise<Value> }
    | { readonly kind: "known"; readonly value: Value } = { kind: "unknown" };

  constructor(ask: () => Promise<Value>) {
    this.#ask = ask;
  }

  get(): MaybePromise<Value> {
    switch (this.#state.kind) {
      case "known":
        return this.#state.value;
      case "asking":
        return this.#state.answer;
      case "unknown": {
        const answer = this.#asked();
        this.#state = { kind: "asking", answer };
        return answer;
      }
    }
  }

  async #asked(): Promise<Value> {
    try {
      const value = await this.#ask();
      this.#state = { kind: "known", value };
      return value;
    } catch (error) {
      this.#state = { kind: "unknown" };
      throw error;
    }
  }
}
