import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { ValidationError } from "../domain/names/errors.ts";
import type { ThresholdEvent } from "../ports/events.ts";
import type { Clock } from "../ports/system.ts";

/** A queue for each tenant. They take turns, so that a tenant with many events does not delay the others. */
class TenantQueues<Item extends { readonly namespace: string }> {
  readonly #queues = new Map<string, Item[]>();

  push(item: Item): void {
    const queue = this.#queues.get(item.namespace);
    if (queue === undefined) this.#queues.set(item.namespace, [item]);
    else queue.push(item);
  }

  /** The oldest of the tenant whose turn it is. */
  shift(): Item | undefined {
    const [next] = this.#queues;
    if (next === undefined) return undefined;
    const [namespace, queue] = next;
    const item = queue.shift();
    this.#queues.delete(namespace);
    if (queue.length > 0) this.#queues.set(namespace, queue);
    return item;
  }

  clear(): readonly Item[] {
    const all = [...this.#queues.values()].flat();
    this.#queues.clear();
    return all;
  }
}

/** Waits after each failed attempt. After the last one the event is dropped. */
const AGAIN_MS = [5_000, 60_000, 300_000, 1_800_000, 7_200_000] as const;

/** How long one attempt may take. */
const ATTEMPT_MS = 5_000;

/** Events of one namespace, and of all, that were not delivered yet, also those that wait to be sent again. */
const WAITING_MAX = 1_000;
const WAITING_ALL_MAX = 20_000;

/** Attempts under way at a time. */
const ATTEMPTS_MAX = 8;

/** The log mentions events dropped for lack of room at most this often. */
const SAID_EVERY_MS = 60_000;

/** The receiver wants nothing more. */
const GONE = 410;

const SECRET_PREFIX = "whsec_";

/** The receiver of events, and the secret that signs them. */
export interface WebhookTarget {
  readonly url: string;
  readonly secretFile: string;
}

/** The outcome of an event at the receiver. */
export type WebhookResult = "delivered" | "failed" | "dropped";

interface WebhookDeps {
  readonly clock: Clock;
  readonly log: (line: string) => void;
  /** An attempt or an event has ended: `failed` is an attempt, and the event may be sent again. */
  readonly ended: (namespace: string, result: WebhookResult) => void;
}

interface Message {
  readonly id: string;
  readonly namespace: string;
  readonly body: string;
  /** For the log. */
  readonly what: string;
}

/**
 * Sends thresholds to one address, signed by the rules of Standard Webhooks. What is not received is sent again for hours, from
 * the memory of this process: the mark in the store is durable, this queue is not.
 */
export class Webhook {
  readonly #url: string;
  readonly #key: Buffer;
  readonly #deps: WebhookDeps;
  readonly #over = new AbortController();
  readonly #ready = new TenantQueues<Message & { readonly attempt: number }>();
  readonly #attempts = new Set<Promise<void>>();
  /** Waiting events, by namespace. */
  readonly #waitingOf = new Map<string, number>();
  #waiting = 0;
  #isGone = false;
  #unsaid = 0;
  #saidAtMs = Number.NEGATIVE_INFINITY;

  constructor({ url, secretFile }: WebhookTarget, deps: WebhookDeps) {
    this.#url = url;
    this.#key = keyIn(secretFile);
    this.#deps = deps;
  }

  /** Events that are neither delivered nor dropped. */
  get waiting(): number {
    return this.#waiting;
  }

