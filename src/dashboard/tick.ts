import { useEffect, useRef, useState } from "preact/hooks";
import { type HeldLimit, levelAt, type Rate } from "./level.ts";
import { Observable } from "./observable.ts";

// One time for all that moves on the page: what is drawn twice, in a row and in its opened panel, is the same number in both.

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

/** What is read off the page's clock at the last tick; drawn again whenever it is another value. */
export function useTicking<Value>(read: (nowMs: number) => Value, isMoving: boolean): Value {
  const current = useRef(read);
  current.current = read;
  const value = read(tick.value);
  const [, setShown] = useState(value);
  useEffect(() => {
    if (isMoving) return follow((nowMs) => setShown(() => current.current(nowMs)));
  }, [isMoving]);
  return value;
}

/** Whole tokens now: a reading, and what has dripped in since. */
export function useLevel(held: HeldLimit, rate: Rate | undefined, readAtMs: number): number {
  const read = (nowMs: number) => levelAt(held, rate, nowMs - readAtMs);
  const isMoving = rate !== undefined && held.kind === "drip" && held.available < held.capacity;
  return useTicking(read, isMoving);
}
