import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Answer, type Api, type Call, errorBody, type StreamEvent, type TextAnswer } from "./answer.ts";
import { messageBody, messageEvents } from "./anthropic.ts";
import { chatBody, chatEvents, embeddingsBody, responsesBody, responsesEvents } from "./openai.ts";

export type { Answer, Call, TokensByKind } from "./answer.ts";

/** A call that the provider has received, and how it ended: "left" if the client hung up before the last byte. */
export interface ReceivedCall extends Call {
  readonly ended: Promise<"whole" | "left" | "cut">;
}

export interface FakeProvider {
  /** Without a path: OpenAI's base URL is this and `/v1`, Anthropic's is this. */
  readonly url: string;
  /** Every call to a known path, the first one first. */
  readonly calls: readonly ReceivedCall[];
  close(): Promise<void>;
}

/**
 * A provider of language models for tests and examples: an HTTP server on this machine that speaks OpenAI's chat completions,
 * responses and embeddings and Anthropic's messages, whole and streamed. `answer` says what becomes of each call.
 */
export async function startProvider(answer: (call: Call) => Answer | Promise<Answer>): Promise<FakeProvider> {
  const calls: ReceivedCall[] = [];
  const server = createServer((request, response) => {
    receive(request, response).catch((error: unknown) => response.destroy(error as Error));
  });

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const params = JSON.parse((await textOf(request)) || "{}") as Record<string, unknown>;
    const path = request.url ?? "/";
    const api = apiOf(path);
    if (api === undefined) return send(response, 200, {}, { object: "list", data: [], path });
    let end: (how: "whole" | "left" | "cut") => void = () => {};
    const ended = new Promise<"whole" | "left" | "cut">((resolve) => {
      end = resolve;
    });
    const model = String(params.model ?? /deployments\/([^/]+)/.exec(path)?.[1] ?? "");
    const call = { api, model, params, headers: request.headers, path, number: calls.length + 1, ended };
    calls.push(call);
    let isCut = false;
    response.on("close", () => end(isCut ? "cut" : response.writableFinished ? "whole" : "left"));
    const cut = () => {
      isCut = true;
      response.destroy();
    };
    await respond(call, await answer(call), response, cut);
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function respond(call: Call, answer: Answer, response: ServerResponse, cut: () => void): Promise<void> {
  if (answer.kind === "cut") return cut();
  if (answer.kind === "error") {
    return send(response, answer.status, answer.headers ?? {}, errorBody(call.api, answer.status));
  }
  if (call.params.stream === true) return stream(eventsOf(call, answer), answer, response, cut);
  await answer.pause?.(0);
  const body = bodyOf(call, answer);
  if (answer.cutAfterWords === undefined) return send(response, 200, {}, body);
  const text = JSON.stringify(body);
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
  response.write(text.slice(0, text.length >> 1), cut);
}

async function stream(
  events: readonly StreamEvent[],
  { pause, cutAfterWords = Number.POSITIVE_INFINITY }: TextAnswer,
  response: ServerResponse,
  cut: () => void,
): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  let words = 0;
  for (const { event, data, isWord } of events) {
    if (isWord && words >= cutAfterWords) {
      // What was written must be out before the connection ends.
      response.write(": cut\n\n", cut);
      return;
    }
    if (isWord) {
      await pause?.(words);
      words++;
    }
    if (response.destroyed) return;
    const text = typeof data === "string" ? data : JSON.stringify(data);
    response.write(`${event === undefined ? "" : `event: ${event}\n`}data: ${text}\n\n`);
  }
  response.end();
}

function bodyOf(call: Call, answer: TextAnswer): unknown {
  switch (call.api) {
    case "chat":
      return chatBody(call, answer);
    case "responses":
      return responsesBody(call, answer);
    case "embeddings":
      return embeddingsBody(call, answer);
    case "messages":
      return messageBody(call, answer);
  }
}

function eventsOf(call: Call, answer: TextAnswer): StreamEvent[] {
  switch (call.api) {
    case "chat":
      return chatEvents(call, answer);
    case "responses":
      return responsesEvents(call, answer);
    case "messages":
      return messageEvents(call, answer);
    case "embeddings":
      throw new Error("Embeddings are not streamed.");
  }
}

function apiOf(path: string): Api | undefined {
  const { pathname } = new URL(path, "http://provider");
  if (pathname.endsWith("/chat/completions")) return "chat";
  if (pathname.endsWith("/responses")) return "responses";
  if (pathname.endsWith("/embeddings")) return "embeddings";
  return pathname.endsWith("/messages") ? "messages" : undefined;
}

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}

function send(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: unknown,
): void {
  response.writeHead(status, { "content-type": "application/json", "x-request-id": "req_fake", ...headers });
  response.end(JSON.stringify(body));
}
