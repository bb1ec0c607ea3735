import { LimiterError, ValidationError } from "../../domain/names/errors.ts";
import type { ServiceBehaviour } from "../../entry/server.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { CommandEnd, EXIT, UsageError } from "../exit-code.ts";
import { timeoutOf } from "../on-store.ts";
import { jsonOf } from "../printable.ts";
import { servedStore } from "../store-option.ts";

interface ServeOptions extends GlobalOptions {
  readonly host?: string;
  readonly port?: string;
  readonly tokenFile?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly metricsPort?: string;
  readonly metricsHost?: string;
  readonly allowHost?: readonly string[];
  readonly allowOrigin?: readonly string[];
  readonly holdMs?: string;
  readonly holdMaxMs?: string;
  readonly onExpiry?: string;
  readonly webhook?: string;
  readonly webhookSecretFile?: string;
  readonly unit?: readonly string[];
  readonly bodyMax?: string;
  readonly inflightMax?: string;
  readonly waitingMax?: string;
  readonly streamsMax?: string;
  readonly drainMs?: string;
  readonly durability?: string;
  readonly unknownEntities?: string;
  readonly unnamedLimits?: string;
  readonly strict?: boolean;
  /** False with --no-dashboard. */
  readonly dashboard: boolean;
}

export const serve: CommandFile<ServeOptions> = {
  endsBySignal: true,
  configure: (command) => {
    command
      .option("--host <host>", "address to listen on; other than this machine only with tokens; default 127.0.0.1")
      .option("--port <port>", "port to listen on, 0 for a free one; default 4780")
      .option(
        "--token-file <file>",
        "tokens of the callers (ZAEL_TOKEN_FILE); default: open to this machine, without tokens",
      )
      .option("--tls-cert <file>", "HTTPS: the certificate and its chain, PEM; reloaded when it changes")
      .option("--tls-key <file>", "its key, PEM")
      .option("--metrics-port <port>", "a second port with only /metrics, /healthz and /readyz")
      .option("--metrics-host <host>", "address of the second port; default: as --host")
      .option("--allow-host <name>", "another accepted Host name, as behind a proxy; repeated", repeated)
      .option("--allow-origin <url>", "an origin whose pages may call the service (CORS); repeated", repeated)
      .option("--hold-ms <ms>", "how long an acquire holds its tokens by default; default 300000")
      .option("--hold-max-ms <ms>", "the longest hold a request may ask for; default 86400000")
      .option("--on-expiry <what>", "what happens when a hold expires: charge or refund; default charge")
      .option("--webhook <url>", "where thresholds of limits are sent by POST, signed; with --webhook-secret-file")
      .option("--webhook-secret-file <file>", "the secret of the webhook: whsec_ and base64, or any text")
      .option("--unit <limit=unit>", "the unit of a limit in RateLimit-Policy, such as tpm=tokens; repeated", repeated)
      .option("--body-max <bytes>", "largest request body; default 65536")
      .option("--inflight-max <n>", "concurrent requests; default 1000")
      .option("--waiting-max <n>", "requests waiting for tokens; default 10000")
      .option("--streams-max <n>", "concurrent event streams; default 100")
      .option("--drain-ms <ms>", "how long a shutdown waits for running requests; default 10000")
      .option(
        "--durability <how>",
        "full: nothing is lost in a crash of machine or server; or normal; default normal on SQLite, full on PostgreSQL",
      )
      .option("--unknown-entities <what>", "entities that were never created: allow or refuse; default allow")
      .option(
        "--unnamed-limits <what>",
        "requests that do not name the measure of a hard limit: allow, warn or refuse; default warn, in the log",
      )
      .option("--strict", "what is unknown or unnamed is refused, unless the two options above say otherwise")
      .option("--no-dashboard", "serve the API only")
      .addHelpText("after", examples("zae-limiter serve", "zae-limiter serve --port 0 --token-file tokens.json --json"))
      .addHelpText(
        "after",
        "\nExit codes: 0 after SIGTERM or SIGINT, 3 the store cannot be opened, or the port is in use.\n",
      )
      .addHelpText(
        "after",
        "\nA missing SQLite file is created, and so are missing tables on PostgreSQL. Every option of serve can be set by the environment, as ZAEL_ and its name in\ncapitals: ZAEL_PORT, ZAEL_ALLOW_HOST (a list with commas), ZAEL_DASHBOARD=false. Options on the command line win.\n",
      );
  },
  run: async (context, given) => {
    const options = withEnvironment(given, context.env);
    if (options.namespace !== undefined) {
      throw new UsageError("serve has all namespaces, each under its own URL; leave --namespace out.");
    }
    const { checkService, startService } = await import("../../entry/server.ts");
    const behaviour = behaviourOf(options, context);
    // What is wrong is told before a store is made.
    checkService(behaviour);
    const unknownEntities = choiceOf(options.unknownEntities, "--unknown-entities", ["allow", "refuse"]);
    const place = servedStore(options, context);
    if (context.interrupted.aborted) return EXIT.done;
    const unnamedLimits = choiceOf(options.unnamedLimits, "--unnamed-limits", ["allow", "warn", "refuse"]);
    const refused = {
      ...(options.strict === true ? { strict: true } : {}),
      ...(unknownEntities === undefined ? {} : { unknownEntities }),
      ...(unnamedLimits === undefined ? {} : { unnamedLimits }),
    };
    const limiter = await opened({ ...place.open, ...refused }, options);
    try {
      if (context.interrupted.aborted) return EXIT.done;
      const service = await startService({ ...behaviour, limiter }, true);
      try {
        const at = await service.listen();
        await announce(context, options, { ...at, store: place.name, isOpen: behaviour.tokenFile === undefined });
        await ended(context.interrupted);
      } finally {
        await service.close();
      }
    } finally {
      await limiter.close();
    }
    if (options.json === true) {
      await context.output.write(`${jsonOf({ event: "stopped", reason: signalOf(context.interrupted) })}\n`);
    }
    return EXIT.done;
  },
};

