import type { Clock } from "../ports/system.ts";
import type { Acquirer, Outcome } from "./acquirer.ts";
import { type AcquireRequest, checkWait } from "./request.ts";

/** Attempts until the tokens are there or `wait.maxMs` are over, in turn with others of this process on the same bucket. */
export async function acquireWaiting(acquirer: Acquirer, clock: Clock, request: AcquireRequest): Promise<Outcome> {
  const deadlineMs = clock.now() + checkWait(request.wait);
  const key = `${request.entityId}\n${request.resource}`;
  if (!acquirer.room.has(key)) {
    const outcome = await acquirer.attempt(request);
    if (outcome.ok) return outcome;
  }
  const place = acquirer.room.enter(key);
  try {
    for (;;) {
      const leftMs = deadlineMs - clock.now();
      if (!place.atHead()) {
        // It was never this one's turn; asking now would jump the queue.
        if (leftMs <= 0) return await acquirer.peek(request);
        await place.pause(leftMs, clock, request.signal);
        continue;
      }
      const outcome = await acquirer.attempt(request);
      if (outcome.ok || leftMs <= 0) return outcome;
      await place.pause(Math.min(outcome.retryAfterMs, leftMs), clock, request.signal);
    }
  } finally {
    place.leave();
  }
}
