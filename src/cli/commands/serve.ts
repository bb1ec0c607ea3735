import { LimiterError, ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { ListeningService, ServiceBehaviour } from "../../entry/server.ts";
import type { CommandContext, CommandRow, GlobalOptions, OptionRow } from "../command.ts";
import { CommandEnd, EXIT, UsageError } from "../exit-code.ts";
import { timeoutOf } from "../on-store.ts";
import { servedStore } from "../store-option.ts";
import { jsonOf } from "../table.ts";
import { kebab } from "../values.ts";

/** Help of `--tls-cert` and `--tls-key`. */
export const TLS_CERT = "HTTPS: the certificate and its chain, PEM; reloaded when it changes";
export const TLS_KEY = "its key, PEM";

/**
 * The options that take a value: the flag's name, its value, the help, and how it is read. `store`: the store that is opened gets it.
 * The service gets all others by their names.
 */
const VALUES = [
  ["host", "<host>", "address to listen on; other than this machine only with tokens; default 127.0.0.1", "text"],
  ["port", "<port>", "port to listen on, 0 for a free one; default 4780", "number"],
  [
    "tokenFile",
    "<file>",
    "tokens of the callers (ZAEL_TOKEN_FILE); default: open to this machine, without tokens",
    "text",
  ],
  ["tlsCert", "<file>", TLS_CERT, "text"],
  ["tlsKey", "<file>", TLS_KEY, "text"],
  ["edge", "<file>", "what descriptors of Envoy and requests of forward auth become; reloaded when it changes", "text"],
  ["grpcPort", "<port>", "a port for gRPC (Envoy's rate limit service), 0 for a free one; with --edge", "number"],
  ["grpcHost", "<host>", "address of that port; default: as --host", "text"],
  ["grpcClientCa", "<file>", "gRPC: clients must show a certificate of this authority, PEM; with --tls-cert", "text"],
  ["metricsPort", "<port>", "a second port with only /metrics, /healthz and /readyz", "number"],
  ["metricsHost", "<host>", "address of the second port; default: as --host", "text"],
  ["allowHost", "<name>", "another accepted Host name, as behind a proxy; repeated", "list"],
  ["allowOrigin", "<url>", "an origin whose pages may call the service (CORS); repeated", "list"],
  ["holdMs", "<ms>", "how long an acquire holds its tokens by default; default 300000", "number"],
  ["holdMaxMs", "<ms>", "the longest hold a request may ask for; default 86400000", "number"],
  ["onExpiry", "<what>", "what happens when a hold expires: charge or refund; default charge", "text"],
  ["webhook", "<url>", "where thresholds of limits are sent by POST, signed; with --webhook-secret-file", "text"],
  ["webhookSecretFile", "<file>", "the secret of the webhook: whsec_ and base64, or any text", "text"],
  ["unit", "<limit=unit>", "the unit of a limit in RateLimit-Policy, such as tpm=tokens; repeated", "list"],
  ["bodyMax", "<bytes>", "largest request body; default 65536", "number"],
  ["inflightMax", "<n>", "concurrent requests; default 1000", "number"],
  ["waitingMax", "<n>", "requests waiting for tokens; default 10000", "number"],
  ["streamsMax", "<n>", "concurrent event streams; default 100", "number"],
  ["drainMs", "<ms>", "how long a shutdown waits for running requests; default 10000", "number"],
  [
    "durability",
    "<how>",
    "full: nothing is lost in a crash of machine or server; or normal; default normal on SQLite, full on PostgreSQL",
    "store",
  ],
  ["unknownEntities", "<what>", "entities that were never created: allow or refuse; default allow", "store"],
  [
    "unnamedLimits",
    "<what>",
    "requests that do not name the measure of a hard limit: allow, warn or refuse; default warn, in the log",
    "store",
  ],
] as const;

type Values = {
  readonly [Row in (typeof VALUES)[number] as Row[0]]?: Row[3] extends "list" ? readonly string[] : string;
};

interface ServeOptions extends GlobalOptions, Omit<Values, "tokenFile"> {
  readonly strict?: boolean;
  /** False with --no-dashboard. */
  readonly dashboard: boolean;
  /** False with --no-caller-usage. */
  readonly callerUsage: boolean;
}

export const serve: CommandRow = {
  endsBySignal: true,
  options: [
    ...VALUES.map(([name, value, about, kind]): OptionRow => {
      const flags = `--${kebab(name)} ${value}`;
      return kind === "list" ? [flags, about, "list"] : [flags, about];
    }),
    ["--strict", "what is unknown or unnamed is refused, unless the two options above say otherwise"],
    ["--no-dashboard", "serve the API only"],
    ["--no-caller-usage", "count only the usage that buckets count"],
  ],
  examples: ["serve", "serve --port 0 --token-file tokens.json --json"],
  notes: [
    "Exit codes: 0 after SIGTERM or SIGINT, 3 the store cannot be opened, or the port is in use.",
    "A missing SQLite file is created, and so are missing tables on PostgreSQL. Every option of serve can be set by the environment, as ZAEL_ and its name in\ncapitals: ZAEL_PORT, ZAEL_ALLOW_HOST (a list with commas), ZAEL_DASHBOARD=false. Options on the command line win.",
  ],
  run: async (surroundings, typed) => {
    const options = withEnvironment(typed as unknown as ServeOptions, surroundings.env);
    const context = { ...surroundings, options };
    if (options.namespace !== undefined) {
      throw new UsageError("serve has all namespaces, each under its own URL; leave --namespace out.");
    }
    const { checkService, startService } = await import("../../entry/server.ts");
    const behaviour = behaviourOf(options, context);
    // Wrong options are refused before a store is made.
    checkService(behaviour);
    const unknownEntities = choiceOf(options.unknownEntities, "--unknown-entities", ["allow", "refuse"]);
    const place = servedStore(context, options);
    if (context.interrupted.aborted) return EXIT.done;
    const unnamedLimits = choiceOf(options.unnamedLimits, "--unnamed-limits", ["allow", "warn", "refuse"]);
    const usage = options.callerUsage ? undefined : { callers: false };
    const settings = given({ strict: options.strict, unknownEntities, unnamedLimits, usage });
    const limiter = await openServed(context, { ...place.open, ...settings });
    try {
      if (context.interrupted.aborted) return EXIT.done;
      const service = await startService({ ...behaviour, limiter }, true);
      try {
        const at = await service.listen();
        await announce(context, { ...at, store: place.name, isOpen: behaviour.tokenFile === undefined });
        await ended(context.interrupted);
      } finally {
        await service.close();
      }
    } finally {
      await limiter.close();
    }
    if (context.options.json === true) {
      await context.output.write(`${jsonOf({ event: "stopped", reason: signalOf(context.interrupted) })}\n`);
    }
    return EXIT.done;
  },
};

/** The options that the environment can set, by the names of their values. */
export const IN_ENVIRONMENT: readonly string[] = [
  ...["region", "endpointUrl", "timeout", "dashboard", "callerUsage", "strict"],
  ...VALUES.map(([name]) => name),
];

/** Adds the values of the environment for options that are not typed: containers are configured by it. */
function withEnvironment(typed: ServeOptions, env: CommandContext["env"]): ServeOptions {
  const named = (name: string) => `ZAEL_${kebab(name).replaceAll("-", "_").toUpperCase()}`;
  const inEnvironment = (name: string) => env[named(name)] || undefined;
  const flag = (name: string) => choiceOf(inEnvironment(name), named(name), ["true", "false"]);
  const found: Record<string, unknown> = { ...typed };
  for (const name of ["region", "endpointUrl", "timeout"]) found[name] ??= inEnvironment(name);
  for (const [name, , , kind] of VALUES) {
    const text = inEnvironment(name);
    found[name] ??= kind === "list" ? text?.split(",") : text;
  }
  const [page, callers, strict] = [flag("dashboard"), flag("callerUsage"), flag("strict")];
  if (typed.strict === undefined && strict === "true") found.strict = true;
  return {
    ...(found as unknown as ServeOptions),
    dashboard: typed.dashboard && page !== "false",
    callerUsage: typed.callerUsage && callers !== "false",
  };
}

type Opening = ReturnType<typeof servedStore>["open"];

/** Opens a store that serves; a store that is not there is made where that is cheap. A fault is 3. */
export async function openServed(context: CommandContext, open: Opening) {
  const { RateLimiter } = await import("../../entry/rate-limiter.ts");
  const timeoutMs = context.options.timeout === undefined ? undefined : timeoutOf(context);
  const bounds = timeoutMs === undefined ? {} : { timeoutMs, adminTimeoutMs: timeoutMs };
  try {
    return await RateLimiter.open({ ...open, ...bounds, namespace: "default" });
  } catch (error) {
    const isUsage = error instanceof ValidationError && error.code === "option_invalid";
    if (!(error instanceof LimiterError) || isUsage) throw error;
    // The store cannot be opened, whatever the library calls the fault.
    throw new CommandEnd({ code: error.code, message: error.message, exitCode: EXIT.store });
  }
}

function behaviourOf(options: ServeOptions, { output }: CommandContext): ServiceBehaviour {
  const values: Record<string, unknown> = {};
  for (const [name, , , kind] of VALUES) {
    const value = options[name];
    if (kind === "store" || value === undefined) continue;
    if (kind === "number") values[name] = wholeOf(String(value), `--${kebab(name)}`);
    else values[name] = name === "unit" ? unitsOf(value as readonly string[]) : value;
  }
  return {
    ...(values as ServiceBehaviour),
    dashboard: options.dashboard,
    log: (line) => output.note(`${line}\n`),
  };
}

function wholeOf(text: string, option: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new UsageError(`${option} is "${text}"; give a whole number.`);
}

function choiceOf<Choice extends string>(
  text: string | undefined,
  option: string,
  choices: readonly Choice[],
): Choice | undefined {
  const found = choices.find((choice) => choice === text);
  if (text === undefined || found !== undefined) return found;
  throw new UsageError(`${option} is "${text}"; give ${choices.join(" or ")}.`);
}

function unitsOf(texts: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    texts.map((text) => {
      const [, limit, unit] = /^([^=]+)=(.+)$/.exec(text) ?? [];
      if (limit === undefined || unit === undefined) {
        throw new UsageError(`--unit is "${text}"; give LIMIT=UNIT, such as tpm=tokens.`);
      }
      return [limit, unit];
    }),
  );
}

