import type { IncomingHttpHeaders } from "node:http";

/** Tokens of one call by kind. The kinds do not overlap; each wire format adds them up as its provider does. */
export interface TokensByKind {
  readonly input: number;
  readonly cachedInput?: number;
  readonly cacheWrite?: number;
  readonly output: number;
  readonly reasoning?: number;
}

export type Api = "chat" | "responses" | "embeddings" | "messages";

/** A call as it arrived. */
export interface Call {
  readonly api: Api;
  readonly model: string;
  /** The JSON body. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly headers: IncomingHttpHeaders;
  readonly path: string;
  /** The first call is 1. */
  readonly number: number;
}

/** What the provider does with a call. */
export type Answer =
  | {
      readonly kind: "text";
      readonly text: string;
      /** "missing": the provider reports none, as some compatible servers do. */
      readonly usage: TokensByKind | "missing";
      /** Awaited before each word of a stream, and once (0) before any other answer. */
      readonly pause?: (wordIndex: number) => Promise<unknown>;
      /** The connection is cut after so many words of a stream, or in the middle of any other answer. */
      readonly cutAfterWords?: number;
    }
  | {
      readonly kind: "error";
      /** 429 and 529 are what a provider says that has enough. */
      readonly status: number;
      /** `retry-after` in seconds, `retry-after-ms` in milliseconds, and others. */
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** The connection is cut before the first byte of an answer. */
  | { readonly kind: "cut" };

export type TextAnswer = Extract<Answer, { kind: "text" }>;

/** One event of a stream. The words of the text are events of their own, so that a stream can be slow or cut between them. */
export interface StreamEvent {
  /** The name that goes before it on a line of its own; without one there is only data. */
  readonly event?: string;
  readonly data: unknown;
  readonly isWord: boolean;
}

/** The words of a text, each with the space after it. */
export function wordsOf(text: string): string[] {
  return text.match(/\S+\s*/g) ?? [];
}

/** The JSON body of an error, in the words of each provider. */
export function errorBody(api: Api, status: number): unknown {
  const type = status === 429 ? "rate_limit_error" : status === 529 ? "overloaded_error" : "api_error";
  const message = `The provider answers with ${status}.`;
  if (api === "messages") return { type: "error", error: { type, message }, request_id: "req_fake" };
  return { error: { message, type, param: null, code: status === 429 ? "rate_limit_exceeded" : null } };
}
