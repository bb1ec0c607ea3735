import { setTimeout as pause } from "node:timers/promises";
import { LimiterError, type RateLimiter } from "../../src/entry/index.ts";
import { estimateTokens } from "../../src/entry/llm.ts";
import { prepareProxy, readProxyConfig } from "../../src/entry/proxy.ts";
import type { TokenEntry } from "../../src/entry/server.ts";
import { startProvider } from "../fake-provider/provider.ts";
import { CALLERS, YOU } from "./gateway.ts";

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
 * `zae-limiter proxy` over a stand-in for the provider. Any API key will do here: it is the entity if it is one of the callers, or else
 * `you`. Undefined as port: the usual one, else any that is free.
 */
export async function startProxy(limiter: RateLimiter, port: number | undefined): Promise<Proxy> {
  const provider = await startProvider(({ params }) => ({
    kind: "text",
    text: ANSWER,
    usage: { input: Math.max(1, estimateTokens(params)), output: estimateTokens(ANSWER) },
    pause: () => pause(WORD_MS),
  }));
  const config = `
providers: { openai: { wire: openai, base_url: "${provider.url}", key_env: OPENAI_API_KEY } }
prices: prices.json
estimate: plain
`;
  const listen = (at: number) =>
    prepareProxy({
      ...{ config: readProxyConfig(config, "proxy.yaml"), folder: import.meta.dirname, host: "127.0.0.1", port: at },
      ...{ bodyMax: 1_000_000, inflightMax: 100, providerTimeoutMs: 10_000, drainMs: 0 },
      tokens: { find: callerOf, count: undefined },
      limiterOf: () => limiter,
      env: { OPENAI_API_KEY: "unused" },
      log: () => {},
    }).listen();
  // Another program may have the usual port.
  const listening = await listen(port ?? PORT_USUAL).catch((error: unknown) => {
    if (port !== undefined || !(error instanceof LimiterError)) throw error;
    return listen(0);
  });
  return {
    url: `${listening.url}openai/v1`,
    async close() {
      await listening.close();
      await provider.close();
    },
  };
}

const ENTRIES = new Map<string, TokenEntry>(
  [...CALLERS.map(({ key }) => key), YOU].map((id) => [
    id,
    { id, sha256: "0".repeat(64), namespaces: ["default"], scopes: ["proxy"] },
  ]),
);

function callerOf(key: string): TokenEntry | undefined {
  return ENTRIES.get(key) ?? ENTRIES.get(YOU);
}
