import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { systemClock } from "../adapters/system/clock.ts";
import { ValidationError } from "../domain/names/errors.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import { WEIGHTS_DEFAULT } from "../llm/adapter-options.ts";
import { ANTHROPIC_WIRE } from "../llm/anthropic.ts";
import { learnedEstimate } from "../llm/learned-estimate.ts";
import { LimitedCalls } from "../llm/limited-calls.ts";
import type { Wire } from "../llm/limited-http.ts";
import type { Weights } from "../llm/meter.ts";
import { OPENAI_WIRE } from "../llm/openai.ts";
import { type PriceList, priceList } from "../llm/prices.ts";
import type { Provider } from "../proxy/forwarding.ts";
import { ProviderKey } from "../proxy/provider-keys.ts";
import { type ListeningProxy, listenProxy, type ProxyTokens } from "../proxy/proxy.ts";
import { type PricesFile, type ProxyConfig, parseProxyConfig } from "../proxy/proxy-config.ts";
import { METRIC_CHANNELS, Metrics } from "../server/metrics.ts";
import { tlsOf } from "../server/options.ts";
import { readTls } from "../server/tls-files.ts";
import { type TokenEntry, TokenSource } from "../server/tokens.ts";
import { packageVersion } from "./package-version.ts";

export { type ProxyConfig, ProxyInvalid } from "../proxy/proxy-config.ts";

/** A proxy for models, put together from its configuration. */
export interface ProxyOptions {
  readonly config: ProxyConfig;
  /** The folder that files of the configuration are relative to. */
  readonly folder: string;
  /** The file of the callers' tokens, or the tokens themselves. */
  readonly tokens: string | ProxyTokens;
  /** The limiter of a namespace. */
  readonly limiterOf: (namespace: string) => Acquiring;
  /** The text of `/metrics`, of some namespaces. Default: there is none. */
  readonly metrics?: (namespaces: TokenEntry["namespaces"]) => string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: (line: string) => void;
  readonly host: string;
  readonly port: number;
  /** For HTTPS, as of a service. Default: HTTP. */
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly bodyMax: number;
  readonly inflightMax: number;
  readonly providerTimeoutMs: number;
  readonly drainMs: number;
}

/** A proxy with all that it needs, which does not listen yet. */
export interface PreparedProxy {
  listen(): Promise<ListeningProxy>;
}

/** Reads the configuration of a proxy. Throws `ProxyInvalid`. */
export function readProxyConfig(text: string, file: string): ProxyConfig {
  return parseProxyConfig(text, file);
}

/** Reads prices, keys and tokens. Throws a `ValidationError` for what is wrong with them. */
export function prepareProxy(options: ProxyOptions): PreparedProxy {
  const { config, folder, env, log, limiterOf, host, port } = options;
  const { bodyMax, inflightMax, providerTimeoutMs, drainMs } = options;
  const tls = tlsOf(options);
  if (tls !== undefined) readTls(tls);
  const prices = config.prices && readPrices(config.prices, folder);
  const weights = weightsOf(config, prices);
  const providers = new Map<string, Provider>();
  for (const { name, wire, baseUrl, allow, key: place } of config.providers) {
    const at = "file" in place ? { file: resolve(folder, place.file) } : place;
    const key = new ProviderKey(at, { env, log, now: systemClock.now });
    providers.set(name, { name, baseUrl, allow, key: () => key.now(), ...WIRES[wire] });
  }
  const tokens = typeof options.tokens === "string" ? tokensOf(options.tokens, log) : undefined;
  const calls = new WeakMap<TokenEntry, LimitedCalls>();
  const learned = new Map<string, ReturnType<typeof learnedEstimate>>();
  const callsOf = (caller: TokenEntry): LimitedCalls => {
    const known = calls.get(caller);
    if (known !== undefined) return known;
    const namespace = String(caller.namespaces[0]);
    const estimate = config.estimate === "learned" ? (learned.get(namespace) ?? learnedEstimate()) : undefined;
    if (estimate !== undefined) learned.set(namespace, estimate);
    const { entityId = caller.id } = caller;
    const made = new LimitedCalls(
      { limiter: limiterOf(namespace), entityId, weights, ...(estimate === undefined ? {} : { estimate }) },
      "the proxy",
    );
    calls.set(caller, made);
    return made;
  };
  const parts = { providers, callsOf, metrics: options.metrics, bodyMax, inflightMax, providerTimeoutMs, drainMs, log };
  return {
    async listen() {
      const found = tokens ?? (options.tokens as ProxyTokens);
      const listening = await listenProxy({ ...parts, tokens: found }, { host, port, tls });
      tokens?.watch(() => {});
      return {
        ...listening,
        async close() {
          tokens?.close();
          await listening.close();
        },
      };
    },
  };
}

const WIRES: Readonly<
  Record<"openai" | "anthropic", { readonly wire: Wire; readonly keyHeader: Provider["keyHeader"] }>
> = {
  openai: { wire: OPENAI_WIRE, keyHeader: (key) => ["authorization", `Bearer ${key}`] },
  anthropic: { wire: ANTHROPIC_WIRE, keyHeader: (key) => ["x-api-key", key] },
};

function tokensOf(file: string, log: (line: string) => void): TokenSource {
  return new TokenSource({ file, tokens: undefined, clock: systemClock, log });
}

/** The weights of the configuration; `usd` is the price, unless it is weighed there. */
function weightsOf({ weights = WEIGHTS_DEFAULT }: ProxyConfig, prices: PriceList | undefined): Weights {
  return prices === undefined ? weights : { usd: prices.weights, ...weights };
}

function readPrices({ file, litellmAsOf }: PricesFile, folder: string): PriceList {
  const path = resolve(folder, file);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new ValidationError("price_invalid", `The prices ${path} cannot be read: ${(error as Error).message}.`);
  }
  if (litellmAsOf !== undefined) return priceList.fromLiteLLM(text, { asOf: litellmAsOf });
  let prices: Parameters<typeof priceList>[0];
  try {
    prices = JSON.parse(text) as Parameters<typeof priceList>[0];
  } catch (error) {
    throw new ValidationError("price_invalid", `The prices ${path} are no JSON: ${(error as Error).message}.`);
  }
  return priceList(prices);
}

/** The folder of a file, for what is relative to it. */
export function folderOf(file: string): string {
  return dirname(resolve(file));
}

/** Counts what a limiter decides from now on, as a service does for its `/metrics`. */
export function metricsOf(limiter: object): {
  readonly text: (namespaces: TokenEntry["namespaces"]) => string;
  readonly stop: () => void;
} {
  const { events, store } = partsOf(limiter).deps;
  const metrics = new Metrics({ version: packageVersion(), store: store.name });
  const stop = events.listen?.(METRIC_CHANNELS, (...published) => metrics.heard(published)) ?? (() => {});
  return { text: (namespaces) => metrics.text(namespaces, {}), stop };
}
