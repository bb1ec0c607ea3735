import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import type { TestContext } from "node:test";
import {
  type Answer,
  type Call,
  type FakeProvider,
  startProvider,
  type TokensByKind,
} from "../../examples/fake-provider/provider.ts";
import { CHANNELS, type DegradedEvent, Limit, RateLimiter } from "../../src/entry/index.ts";

export const MODEL = "gpt-5-mini";
export const KEY = "key-1";
export const RPM = 60;
export const TPM = 10_000;

export const USAGE: TokensByKind = { input: 100, cachedInput: 40, cacheWrite: 8, output: 30, reasoning: 5 };
/** Of all kinds. */
export const USED = 183;
/** Five words of 36 characters. */
export const TEXT = "A bucket that refills while you wait.";

export const TEXT_ANSWER: Answer = { kind: "text", text: TEXT, usage: USAGE };

/** A limiter whose clock stands still, and a provider: what is missing from a bucket is what was charged. */
export async function limitedProvider(t: TestContext, answer: (call: Call) => Answer | Promise<Answer>) {
  const clock = { nowMs: Date.UTC(2026, 0, 1, 12) };
  const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => clock.nowMs } });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", RPM), Limit.perMinute("tpm", TPM)]);
  const provider: FakeProvider = await startProvider(answer);
  t.after(async () => {
    await provider.close();
    await limiter.close();
  });
  return {
    limiter,
    provider,
    clock,
    /** Whole tokens by limit that an entity was charged. */
    async charged(entityId = KEY, resource = MODEL): Promise<Record<string, number>> {
      const held = await limiter.available({ entityId, resource });
      return Object.fromEntries(held.map(({ limit, capacity, available }) => [limit, capacity - available]));
    },
  };
}

/** Waits, turn by turn, for what happens after a reader has left; the check fails if it never does. */
export async function eventually(check: () => Promise<void>): Promise<void> {
  for (let turn = 0; turn < 2_000; turn++) {
    try {
      return await check();
    } catch {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  await check();
}

/** What is published on the channel `degraded` while the test runs. */
export function degradedEvents(t: TestContext): readonly DegradedEvent[] {
  const events: DegradedEvent[] = [];
  const listener = (event: unknown) => void events.push(event as DegradedEvent);
  diagnostics.subscribe(CHANNELS.degraded, listener);
  t.after(() => diagnostics.unsubscribe(CHANNELS.degraded, listener));
  return events;
}

/** A promise that the test keeps. */
export function promised(): { readonly promise: Promise<void>; readonly keep: () => void } {
  let keep = () => {};
  const promise = new Promise<void>((resolve) => {
    keep = resolve;
  });
  return { promise, keep };
}

export async function thrownBy(
  call: () => PromiseLike<unknown>,
): Promise<Error & { status?: number; headers?: Headers }> {
  try {
    await call();
  } catch (error) {
    assert.ok(error instanceof Error);
    return error;
  }
  assert.fail("it should throw");
}
