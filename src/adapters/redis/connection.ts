import { createHash } from "node:crypto";
import { LimiterError } from "../../domain/names/errors.ts";
import { faultOf, isUnknownScript, NotConnected, TimeIsUp, thrownFor } from "./faults.ts";

export type Part = string | Uint8Array;

/** Sends one command, and resolves with its reply, texts as bytes. */
export type SendCommand = (parts: (string | Uint8Array)[]) => Promise<unknown>;

/** Texts of the server come as bytes, its states (`OK`) as texts. */
export type Reply = Uint8Array | string | number | null | readonly Reply[];

type Command = readonly Part[];

/** A Lua script, known to the server by the SHA-1 of its text. */
interface Script {
  readonly name: string;
  readonly text: string;
  readonly sha: string;
}

interface Patience {
  readonly answerMs: number;
}

/** Commands in the same pipeline as a script: `ahead` of it, such as hints of indexes, and `behind` it, such as WAIT. */
interface Beside {
  readonly ahead?: readonly Command[];
  readonly behind?: readonly Command[];
}

/** The outcome of one command of a pipeline: the reply, or the error of the server or of the client. */
export type Outcome = { readonly reply: Reply } | { readonly error: unknown };

/** The way of commands to the server. */
export interface Wire {
  /** Resolves when there is a connection; rejects with `NotConnected`. Undefined: there is one. */
  ready(): Promise<void> | undefined;
  /** Sends commands in this order, and resolves with an outcome for each. */
  pipeline(commands: readonly Command[]): Promise<readonly Outcome[]>;
  close(): Promise<void>;
}

/** The way of scripts and commands to the server. */
export interface RedisConnection {
  /** For messages: `redis://host:6379/0?prefix=zael`, without a user and without a password. */
  readonly name: string;
  /**
   * Runs a script by EVALSHA, and by EVAL where the server does not know it yet. Rejects with the error of the client or with `TimeIsUp`; then it
   * may still be under way.
   */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly Part[],
    patience: Patience,
    beside?: Beside,
  ): Promise<Ran>;
  /**
   * One pipeline of plain commands of one slot, replies in order; sent again where the connection was cut, so only for what may be repeated.
   * Rejects with the first error. Default patience: that of administration.
   */
  send(commands: readonly Command[], patience?: Patience): Promise<readonly Reply[]>;
  close(): Promise<void>;
}

/** What became of a script that ran, whatever became of the commands beside it. */
interface Ran {
  readonly reply: Reply;
  /** The reply to each command behind it; undefined: the command failed. */
  readonly behind: readonly (Reply | undefined)[];
  /** The first error of a command ahead of it. */
  readonly aheadError: unknown;
}

export function scriptOf(name: string, text: string): Script {
  return { name, text, sha: createHash("sha1").update(text).digest("hex") };
}

/** A connection on a wire, which bounds the time of each call. */
export class Connection implements RedisConnection {
  readonly name: string;
  readonly prefix: string;
  readonly #wire: Wire;
  readonly #adminMs: number;
  #closing: Promise<void> | undefined;

  constructor(parts: {
    readonly name: string;
    readonly prefix: string;
    readonly wire: Wire;
    readonly adminTimeoutMs: number;
  }) {
    this.name = parts.name;
    this.prefix = parts.prefix;
    this.#wire = parts.wire;
    this.#adminMs = parts.adminTimeoutMs;
  }

  async run(
    script: Script,
    keys: readonly string[],
    args: readonly Part[],
    patience: Patience,
    { ahead = [], behind = [] }: Beside = {},
  ): Promise<Ran> {
    return this.#inTime(patience, async () => {
      const call = (begin: readonly Part[]): Command => [...begin, String(keys.length), ...keys, ...args];
      const known = await this.#wire.pipeline([...ahead, call(["EVALSHA", script.sha]), ...behind]);
      const failed = known.slice(0, ahead.length).find((outcome) => "error" in outcome);
      const aheadError = failed && "error" in failed ? failed.error : undefined;
      const outcome = known[ahead.length] as Outcome;
      if (!("error" in outcome) || !isUnknownScript(outcome.error)) {
        return { reply: replyOf(outcome), behind: known.slice(ahead.length + 1).map(knownReplyOf), aheadError };
      }
      // Nothing of it ran.
      const [made, ...after] = await this.#wire.pipeline([call(["EVAL", script.text]), ...behind]);
      return { reply: replyOf(made as Outcome), behind: after.map(knownReplyOf), aheadError };
    });
  }

  async send(commands: readonly Command[], patience?: Patience): Promise<readonly Reply[]> {
    if (commands.length === 0) return [];
    for (let tries = 1; ; tries++) {
      try {
        const outcomes = await this.#inTime(patience ?? this.adminPatience, () => this.#wire.pipeline(commands));
        return outcomes.map(replyOf);
      } catch (error) {
        const isCut = faultOf(error) === "unknown" && !(error instanceof TimeIsUp);
        if (!isCut || tries >= TRIES_MAX) throw error;
      }
    }
  }

  /** The same for whoever has no other use for an error than to show it to the caller. */
  async ask(commands: readonly Command[]): Promise<readonly Reply[]> {
    this.requireOpen();
    try {
      return await this.send(commands);
    } catch (error) {
      throw thrownFor(error, this.name);
    }
  }

  get adminPatience(): Patience {
    return { answerMs: this.#adminMs };
  }

  requireOpen(): void {
    if (this.#closing === undefined) return;
    throw new LimiterError("closed", `The store ${this.name} is closed; open it again with RateLimiter.open.`);
  }

  /** From now on every call is refused; ends when those under way have ended. */
  close(): Promise<void> {
    this.#closing ??= this.#wire.close();
    return this.#closing;
  }

  /** What is not sent yet when the time is up has not been done. */
  #inTime<Value>({ answerMs }: Patience, work: () => Promise<Value>): Promise<Value> {
    // One promise and one timer: a race of async functions would cost a lone take as much as its script.
    return new Promise((resolve, reject) => {
      let state: "connecting" | "sent" | "late" = "connecting";
      const timer = setTimeout(() => {
        const isSent = state === "sent";
        state = "late";
        reject(isSent ? new TimeIsUp(answerMs) : new NotConnected(`No connection could be had within ${answerMs} ms.`));
      }, answerMs);
      const failed = (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      };
      const answered = (value: Value) => {
        clearTimeout(timer);
        resolve(value);
      };
      const send = () => {
        // The caller has been told that nothing was sent.
        if (state === "late") return;
        state = "sent";
        work().then(answered, failed);
      };
      const ready = this.#wire.ready();
      if (ready === undefined) send();
      else ready.then(send, failed);
    });
  }
}

const TRIES_MAX = 5;

function replyOf(outcome: Outcome): Reply {
  if ("error" in outcome) throw outcome.error;
  return outcome.reply;
}

function knownReplyOf(outcome: Outcome): Reply | undefined {
  return "error" in outcome ? undefined : outcome.reply;
}

/** The text of a reply that is one; undefined where there is none, and where it is empty. */
export function textOf(reply: Reply | undefined): string | undefined {
  if (reply === undefined || reply === null || typeof reply === "number" || Array.isArray(reply)) return undefined;
  const text = typeof reply === "string" ? reply : Buffer.from(reply as Uint8Array).toString("utf8");
  return text === "" ? undefined : text;
}
