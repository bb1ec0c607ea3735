import type { MaybePromise } from "../../ports/bucket-store.ts";

/**
 * Asks until there is an answer, and remembers it. Calls during a question share it, so that a slow store is asked once at a time. A
 * failure rejects these calls and is not remembered.
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
