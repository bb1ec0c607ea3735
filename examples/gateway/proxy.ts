import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { APIError, OpenAI } from "openai";
import type { RateLimiter } from "../../src/entry/index.ts";
import { estimateTokens, priceList } from "../../src/entry/llm.ts";
import { limitOpenAI } from "../../src/entry/openai.ts";
import { startProvider } from "../fake-provider/provider.ts";
import { CALLERS, YOU } from "./gateway.ts";

/** US dollars a million tokens; every model costs the same here. */
const PRICES = priceList({ asOf: "2026-11-01", models: {}, default: { input: 30, output: 60 } });
const ALL_TOKENS = { input: 1, cachedInput: 1, cacheWrite: 1, output: 1, reasoning: 1 };
const PORT_USUAL = 4781;
const WORD_MS = 30;
const ANSWER =
  "This is a stand-in for a language model. Your call was counted, in tokens and in dollars: look at the dashboard.";

export interface Proxy {
  /** For `base_url` of any OpenAI client. */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * An OpenAI-compatible proxy over a stand-in for the provider: chat completions, responses and embeddings, streamed or not. The
 * API key is the entity: one of the callers, or else `you`. Undefined as port: the usual one, else any that is free.
 */
export async function startProxy(limiter: RateLimiter, port: number | undefined): Promise<Proxy> {
  const provider = await startProvider(({ params }) => ({
    kind: "text",
    text: ANSWER,
    usage: { input: Math.max(1, estimateTokens(params)), output: estimateTokens(ANSWER) },
    pause: () => pause(WORD_MS),
  }));
  const client = limitOpenAI(new OpenAI({ apiKey: "unused", baseURL: `${provider.url}/v1`, maxRetries: 0 }), {
    limiter,
    entityId: YOU,
    weights: { rpm: { requests: 1 }, tpm: ALL_TOKENS, usd: PRICES.weights },
  });
  const server = createServer((request, response) => {
    proxied(client, request, response).catch(() => response.destroy());
  });
  await listening(server, port);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await provider.close();
    },
  };
}

async function proxied(client: OpenAI, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = /^\/v1(\/chat\/completions|\/responses|\/embeddings)$/.exec(request.url ?? "")?.[1];
  if (path === undefined || request.method !== "POST") {
    return send(response, 404, {}, { message: `No ${request.method} ${request.url} here; POST /v1/chat/completions.` });
  }
  // Whoever hangs up is charged for what has come.
  const leaving = new AbortController();
  response.on("close", () => leaving.abort());
  try {
    const body = await bodyOf(request);
    const headers = { "zael-entity": entityOf(request.headers.authorization) };
    const answer = await client.post(path, { body, headers, signal: leaving.signal }).asResponse();
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "application/json" });
    for await (const chunk of answer.body as ReadableStream<Uint8Array>) response.write(chunk);
    response.end();
  } catch (error) {
    if (response.headersSent || leaving.signal.aborted) throw error;
    if (!(error instanceof APIError)) return send(response, 400, {}, { message: String(error) });
    const told = ["retry-after", "x-should-retry"].flatMap((name) => {
      const value = error.headers?.get(name);
      return typeof value === "string" ? [[name, value]] : [];
    });
    send(response, error.status ?? 502, Object.fromEntries(told), error.error ?? { message: error.message });
  }
}

function entityOf(authorization: string | undefined): string {
  const [, key = ""] = /^Bearer (.+)$/.exec(authorization ?? "") ?? [];
  return CALLERS.some((caller) => caller.key === key) ? key : YOU;
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString("utf8")) as Record<string, unknown>;
}

function send(response: ServerResponse, status: number, headers: Record<string, string>, error: unknown): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify({ error }));
}

async function listening(server: ReturnType<typeof createServer>, port: number | undefined): Promise<void> {
  const on = (at: number) =>
    new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(at, "127.0.0.1", () => {
        server.off("error", reject);
        resolve();
      });
    });
  if (port !== undefined) return on(port);
  // Another program may have the usual one.
  await on(PORT_USUAL).catch(() => on(0));
}
