import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The original refused, or failed; `type` is the name of its exception. */
export class OriginalError extends Error {
  readonly type: string;
  readonly retryAfterMs: number | undefined;

  constructor({ type, message, retryAfterMs }: { type: string; message: string; retryAfterMs?: number }) {
    super(`${type}: ${message}`);
    this.type = type;
    this.retryAfterMs = retryAfterMs;
  }
}

/** A call to DynamoDB that a client of the original is about to make, or has made and not heard the answer of. */
export interface OriginalCall {
  readonly client: string;
  /** Such as `UpdateItem`. */
  readonly operation: string;
  readonly when: "before" | "after";
}

interface Handle {
  ref(): void;
  unref(): void;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

interface Heard {
  readonly id?: number;
  readonly ok?: unknown;
  readonly error?: { type: string; message: string; retryAfterMs?: number };
  readonly call?: number;
}

/** A Python process with the original in it, spoken to line by line. */
export class OriginalProcess {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting = new Map<number, Waiting>();
  readonly #gates = new Map<string, (call: OriginalCall) => Promise<void>>();
  #count = 0;
  #said = "";
  #gone: Error | undefined;

  /** It ends with this process, which it reads from. */
  constructor() {
    const python = process.env.ZAEL_INTEROP_PYTHON;
    if (python === undefined) throw new Error("Tests with the original are run by `npm run test:interop`.");
    const driver = fileURLToPath(new URL("original.py", import.meta.url));
    this.#child = spawn(python, ["-u", driver], {
      env: {
        ...process.env,
        AWS_ACCESS_KEY_ID: "test",
        AWS_SECRET_ACCESS_KEY: "test",
        AWS_EC2_METADATA_DISABLED: "true",
      },
    });
    this.#child.stderr.on("data", (chunk: Buffer) => {
      this.#said = `${this.#said}${chunk}`.slice(-2_000);
    });
    this.#child.once("error", (cause) => this.#ended(`it does not start (${cause.message})`));
    this.#child.once("exit", (code) => this.#ended(`it ended with ${code}: ${this.#said.trim()}`));
    this.#child.stdin.on("error", () => {});
    // Tests that are done need not wait for it; one that waits for an answer does.
    this.#child.unref();
    for (const stream of [this.#child.stdin, this.#child.stderr]) (stream as unknown as Handle).unref();
    this.#listen();
    createInterface({ input: this.#child.stdout }).on("line", (line) => this.#hear(JSON.parse(line) as Heard));
  }

  ask<Answer>(what: string, details: Readonly<Record<string, unknown>> = {}): Promise<Answer> {
    const id = ++this.#count;
    if (this.#gone !== undefined) return Promise.reject(this.#gone);
    return new Promise<Answer>((resolve, reject) => {
      this.#waiting.set(id, { resolve: (value) => resolve(value as Answer), reject });
      this.#listen();
      this.#say({ id, do: what, ...details });
    });
  }

  /** Every call of a client waits for this, before it is sent and after it was answered; undefined: no more. */
  async gate(client: string, gate: ((call: OriginalCall) => Promise<void>) | undefined): Promise<void> {
    if (gate === undefined) this.#gates.delete(client);
    else this.#gates.set(client, gate);
    await this.ask("gate", { client, on: gate !== undefined });
  }

  #say(message: unknown): void {
    this.#child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  #hear(heard: Heard): void {
    if (heard.call !== undefined) {
      void this.#passed(heard as Heard & OriginalCall & { readonly call: number });
      return;
    }
    const waiting = this.#waiting.get(heard.id ?? 0);
    this.#waiting.delete(heard.id ?? 0);
    this.#listen();
    if (heard.error === undefined) waiting?.resolve(heard.ok);
    else waiting?.reject(new OriginalError(heard.error));
  }

  async #passed({ call, client, operation, when }: OriginalCall & { readonly call: number }): Promise<void> {
    try {
      await this.#gates.get(client)?.({ client, operation, when });
      this.#say({ go: call });
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #ended(why: string): void {
    this.#gone = new Error(`The original is gone: ${why}`);
    this.#fail(this.#gone);
  }

  #fail(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    this.#listen();
  }

  #listen(): void {
    const stream = this.#child.stdout as unknown as Handle;
    if (this.#waiting.size > 0) stream.ref();
    else stream.unref();
  }
}
