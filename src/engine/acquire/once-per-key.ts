import { canonical, checkKey, keyInProgress, keyReused } from "../../domain/lease/idempotency.ts";
import type { KeyFinish, KeyMark } from "../../ports/bucket-store.ts";
import type { LeaseStore } from "../../ports/lease-store.ts";
import type { EngineDeps } from "../limiter/settings.ts";

const DEAD_AFTER_MS = 15_000;
const RENEW_EVERY_MS = 5_000;

interface KeyDeps {
  readonly leases: LeaseStore;
  readonly engine: Pick<EngineDeps, "clock" | "random" | "digest">;
}

/** A request that may have been sent before. */
interface KeyedRequest {
  readonly idempotencyKey: string | undefined;
  /** The owner of the key; undefined: keys without an owner. */
  readonly keyOwner: string | undefined;
  /** The operation and its body: another one under the same key is an error. */
  readonly asks: unknown;
  /** True if it may take so long that it must show signs of life. */
  readonly waits: boolean;
  /** After this time without a sign of life work counts as dead, and a repeat begins anew. Absent: 15 s. */
  readonly deadAfterMs?: number | undefined;
}

/** `isKept`: the answer was stored under the key together with the work. */
export interface KeyedResult<Answer> {
  readonly answer: Answer;
  readonly isKept: boolean;
}

/**
 * Runs work once for each idempotency key of an owner in one namespace: a repeat gets the first answer. `unreachable` answers or throws if
 * the key cannot be looked up.
 */
export async function oncePerKey<Answer>(
  deps: KeyDeps,
  request: KeyedRequest,
  work: (mark: KeyMark | undefined) => Promise<KeyedResult<Answer>>,
  unreachable?: (cause: unknown) => Answer,
): Promise<{ readonly answer: Answer; readonly replayed: boolean }> {
  const { idempotencyKey, keyOwner } = request;
  if (idempotencyKey === undefined) return { answer: (await work(undefined)).answer, replayed: false };
  const { digest } = deps.engine;
  const given = checkKey(idempotencyKey);
  // A key has no line breaks, so no caller can name a key of another owner.
  const key = keyOwner === undefined ? given : `${digest.of(keyOwner)}\n${given}`;
  let begun: KeyMark | { readonly answer: Answer };
  try {
    const { deadAfterMs = DEAD_AFTER_MS } = request;
    begun = await begin<Answer>(deps, { key, given, deadAfterMs }, digest.of(canonical(request.asks)));
  } catch (error) {
    if (unreachable === undefined) throw error;
    return { answer: unreachable(error), replayed: false };
  }
  if ("answer" in begun) return { answer: begun.answer, replayed: true };
  return { answer: await workUnder(deps, begun, request.waits, work), replayed: false };
}

/** `key` is the stored form, `given` that of its owner. */
async function begin<Answer>(
  { leases, engine }: KeyDeps,
  { key, given, deadAfterMs }: { readonly key: string; readonly given: string; readonly deadAfterMs: number },
  print: string,
): Promise<KeyMark | { readonly answer: Answer }> {
  const nowMs = engine.clock.now();
  const mark = engine.random.id();
  const reply = await leases.beginKey({ key, mark, fingerprint: print, nowMs, untilMs: nowMs + deadAfterMs });
  if (reply.kind === "begun") return { key, mark };
  const { fingerprint: first, answer } = reply.record;
  if (first !== print) throw keyReused(given);
  if (answer === undefined) throw keyInProgress(given);
  return { answer: JSON.parse(answer) as Answer };
}

async function workUnder<Answer>(
  deps: KeyDeps,
  mark: KeyMark,
  waits: boolean,
  work: (mark: KeyMark) => Promise<KeyedResult<Answer>>,
): Promise<Answer> {
  const ended = new AbortController();
  if (waits) keepAlive(deps, mark, ended.signal);
  let isKept = false;
  try {
    const worked = await work(mark);
    isKept = worked.isKept;
    return worked.answer;
  } finally {
    ended.abort();
    // Only a granted answer is remembered. If the release fails, the key is free when its time is up, and the outcome of the work counts.
    if (!isKept) await release(deps, mark).catch(() => {});
  }
}

/** The answer to store under a key. */
export function finishOf(mark: KeyMark, answer: unknown, nowMs: number): KeyFinish {
  return { ...mark, answer: JSON.stringify(answer), nowMs };
}

async function release({ leases, engine }: KeyDeps, mark: KeyMark): Promise<void> {
  await leases.releaseKey(mark, engine.clock.now());
}

async function keepAlive({ leases, engine }: KeyDeps, mark: KeyMark, ended: AbortSignal): Promise<void> {
  try {
    for (;;) {
      await engine.clock.sleep(RENEW_EVERY_MS, ended);
      const nowMs = engine.clock.now();
      if (ended.aborted || !(await leases.renewKey(mark, { nowMs, untilMs: nowMs + DEAD_AFTER_MS }))) return;
    }
  } catch {
    // The work is over, or the store did not answer: then a repeat begins anew when the time is up.
  }
}
