import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { Acquiring } from "../../engine/acquire/acquiring.ts";
import type { ProxyConfig, ProxyOptions } from "../../entry/proxy.ts";
import { type CommandContext, command } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { tellInvalid } from "../manifest-options.ts";
import { timeoutOf } from "../on-store.ts";
import { readGiven } from "../output.ts";
import { servedStore, serviceUrl } from "../store-option.ts";
import { jsonOf } from "../table.ts";
import { ended, openServed, TLS_CERT, TLS_KEY } from "./serve.ts";

/** Sends calls of models on to their providers, as far as the limits let them through. */
export const proxy = command({
  endsBySignal: true,
  options: [
    ["--config <file>", "providers, prices and weights, YAML"],
    ["--token-file <file>", "tokens of the callers, with the scope proxy (ZAEL_TOKEN_FILE)"],
    ["--host <host>", "address to listen on", { default: "127.0.0.1" }],
    ["--port <port>", "port to listen on, 0 for a free one", { default: "4781" }],
    ["--tls-cert <file>", TLS_CERT],
    ["--tls-key <file>", TLS_KEY],
    ["--body-max <bytes>", "largest request body", { default: "33554432" }],
    ["--inflight-max <n>", "concurrent calls", { default: "1000" }],
    ["--provider-timeout-ms <ms>", "how long a provider may take for its first byte", { default: "600000" }],
    ["--drain-ms <ms>", "how long a shutdown waits for calls under way", { default: "60000" }],
  ],
  examples: ["proxy --help"],
  notes: [
    "zae-limiter token add tokens.json --id key-1 --namespaces default --scopes proxy\n" +
      "zae-limiter proxy --config proxy.yaml --token-file tokens.json\n" +
      "A client then has base_url http://127.0.0.1:4781/openai/v1 and the token as its API key.",
    "--store names the store, as in `serve`; with --url a service decides, and ZAEL_TOKEN is the token of the proxy there.",
    "Exit codes: 0 after SIGTERM or SIGINT, 2 the configuration, a key or the token file is wrong, 3 the store cannot be opened, or the port is in use.",
  ],
  run: async (context, options) => {
    const { config: file } = options;
    const tokenFile = context.options.tokenFile ?? (context.env.ZAEL_TOKEN_FILE || undefined);
    if (file === undefined) throw new UsageError("No configuration is given; give --config, such as proxy.yaml.");
    if (tokenFile === undefined) {
      throw new UsageError("The callers need tokens; give --token-file. `zae-limiter token add` makes one.");
    }
    if (context.options.namespace !== undefined) {
      throw new UsageError("Each token names the namespace that is charged; leave --namespace out.");
    }
    const bounds = {
      port: wholeOf(options.port, "--port", 0, 65_535),
      bodyMax: wholeOf(options.bodyMax, "--body-max", 1, 1_073_741_824),
      inflightMax: wholeOf(options.inflightMax, "--inflight-max", 1, 1_000_000),
      providerTimeoutMs: wholeOf(options.providerTimeoutMs, "--provider-timeout-ms", 1, 2_147_483_647),
      drainMs: wholeOf(options.drainMs, "--drain-ms", 0, 3_600_000),
    };
    const text = await readGiven(file, "The configuration");
    const { folderOf, prepareProxy, ProxyInvalid, readProxyConfig } = await import("../../entry/proxy.ts");
    let config: ProxyConfig;
    try {
      config = readProxyConfig(text, file);
    } catch (error) {
      if (error instanceof ProxyInvalid) return tellInvalid(context, file, error);
      throw error;
    }
    let limits: Limits | undefined;
    const prepared = prepareProxy({
      ...{ config, folder: folderOf(file), tokens: tokenFile, host: options.host, ...bounds },
      ...given({ tlsCert: options.tlsCert, tlsKey: options.tlsKey }),
      // Everything else is checked before a store is opened.
      limiterOf: (namespace) => (limits as Limits).of(namespace),
      // A service has metrics of its own.
      ...(serviceUrl(context) === undefined ? { metrics: (names) => (limits as Limits).metrics(names) } : {}),
      env: context.env,
      log: (line) => context.output.note(`${line}\n`),
    });
    limits = await openLimits(context);
    try {
      if (context.interrupted.aborted) return EXIT.done;
      const listening = await prepared.listen();
      try {
        await announce(context, listening, config);
        await ended(context.interrupted);
      } finally {
        await listening.close();
      }
    } finally {
      await limits.close();
    }
    return EXIT.done;
  },
});

/** The limiters of all namespaces, on a store or over a service. */
interface Limits {
  of: ProxyOptions["limiterOf"];
  metrics: NonNullable<ProxyOptions["metrics"]>;
  close(): Promise<void>;
}

async function openLimits(context: CommandContext): Promise<Limits> {
  const url = serviceUrl(context);
  const known = new Map<string, Acquiring>();
  const each = (open: (namespace: string) => Acquiring) => (namespace: string) => {
    const limiter = known.get(namespace) ?? open(namespace);
    known.set(namespace, limiter);
    return limiter;
  };
  if (url !== undefined) {
    const { LimiterClient } = await import("../../entry/client.ts");
    const token = context.env.ZAEL_TOKEN || undefined;
    const timeoutMs = context.options.timeout === undefined ? undefined : timeoutOf(context);
    return {
      of: each((namespace) => new LimiterClient(given({ url, token, namespace, timeoutMs }))),
      metrics: () => "",
      close: async () => {},
    };
  }
  const limiter = await openServed(context, servedStore(context, {}).open);
  const { metricsOf } = await import("../../entry/proxy.ts");
  const { text, stop } = metricsOf(limiter);
  return {
    of: each((namespace) => limiter.namespace(namespace)),
    metrics: text,
    close: async () => {
      stop();
      await limiter.close();
    },
  };
}

async function announce(
  { output, options: { json } }: CommandContext,
  { url, host, port }: { readonly url: string; readonly host: string; readonly port: number },
  { providers }: ProxyConfig,
): Promise<void> {
  const { isLoopback } = await import("../../server/origin-guard.ts");
  if (!isLoopback(host) && url.startsWith("http:")) {
    output.note(
      `${host} is reachable from other machines, without TLS: give --tls-cert and --tls-key, or put a proxy that ends it in front.\n`,
    );
  }
  const names = providers.map(({ name }) => name);
  if (json === true) {
    const line = { event: "listening", url, host, port, providers: names, pid: process.pid };
    await output.write(`${jsonOf(line)}\n`);
    return;
  }
  const bases = names.map((name) => `${url}${name}`).join(", ");
  await output.write(`zae-limiter sends calls of models on at ${bases}\n`);
}

function wholeOf(text: string, option: string, least: number, most: number): number {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new ValidationError("option_invalid", `${option} is "${text}"; give a whole number from ${least} to ${most}.`);
}
