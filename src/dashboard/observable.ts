import { useEffect, useState } from "preact/hooks";

/** A value that components follow. */
export class Observable<Value> {
  #value: Value;
  readonly #listeners = new Set<(value: Value) => void>();

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  set(value: Value): void {
    this.#value = value;
    for (const listener of [...this.#listeners]) listener(value);
  }

  subscribe(listener: (value: Value) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

/** What happens, for whoever listens at that moment. */
export class Topic<Message> {
  readonly #listeners = new Set<(message: Message) => void>();

  publish(message: Message): void {
    for (const listener of [...this.#listeners]) listener(message);
  }

  subscribe(listener: (message: Message) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

export function useObserved<Value>(observable: Observable<Value>): Value {
  const [value, setValue] = useState(observable.value);
  useEffect(() => {
    // It may have changed between the first drawing and this.
    setValue(() => observable.value);
    return observable.subscribe((next) => setValue(() => next));
  }, [observable]);
  return value;
}