/** Options that take one text, and those that take several. */
const TEXTS = [
  ...["region", "endpointUrl", "timeout"],
  ...[
    "host",
    "port",
    "tokenFile",
    "tlsCert",
    "tlsKey",
    "metricsPort",
    "metricsHost",
    "holdMs",
    "holdMaxMs",
    "onExpiry",
    "webhook",
    "webhookSecretFile",
  ],
  ...[
    "bodyMax",
    "inflightMax",
    "waitingMax",
    "streamsMax",
    "drainMs",
    "durability",
    "unknownEntities",
    "unnamedLimits",
  ],
] as const;
const LISTS = ["allowHost", "allowOrigin", "unit"] as const;

/** Options of `serve` that the environment can set: every one, by the names of their values. */
export const IN_ENVIRONMENT: readonly string[] = [...TEXTS, ...LISTS, "dashboard", "strict"];

/** The options with what the environment says of those that are not given: containers are configured by it. */
function withEnvironment(given: ServeOptions, env: CommandContext["env"]): ServeOptions {
  const inEnvironment = (name: string) => env[`ZAEL_${name.replaceAll(/[A-Z]/g, "_$&").toUpperCase()}`] || undefined;
  const found: Record<string, unknown> = {};
  for (const name of TEXTS) found[name] = given[name] ?? inEnvironment(name);
  for (const name of LISTS) found[name] = given[name] ?? inEnvironment(name)?.split(",");
  const page = choiceOf(inEnvironment("dashboard"), "ZAEL_DASHBOARD", ["true", "false"]);
  const strict = choiceOf(inEnvironment("strict"), "ZAEL_STRICT", ["true", "false"]);
  if (given.strict === undefined && strict === "true") found.strict = true;
  return { ...given, ...found, dashboard: given.dashboard && page !== "false" } as ServeOptions;
}

type Opening = ReturnType<typeof servedStore>["open"];