async function announce(
  { output, options: { json } }: CommandContext,
  at: Omit<ListeningService, "close"> & { readonly store: string; readonly isOpen: boolean },
): Promise<void> {
  const { packageVersion } = await import("../../entry/package-version.ts");
  const { isLoopback } = await import("../../server/origin-guard.ts");
  const { url, host, port, metricsUrl, grpcUrl, store, isOpen } = at;
  if (!isLoopback(host) && url.startsWith("http:")) {
    output.note(
      `${host} is reachable from other machines, without TLS: put a proxy in front of the service, or give --tls-cert and --tls-key.\n`,
    );
  }
  if (json === true) {
    const auth = isOpen ? "open" : "tokens";
    const line = { event: "listening", url, host, port, store, auth, version: packageVersion(), pid: process.pid };
    await output.write(`${jsonOf({ ...line, ...given({ metricsUrl, grpcUrl }) })}\n`);
    return;
  }
  const also = grpcUrl === undefined ? "" : ` and ${grpcUrl}`;
  await output.write(
    `zae-limiter listens on ${url}${also} (${store}, ${isOpen ? "open to this machine" : "with tokens"})\n`,
  );
}

/** Resolves at SIGTERM or SIGINT. */
export function ended(interrupted: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    // The sockets keep the process alive until then; without one it would end here, with nobody to say so.
    if (interrupted.aborted) resolve();
    else interrupted.addEventListener("abort", () => resolve(), { once: true });
  });
}

function signalOf({ reason }: AbortSignal): string {
  return reason instanceof CommandEnd && reason.exitCode === 143 ? "SIGTERM" : "SIGINT";
}
