import { useEffect, useRef, useState } from "preact/hooks";
import { type HeldLimit, levelAt, type Rate } from "./level.ts";

/** Passes messages to those that listen at that moment. */
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

/** A value that components follow. */
export class Observable<Value> extends Topic<Value> {
  #value: Value;

  constructor(value: Value) {
    super();
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  set(value: Value): void {
    this.#value = value;
    this.publish(value);
  }
}

/** A reference to what the last drawing passed, for callbacks that outlive a drawing. */
export function useLatest<Value>(value: Value): { readonly current: Value } {
  const latest = useRef(value);
  latest.current = value;
  return latest;
}

export function useObserved<Value>(observable: Observable<Value>): Value {
  const [value, setValue] = useState(observable.value);
  useEffect(() => {
    // The value may have changed between the first drawing and this effect.
    setValue(() => observable.value);
    return observable.subscribe((next) => setValue(() => next));
  }, [observable]);
  return value;
}

// All that moves on the page shares one clock, so that a row and its opened panel show the same number.

const TICK_MS = 250;
const CALM_TICK_MS = 1_000;

const tick = new Observable(0);
let followers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

function follow(listener: (nowMs: number) => void): () => void {
  const unsubscribe = tick.subscribe(listener);
  followers += 1;
  if (timer === undefined) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    timer = setInterval(() => tick.set(performance.now()), calm ? CALM_TICK_MS : TICK_MS);
  }
  return () => {
    unsubscribe();
    followers -= 1;
    if (followers > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Reads a value at the last tick of the page's clock, and draws again whenever it is another one. */
export function useTicking<Value>(read: (nowMs: number) => Value, isMoving: boolean): Value {
  const latest = useLatest(read);
  const value = read(tick.value);
  const [, setShown] = useState(value);
  useEffect(() => {
    if (isMoving) return follow((nowMs) => setShown(() => latest.current(nowMs)));
  }, [isMoving]);
  return value;
}

/** The whole tokens of a limit now: those that were read, and those that have dripped in since. */
export function useLevel(held: HeldLimit, rate: Rate | undefined, readAtMs: number): number {
  const read = (nowMs: number) => levelAt(held, rate, nowMs - readAtMs);
  const isMoving = rate !== undefined && held.kind === "drip" && held.available < held.capacity;
  return useTicking(read, isMoving);
}