async function opened(open: Opening, options: ServeOptions) {
  const { RateLimiter } = await import("../../entry/rate-limiter.ts");
  const timeoutMs = options.timeout === undefined ? undefined : timeoutOf(options);
  const bounds = timeoutMs === undefined ? {} : { timeoutMs, adminTimeoutMs: timeoutMs };
  try {
    return await RateLimiter.open({ ...open, ...bounds, namespace: "default" });
  } catch (error) {
    const isUsage = error instanceof ValidationError && error.code === "option_invalid";
    if (!(error instanceof LimiterError) || isUsage) throw error;
    // Whatever the library calls it: the store cannot be had.
    throw new CommandEnd({ code: error.code, message: error.message, exitCode: EXIT.store });
  }
}

function behaviourOf(options: ServeOptions, { output }: CommandContext): ServiceBehaviour {
  const { tokenFile, host, tlsCert, tlsKey, metricsHost, allowHost, allowOrigin, onExpiry, unit, dashboard } = options;
  const { webhook, webhookSecretFile } = options;
  const numbers = Object.fromEntries(
    NUMBERS.flatMap(([name, option]) => {
      const text = options[name];
      return text === undefined ? [] : [[name, wholeOf(text, option)]];
    }),
  );
  return {
    ...numbers,
    dashboard,
    log: (line) => output.note(`${line}\n`),
    ...(tokenFile === undefined ? {} : { tokenFile }),
    ...(host === undefined ? {} : { host }),
    ...(tlsCert === undefined ? {} : { tlsCert }),
    ...(tlsKey === undefined ? {} : { tlsKey }),
    ...(metricsHost === undefined ? {} : { metricsHost }),
    ...(allowHost === undefined ? {} : { allowHost }),
    ...(allowOrigin === undefined ? {} : { allowOrigin }),
    ...(onExpiry === undefined ? {} : { onExpiry: onExpiry as "charge" | "refund" }),
    ...(webhook === undefined ? {} : { webhook }),
    ...(webhookSecretFile === undefined ? {} : { webhookSecretFile }),
    ...(unit === undefined ? {} : { unit: unitsOf(unit) }),
  };
}

const NUMBERS = [
  ["port", "--port"],
  ["metricsPort", "--metrics-port"],
  ["holdMs", "--hold-ms"],
  ["holdMaxMs", "--hold-max-ms"],
  ["bodyMax", "--body-max"],
  ["inflightMax", "--inflight-max"],
  ["waitingMax", "--waiting-max"],
  ["streamsMax", "--streams-max"],
  ["drainMs", "--drain-ms"],
] as const;

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
  { output }: CommandContext,
  { json }: ServeOptions,
  at: { url: string; host: string; port: number; metricsUrl?: string; store: string; isOpen: boolean },
): Promise<void> {
  const { packageVersion } = await import("../../entry/package-version.ts");
  const { isLoopback } = await import("../../server/origin-guard.ts");
  const { url, host, port, metricsUrl, store, isOpen } = at;
  if (!isLoopback(host) && url.startsWith("http:")) {
    output.note(
      `${host} is reachable from other machines, without TLS: put a proxy in front of the service, or give --tls-cert and --tls-key.\n`,
    );
  }
  if (json === true) {
    const auth = isOpen ? "open" : "tokens";
    const line = { event: "listening", url, host, port, store, auth, version: packageVersion(), pid: process.pid };
    await output.write(`${jsonOf(metricsUrl === undefined ? line : { ...line, metricsUrl })}\n`);
    return;
  }
  await output.write(`zae-limiter listens on ${url} (${store}, ${isOpen ? "open to this machine" : "with tokens"})\n`);
}

function ended(interrupted: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    // The sockets keep the process alive until then; without one it would end here, with nobody to say so.
    if (interrupted.aborted) resolve();
    else interrupted.addEventListener("abort", () => resolve(), { once: true });
  });
}

function signalOf({ reason }: AbortSignal): string {
  return reason instanceof CommandEnd && reason.exitCode === 143 ? "SIGTERM" : "SIGINT";
}