  heard(event: ThresholdEvent): void {
    const message = messageOf(event);
    if (this.#isGone || this.#over.signal.aborted) this.#deps.ended(message.namespace, "dropped");
    else if (!this.#hasRoom(message)) this.#noRoom(message);
    else {
      this.#wait(message, 1);
      this.#ready.push({ ...message, attempt: 0 });
      this.#sendReady();
    }
  }

  /** Waits for attempts that are under way until `late`. What is not delivered then is dropped. */
  async stop(late: Promise<void>): Promise<void> {
    this.#ready.clear();
    await Promise.race([Promise.allSettled([...this.#attempts]), late]);
    this.#over.abort();
    await Promise.allSettled([...this.#attempts]);
    if (this.#waiting > 0)
      this.#deps.log(`webhook: the service stops, and ${this.#waiting} events were not delivered.`);
    this.#waiting = 0;
  }

  #sendReady(): void {
    while (this.#attempts.size < ATTEMPTS_MAX) {
      const next = this.#ready.shift();
      if (next === undefined) return;
      const attempt = this.#attempt(next, next.attempt).finally(() => {
        this.#attempts.delete(attempt);
        this.#sendReady();
      });
      this.#attempts.add(attempt);
    }
  }

  async #attempt(message: Message, attempt: number): Promise<void> {
    // Another attempt may have got a 410 meanwhile.
    if (this.#isGone) return this.#drop(message, undefined);
    const answer = await this.#post(message);
    if (this.#over.signal.aborted) return;
    if (typeof answer === "number" && answer >= 200 && answer < 300) {
      this.#wait(message, -1);
      return this.#deps.ended(message.namespace, "delivered");
    }
    this.#deps.ended(message.namespace, "failed");
    const why = typeof answer === "number" ? `it answered ${answer}` : answer;
    if (answer === GONE) return this.#gone(message);
    const againMs = AGAIN_MS[attempt];
    if (againMs === undefined)
      return this.#drop(message, `${message.what} was dropped after ${attempt + 1} attempts: ${why}.`);
    void this.#again(message, attempt + 1, againMs);
  }

  async #again(message: Message, attempt: number, waitMs: number): Promise<void> {
    try {
      await inBackground(this.#deps.clock, waitMs, this.#over.signal);
    } catch {
      // The service stops, and says how many were not delivered.
      return;
    }
    this.#ready.push({ ...message, attempt });
    this.#sendReady();
  }

  /** The status of the answer, or why there is none. */
  async #post({ id, body }: Message): Promise<number | string> {
    const { clock } = this.#deps;
    const timestamp = String(Math.floor(clock.now() / 1000));
    const over = new AbortController();
    const end = () => over.abort();
    this.#over.signal.addEventListener("abort", end);
    const timer = new AbortController();
    void inBackground(clock, ATTEMPT_MS, timer.signal).then(end, () => {});
    try {
      const response = await fetch(this.#url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "webhook-id": id,
          "webhook-timestamp": timestamp,
          "webhook-signature": signatureOf(this.#key, { id, timestamp, body }),
        },
        body,
        // The signature is for this receiver: no other one gets it.
        redirect: "manual",
        signal: over.signal,
      });
      await response.body?.cancel();
      return response.status;
    } catch (error) {
      if (over.signal.aborted) return "it did not answer in 5 s";
      const { cause } = error as { cause?: unknown };
      return cause instanceof Error && cause.message !== "" ? cause.message : "it could not be reached";
    } finally {
      timer.abort();
      this.#over.signal.removeEventListener("abort", end);
    }
  }

  #gone(message: Message): void {
    const isFirst = !this.#isGone;
    this.#isGone = true;
    this.#drop(message, undefined);
    for (const other of this.#ready.clear()) this.#drop(other, undefined);
    if (isFirst) {
      this.#deps.log("webhook: the receiver answered 410: nothing more is sent to it until the service starts again.");
    }
  }

  /** Events of one tenant do not use up another's room. */
  #hasRoom({ namespace }: Message): boolean {
    return this.#waiting < WAITING_ALL_MAX && (this.#waitingOf.get(namespace) ?? 0) < WAITING_MAX;
  }

  #wait({ namespace }: Message, more: 1 | -1): void {
    const count = (this.#waitingOf.get(namespace) ?? 0) + more;
    if (count === 0) this.#waitingOf.delete(namespace);
    else this.#waitingOf.set(namespace, count);
    this.#waiting += more;
  }

  #drop(message: Message, why: string | undefined): void {
    this.#wait(message, -1);
    this.#deps.ended(message.namespace, "dropped");
    if (why !== undefined) this.#deps.log(`webhook: ${why}`);
  }

  #noRoom({ namespace, what }: Message): void {
    this.#deps.ended(namespace, "dropped");
    this.#unsaid += 1;
    const nowMs = this.#deps.clock.now();
    if (nowMs - this.#saidAtMs < SAID_EVERY_MS) return;
    const others = this.#unsaid === 1 ? "" : ` and ${this.#unsaid - 1} others before it`;
    const waiting = this.#waitingOf.get(namespace) ?? 0;
    this.#deps.log(`webhook: ${waiting} events of ${namespace} wait for the receiver; ${what}${others} was dropped.`);
    this.#saidAtMs = nowMs;
    this.#unsaid = 0;
  }
}

/** The address as it was given, checked. */
export function checkWebhookUrl(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "") return given;
  // It may have a secret in it: it is not shown.
  throw new ValidationError(
    "option_invalid",
    "webhook is no address that events can be sent to; give an http or https URL without user and password.",
  );
}

/** `v1,BASE64` of HMAC-SHA256 over `id.timestamp.body`. */
function signatureOf(
  key: Buffer,
  { id, timestamp, body }: Pick<Message, "id" | "body"> & { timestamp: string },
): string {
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
}

/** A secret of Standard Webhooks, `whsec_` and base64; or any other text, which is the key as it stands. */
function keyIn(file: string): Buffer {
  let text: string;
  try {
    text = readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw new ValidationError(
      "option_invalid",
      `webhookSecretFile is "${file}", which cannot be read; give a file with the secret.`,
      { cause },
    );
  }
  const key = text.startsWith(SECRET_PREFIX)
    ? Buffer.from(text.slice(SECRET_PREFIX.length), "base64")
    : Buffer.from(text, "utf8");
  if (key.length > 0) return key;
  throw new ValidationError(
    "option_invalid",
    `webhookSecretFile is "${file}", which has no secret in it; give one such as whsec_ and base64.`,
  );
}

/** The id is the same for the same telling, and for no other: receivers drop repeats by it. */
function messageOf(event: ThresholdEvent): Message {
  const { namespace, entityId, resource, limit, percent, atMs, resetsAtMs = null } = event;
  const said = JSON.stringify([namespace, entityId, resource, limit, percent, resetsAtMs, atMs]);
  const id = `msg_${createHash("sha256").update(said).digest("base64url").slice(0, 27)}`;
  const body = JSON.stringify({ id, type: "threshold", ...event });
  return { id, namespace, body, what: `${percent} % of ${limit} of ${entityId} on ${resource}` };
}

function inBackground(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return clock.sleepInBackground?.(ms, signal) ?? clock.sleep(ms, signal);
}
