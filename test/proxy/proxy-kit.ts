import type { TestContext } from "node:test";
import { type Answer, type Call, startProvider } from "../../examples/fake-provider/provider.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { type ProxyOptions, prepareProxy, readProxyConfig } from "../../src/entry/proxy.ts";
import type { TokenEntry } from "../../src/server/tokens.ts";
import { tokenOf } from "../server/service-kit.ts";

export const KEY = "sk-of-the-provider";
export const USAGE = { input: 100, output: 20 };

/** An answer of twenty tokens. */
export const text = (more: Partial<Extract<Answer, { kind: "text" }>> = {}): Answer => ({
  ...{ kind: "text", text: "one two three", usage: USAGE },
  ...more,
});

interface ProxyKit {
  readonly answer?: (call: Call) => Answer | Promise<Answer>;
  /** Lines after the providers. */
  readonly config?: string;
  readonly baseUrl?: string;
  readonly options?: Partial<ProxyOptions>;
  readonly entry?: Partial<TokenEntry>;
}

/** A proxy before a provider of both kinds, over a limiter in memory; the caller is charged as `key-1`. */
export async function proxied(t: TestContext, { answer = () => text(), ...given }: ProxyKit = {}) {
  const provider = await startProvider(answer);
  const limiter = await RateLimiter.open({ store: "memory", unnamedLimits: "allow" });
  const { token, entry } = tokenOf("caller", {
    ...{ namespaces: ["default"], scopes: ["proxy"], entityId: "key-1" },
    ...given.entry,
  });
  const logged: string[] = [];
  const base = given.baseUrl ?? provider.url;
  const config = `
providers:
  openai: { wire: openai, base_url: "${base}", key_env: KEY }
  anthropic: { wire: anthropic, base_url: "${base}/", key_env: KEY, allow: ["POST /v1/messages/count_tokens"] }
${given.config ?? "estimate: plain"}
`;
  const prepared = prepareProxy({
    ...{ config: readProxyConfig(config, "proxy.yaml"), folder: ".", host: "127.0.0.1", port: 0 },
    ...{ bodyMax: 100_000, inflightMax: 100, providerTimeoutMs: 60_000, drainMs: 60_000 },
    tokens: { find: (given) => (given === token ? entry : undefined), count: 1 },
    limiterOf: () => limiter,
    env: { KEY },
    log: (line) => logged.push(line),
    ...given.options,
  });
  const listening = await prepared.listen();
  let isClosed = false;
  const close = async () => {
    if (isClosed) return;
    isClosed = true;
    await listening.close();
  };
  t.after(async () => {
    await close();
    await provider.close();
    await limiter.close();
  });
  const url = listening.url;
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(`${url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  /** The tokens that are left of a limit of the caller. */
  const left = async (limit: string, resource = "gpt-5") =>
    (await limiter.available({ entityId: "key-1", resource })).find((one) => one.limit === limit)?.available;
  return { provider, limiter, token, url, post, left, logged, close };
}

/** Tries again with each turn of the event loop, for what happens elsewhere. */
export async function eventually(check: () => Promise<void>): Promise<void> {
  for (let turns = 0; ; turns++) {
    try {
      return await check();
    } catch (error) {
      if (turns > 20_000) throw error;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
