import { setTimeout as sleep, setImmediate as turnOfLoop } from "node:timers/promises";
import { LimiterError } from "../domain/names/errors.ts";
import type { Counts, WorkerResult, WorkerTask } from "./fleet.ts";
import { Histogram } from "./histogram.ts";
import { type GrantedTokens, RESOURCE, type Scenario, type Step, scenarioOf, seededRandom } from "./scenarios.ts";
import type { OpenTarget } from "./target.ts";

/** A refused caller asks again after what it was told, but no later than this: refusals are part of the load. */
const REFUSED_PAUSE_MAX_MS = 50;

export class Worker {
  readonly #target: OpenTarget;
  readonly #task: WorkerTask;
  readonly #scenario: Scenario;
  readonly #parents: ReadonlyMap<string, string>;
  readonly #limitsOf: ReadonlyMap<string, ReadonlySet<string>>;
  readonly #stop = new AbortController();
  readonly #latency = new Histogram();
  readonly #slices: MutableSlice[] = [];
  readonly #granted: Tokens = new Map();
  readonly #corrected: Tokens = new Map();
  readonly #errorCodes = new Map<string, number>();
  readonly #counts = { granted: 0, refused: 0, errors: 0 };
  #beganMs = 0;

  constructor(target: OpenTarget, task: WorkerTask) {
    this.#target = target;
    this.#task = task;
    this.#scenario = scenarioOf(task.scenario);
    const { entities } = this.#scenario;
    this.#parents = new Map(entities.flatMap(({ id, parentId }) => (parentId === undefined ? [] : [[id, parentId]])));
    this.#limitsOf = new Map(entities.map(({ id, limits }) => [id, new Set(limits.map(({ name }) => name))]));
  }

  get counts(): Counts {
    return { ...this.#counts };
  }

  /** Ends it after the requests that are under way. */
  stop(): void {
    this.#stop.abort();
  }

  async run(): Promise<WorkerResult> {
    const { concurrency, durationMs, worker } = this.#task;
    const firstMs = this.#target.now();
    this.#beganMs = performance.now();
    const timer = setTimeout(() => this.stop(), durationMs);
    await Promise.all(Array.from({ length: concurrency }, (_, i) => this.#caller(worker * concurrency + i)));
    clearTimeout(timer);
    const lastMs = this.#target.now();
    const units = this.#target.units();
    return {
      ...this.#counts,
      errorCodes: Object.fromEntries(this.#errorCodes),
      grantedTokens: plain(this.#granted),
      correctedTokens: plain(this.#corrected),
      latency: this.#latency.counts(),
      slices: this.#slices.map(({ latency, ...counts }) => ({ ...counts, latency: latency.counts() })),
      ...{ firstMs, lastMs },
      ...(units === undefined ? {} : { units }),
    };
  }

  async #caller(caller: number): Promise<void> {
    const random = seededRandom(this.#task.seed, caller);
    for (let index = 0; !this.#stop.signal.aborted; index++) {
      const elapsedMs = performance.now() - this.#beganMs;
      const step = this.#scenario.next({ random, index, elapsedMs });
      await this.#paused(step.pauseMs);
      if (this.#stop.signal.aborted) return;
      await this.#paused(await this.#request(step));
    }
  }

  /** One request; answers with how long its caller waits after it, in ms. */
  async #request({ entityId, consume, holdMs, adjust }: Step): Promise<number> {
    const sentMs = performance.now();
    try {
      const outcome = await this.#target.limiter.tryAcquire({ entityId, resource: RESOURCE, consume });
      this.#measured(outcome.ok ? "granted" : "refused", sentMs);
      if (!outcome.ok) return Math.min(REFUSED_PAUSE_MAX_MS, outcome.retryAfterMs);
      const { lease } = outcome;
      this.#charge(this.#granted, entityId, consume);
      if (holdMs > 0) await this.#paused(holdMs);
      if (adjust !== undefined) {
        await lease.adjust(adjust);
        this.#charge(this.#granted, entityId, adjust);
        this.#charge(this.#corrected, entityId, upwards(adjust));
      }
      await lease.settle();
      if (lease.degraded !== false) this.#failed("degraded", sentMs);
    } catch (error) {
      this.#failed(error instanceof LimiterError ? error.code : String(error), sentMs);
      return REFUSED_PAUSE_MAX_MS;
    }
    return 0;
  }

  /** A pause that the end of the test cuts short; never none, or the callers of a quick store would keep all else waiting. */
  async #paused(ms: number): Promise<void> {
    if (ms < 1) await turnOfLoop();
    else await sleep(ms, undefined, { signal: this.#stop.signal }).catch(() => {});
  }

  #measured(what: "granted" | "refused", sentMs: number): void {
    const nowMs = performance.now();
    const micros = 1_000 * (nowMs - sentMs);
    const slice = this.#sliceAt(nowMs);
    this.#counts[what] += 1;
    slice[what] += 1;
    this.#latency.record(micros);
    slice.latency.record(micros);
  }

  #failed(code: string, sentMs: number): void {
    this.#counts.errors += 1;
    this.#sliceAt(sentMs).errors += 1;
    this.#errorCodes.set(code, (this.#errorCodes.get(code) ?? 0) + 1);
  }

  #sliceAt(nowMs: number): MutableSlice {
    const index = Math.max(0, Math.floor((nowMs - this.#beganMs) / this.#task.sliceMs));
    while (this.#slices.length <= index) {
      this.#slices.push({ granted: 0, refused: 0, errors: 0, latency: new Histogram() });
    }
    return this.#slices[index] as MutableSlice;
  }

  /** Also at the parents, which are charged for the limits that they have. */
  #charge(total: Tokens, entityId: string, amounts: Readonly<Record<string, number>>): void {
    for (let id: string | undefined = entityId; id !== undefined; id = this.#parents.get(id)) {
      const tokens = total.get(id) ?? new Map<string, number>();
      total.set(id, tokens);
      for (const [limit, amount] of Object.entries(amounts)) {
        if (this.#limitsOf.get(id)?.has(limit)) tokens.set(limit, (tokens.get(limit) ?? 0) + amount);
      }
    }
  }
}

/** Per entity and limit. */
type Tokens = Map<string, Map<string, number>>;

function plain(tokens: Tokens): GrantedTokens {
  return Object.fromEntries([...tokens].map(([id, own]) => [id, Object.fromEntries(own)]));
}

function upwards(amounts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(amounts).filter(([, amount]) => amount > 0));
}

interface MutableSlice {
  granted: number;
  refused: number;
  errors: number;
  readonly latency: Histogram;
}
