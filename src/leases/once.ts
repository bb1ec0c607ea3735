import { canonical } from "../domain/lease/canonical.ts";
import { keyInProgress, keyReused } from "../domain/lease/idempotency.ts";
import type { KeyMark } from "../ports/lease-write.ts";
import { checkKey } from "./errors.ts";
import type { StoredLeasesDeps } from "./stored-leases-deps.ts";

/** How long work counts as under way without a sign of life: where its process died, a repeat waits no longer. */
const DEAD_AFTER_MS = 15_000;
const RENEW_EVERY_MS = 5_000;

/** A request that may have been sent before. */
interface KeyedRequest {
  readonly idempotencyKey: string | undefined;
  /** Whose key it is; undefined: nobody's in particular. */
  readonly keyOwner: string | undefined;
  /** What is asked: another operation, path or body under the same key is an error. */
  readonly asks: unknown;
  /** Whether it may be under way for so long that it has to show that it lives. */
  readonly waits: boolean;
}

/** `isKept`: it was written under the key, in one step with what was done. */
export interface KeyedResult<Answer> {
  readonly answer: Answer;
  readonly isKept: boolean;
}

/** Does work once for each idempotency key of an owner, in one namespace: a repeat gets the first answer. */
export class OncePerKey {
  readonly #deps: StoredLeasesDeps;

  constructor(deps: StoredLeasesDeps) {
    this.#deps = deps;
  }

  /** `unreachable`: the answer where the key cannot even be looked up; it throws, or lets through. */
  async run<Answer>(
    request: KeyedRequest,
    work: (mark: KeyMark | undefined) => Promise<KeyedResult<Answer>>,
    unreachable?: (cause: unknown) => Answer,
  ): Promise<{ readonly answer: Answer; readonly replayed: boolean }> {
    if (request.idempotencyKey === undefined) return { answer: (await work(undefined)).answer, replayed: false };
    const given = checkKey(request.idempotencyKey);
    const key = this.#stored(given, request.keyOwner);
    let begun: KeyMark | { readonly answer: Answer };
    try {
      begun = await this.#begin<Answer>({ key, given }, this.#deps.engine.digest.of(canonical(request.asks)));
    } catch (error) {
      if (unreachable === undefined) throw error;
      return { answer: unreachable(error), replayed: false };
    }
    if ("answer" in begun) return { answer: begun.answer, replayed: true };
    return { answer: await this.#work(begun, request.waits, work), replayed: false };
  }

  /** A key has no line breaks, so that nobody can give one that is another's. */
  #stored(key: string, owner: string | undefined): string {
    return owner === undefined ? key : `${this.#deps.engine.digest.of(owner)}\n${key}`;
  }

  /** `key`: as it is stored; `given`: as its owner knows it. */
  async #begin<Answer>(
    { key, given }: { readonly key: string; readonly given: string },
    print: string,
  ): Promise<KeyMark | { readonly answer: Answer }> {
    const { leases, engine } = this.#deps;
    const nowMs = engine.clock.now();
    const mark = engine.random.id();
    const reply = await leases.beginKey({ key, mark, fingerprint: print, nowMs, untilMs: nowMs + DEAD_AFTER_MS });
    if (reply.kind === "begun") return { key, mark };
    const { fingerprint: first, answer } = reply.record;
    if (first !== print) throw keyReused(given);
    if (answer === undefined) throw keyInProgress(given);
    return { answer: JSON.parse(answer) as Answer };
  }

  async #work<Answer>(
    mark: KeyMark,
    waits: boolean,
    work: (mark: KeyMark) => Promise<KeyedResult<Answer>>,
  ): Promise<Answer> {
    const ended = new AbortController();
    if (waits) this.#keepAlive(mark, ended.signal);
    let isKept = false;
    try {
      const worked = await work(mark);
      isKept = worked.isKept;
      return worked.answer;
    } finally {
      ended.abort();
      // Only what was granted is remembered. Where this fails, the key is free again when its time is up.
      if (!isKept) await this.#release(mark);
    }
  }

  async #release(mark: KeyMark): Promise<void> {
    try {
      await this.#deps.leases.releaseKey(mark, this.#deps.engine.clock.now());
    } catch {
      // The caller's own outcome counts.
    }
  }

  async #keepAlive(mark: KeyMark, ended: AbortSignal): Promise<void> {
    const { leases, engine } = this.#deps;
    try {
      for (;;) {
        await engine.clock.sleep(RENEW_EVERY_MS, ended);
        const nowMs = engine.clock.now();
        if (ended.aborted || !(await leases.renewKey(mark, { nowMs, untilMs: nowMs + DEAD_AFTER_MS }))) return;
      }
    } catch {
      // Over; or the store did not answer, and then whoever comes after the time is up begins anew.
    }
  }
}
