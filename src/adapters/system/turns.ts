import type { Turns } from "../../ports/system.ts";

/** Turns of the event loop: timers, sockets and signals have theirs in between. */
export const systemTurns: Turns = {
  next: () => new Promise((resolve) => setImmediate(resolve)),
};
