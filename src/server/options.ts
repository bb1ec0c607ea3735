import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { checkLimitName, shown } from "../domain/names/names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { TlsFiles } from "./tls-files.ts";
import type { TokenEntry } from "./tokens.ts";
import { checkWebhookUrl, type WebhookTarget } from "./webhook.ts";

/** How a service behaves. Every option may be left out; the names are those of `zae-limiter serve`, in camelCase. */
export interface ServiceBehaviour {
  /**
   * The file with the tokens that callers may use. It is read again within a second of a change. Default: no tokens;
   * the service then listens on this machine only.
   */
  readonly tokenFile?: string;
  /** The entries of such a file themselves. Default: none. */
  readonly tokens?: readonly TokenEntry[];
  /** Whether `fetch` answers without tokens, because your program checks its callers itself. Default: `false`. */
  readonly open?: boolean;
  /** Where to listen. A host other than this machine needs tokens. Default: `127.0.0.1`. */
  readonly host?: string;
  /** The port; 0 takes a free one. Default: 4780. */
  readonly port?: number;
  /**
   * A certificate with its chain, a PEM file, for HTTPS. It needs `tlsKey`, and is read again when it changes.
   * Default: HTTP.
   */
  readonly tlsCert?: string;
  /** The key of the certificate, a PEM file. Default: none. */
  readonly tlsKey?: string;
  /**
   * The edge file: what the descriptors of Envoy, and the requests of forward auth, become. It is read again within 2 seconds of a change.
   * Default: none.
   */
  readonly edge?: string;
  /** The port for gRPC; 0 takes a free one. It needs `edge`. Default: none. */
  readonly grpcPort?: number;
  /** Where gRPC listens. Default: as `host`. */
  readonly grpcHost?: string;
  /** The authority, a PEM file, that must have signed the certificates of gRPC's clients. It needs `tlsCert`. Default: none is asked for. */
  readonly grpcClientCa?: string;
  /** A second port for `/metrics` and the probes; where there are tokens, that port accepts any `Host`. Default: none. */
  readonly metricsPort?: number;
  /** Where the second port listens. Default: as `host`. */
  readonly metricsHost?: string;
  /** Further names that the header `Host` may have, as behind a proxy. Default: none. */
  readonly allowHost?: string | readonly string[];
  /** Origins whose pages may call, such as `https://ops.example.com`. Default: none. */
  readonly allowOrigin?: string | readonly string[];
  /** How long a lease lives if the acquire does not say, in ms. Default: 300,000. */
  readonly holdMs?: number;
  /** The longest life of a lease that an acquire may ask for, in ms. Default: 86,400,000. */
  readonly holdMaxMs?: number;
  /** What happens to the tokens of a lease that expires, if the acquire does not say. Default: `"charge"`. */
  readonly onExpiry?: "charge" | "refund";
  /**
   * Where thresholds of limits (`notifyAt`) are sent by POST, as Standard Webhooks; it needs `webhookSecretFile`.
   * Default: none.
   */
  readonly webhook?: string;
  /** A file with the secret that the webhook is signed by: `whsec_` and base64, or any text. Default: none. */
  readonly webhookSecretFile?: string;
  /** Units of measures in the header `RateLimit-Policy`, such as `{ tpm: "tokens" }`. Default: none. */
  readonly unit?: Readonly<Record<string, string>>;
  /** The most bytes of a request body; manifests may have more. Default: 65,536. */
  readonly bodyMax?: number;
  /** The most requests under way. Default: 1,000. */
  readonly inflightMax?: number;
  /** The most requests that wait for tokens. Default: 10,000. */
  readonly waitingMax?: number;
  /** The most event streams. Default: 100. */
  readonly streamsMax?: number;
  /** How long a stop waits for requests under way, in ms. Default: 10,000. */
  readonly drainMs?: number;
  /** Whether the service has the dashboard. Default: `true`. */
  readonly dashboard?: boolean;
  /** Called with each line of the log. Default: standard error. */
  readonly log?: (line: string) => void;
}

type Defaulted = Omit<
  Required<ServiceBehaviour>,
  | ("tokenFile" | "tokens" | "tlsCert" | "tlsKey" | "metricsPort" | "edge" | "grpcPort" | "grpcHost" | "grpcClientCa")
  | ("allowHost" | "allowOrigin" | "webhook" | "webhookSecretFile" | "unit")
>;

/** Where the service listens for gRPC. */
export interface GrpcSettings {
  readonly host: string;
  readonly port: number;
  /** The file of the authority of clients' certificates. Undefined: none is asked for. */
  readonly clientCa: string | undefined;
}

export interface ServiceSettings extends Defaulted {
  readonly tokenFile: string | undefined;
  readonly tokens: readonly TokenEntry[] | undefined;
  readonly tls: TlsFiles | undefined;
  readonly edge: string | undefined;
  readonly grpc: GrpcSettings | undefined;
  readonly metricsPort: number | undefined;
  readonly allowHosts: readonly string[];
  readonly allowOrigins: readonly string[];
  readonly webhook: WebhookTarget | undefined;
  readonly units: ReadonlyMap<string, string>;
}

const BEHAVIOUR = new KnownNames<ServiceBehaviour & { limiter?: Limiter }>({
  ...{ tokenFile: true, tokens: true, open: true, host: true, port: true, allowHost: true, allowOrigin: true },
  ...{ holdMs: true, holdMaxMs: true, onExpiry: true, unit: true, bodyMax: true, inflightMax: true },
  ...{ tlsCert: true, tlsKey: true, metricsPort: true, metricsHost: true, webhook: true, webhookSecretFile: true },
  ...{ edge: true, grpcPort: true, grpcHost: true, grpcClientCa: true },
  ...{ waitingMax: true, streamsMax: true, drainMs: true, dashboard: true, log: true, limiter: true },
});

/** The options, checked. An error names the option, its value and the remedy. */
export function settingsOf(given: ServiceBehaviour): ServiceSettings {
  const options = BEHAVIOUR.check(given, "The options of createService");
  const holdMaxMs = whole("holdMaxMs", options.holdMaxMs ?? 86_400_000, { least: 1_000, most: HOLD_MAX_MS });
  if (options.tokenFile !== undefined && options.tokens !== undefined) {
    throw invalid("tokenFile and tokens are both given; give one");
  }
  return {
    tokenFile: options.tokenFile === undefined ? undefined : text("tokenFile", options.tokenFile),
    tokens: options.tokens,
    open: flag("open", options.open ?? false),
    host: text("host", options.host ?? "127.0.0.1"),
    port: whole("port", options.port ?? 4780, { least: 0, most: 65_535 }),
    tls: tlsOf(options),
    edge: options.edge === undefined ? undefined : text("edge", options.edge),
    grpc: grpcOf(options),
    metricsPort:
      options.metricsPort === undefined
        ? undefined
        : whole("metricsPort", options.metricsPort, { least: 0, most: 65_535 }),
    metricsHost: text("metricsHost", options.metricsHost ?? options.host ?? "127.0.0.1"),
    allowHosts: texts("allowHost", options.allowHost ?? []).map(checkHost),
    allowOrigins: texts("allowOrigin", options.allowOrigin ?? []).map(checkOrigin),
    holdMs: whole("holdMs", options.holdMs ?? Math.min(300_000, holdMaxMs), { least: 1_000, most: holdMaxMs }),
    holdMaxMs,
    onExpiry: checkOnExpiry(options.onExpiry ?? "charge"),
    webhook: webhookOf(options),
    units: unitsOf(options.unit ?? {}),
    bodyMax: whole("bodyMax", options.bodyMax ?? 65_536, { least: 1, most: 16_777_216 }),
    inflightMax: whole("inflightMax", options.inflightMax ?? 1_000, { least: 1, most: 1_000_000 }),
    waitingMax: whole("waitingMax", options.waitingMax ?? 10_000, { least: 1, most: 1_000_000 }),
    streamsMax: whole("streamsMax", options.streamsMax ?? 100, { least: 0, most: 100_000 }),
    drainMs: whole("drainMs", options.drainMs ?? 10_000, { least: 0, most: 3_600_000 }),
    dashboard: flag("dashboard", options.dashboard ?? true),
    log: options.log ?? ((line) => console.error(line)),
  };
}

function webhookOf({ webhook, webhookSecretFile }: ServiceBehaviour): WebhookTarget | undefined {
  if (webhook === undefined && webhookSecretFile === undefined) return undefined;
  if (webhook === undefined || webhookSecretFile === undefined) {
    const missing = webhook === undefined ? "webhook" : "webhookSecretFile";
    throw invalid(`${missing} is missing; a webhook needs an address and the file of its secret`);
  }
  const url = checkWebhookUrl(text("webhook", webhook));
  return { url, secretFile: text("webhookSecretFile", webhookSecretFile) };
}

/** The files of a certificate and its key; undefined: none are given. */
export function tlsOf({ tlsCert, tlsKey }: Pick<ServiceBehaviour, "tlsCert" | "tlsKey">): TlsFiles | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined) {
    throw invalid(`${tlsCert === undefined ? "tlsCert" : "tlsKey"} is missing; HTTPS needs a certificate and its key`);
  }
  return { cert: text("tlsCert", tlsCert), key: text("tlsKey", tlsKey) };
}

function grpcOf(options: ServiceBehaviour): GrpcSettings | undefined {
  const { grpcPort, grpcHost, grpcClientCa, edge, host = "127.0.0.1" } = options;
  if (grpcPort === undefined) {
    const [unused] = Object.entries({ grpcHost, grpcClientCa }).find(([, value]) => value !== undefined) ?? [];
    if (unused !== undefined) throw invalid(`grpcPort is missing, and ${unused} is given; gRPC needs a port`);
    return undefined;
  }
  if (edge === undefined) throw invalid("edge is missing; gRPC needs a file that says what descriptors become");
  if (grpcClientCa !== undefined && options.tlsCert === undefined) {
    throw invalid("tlsCert is missing; certificates of clients are shown over TLS");
  }
  return {
    host: text("grpcHost", grpcHost ?? host),
    port: whole("grpcPort", grpcPort, { least: 0, most: 65_535 }),
    clientCa: grpcClientCa === undefined ? undefined : text("grpcClientCa", grpcClientCa),
  };
}

/** Some 24 days: what a timer can wait for. */
const HOLD_MAX_MS = 2_147_483_647;

export function whole(name: string, value: unknown, { least, most }: { least: number; most: number }): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw invalid(`${name} is ${shown(value)}; give a whole number from ${least} to ${most}`);
}

export function text(name: string, value: unknown): string {
  if (typeof value === "string" && value !== "") return value;
  throw invalid(`${name} is ${shown(value)}; give a text`);
}

function flag(name: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw invalid(`${name} is ${shown(value)}; give true or false`);
}

function texts(name: string, value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).map((each) => text(name, each));
}

function checkHost(name: string): string {
  if (/^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?$/.test(name)) return name;
  throw invalid(`allowHost is ${shown(name)}; give a host name, such as limits.example.com`);
}

function checkOrigin(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  const isOrigin = url !== undefined && /^https?:$/.test(url.protocol) && given.replace(/\/$/, "") === url.origin;
  if (isOrigin) return url.origin;
  throw invalid(`allowOrigin is ${shown(given)}; give an origin, such as https://ops.example.com`);
}

function checkOnExpiry(value: unknown): "charge" | "refund" {
  if (value === "charge" || value === "refund") return value;
  throw invalid(`onExpiry is ${shown(value)}; give "charge" or "refund"`);
}

function unitsOf(given: unknown): ReadonlyMap<string, string> {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw invalid(`unit is ${shown(given)}; give an object such as { tpm: "tokens" }`);
  }
  return new Map(
    Object.entries(given).map(([limit, unit]) => {
      checkLimitName(limit);
      // A string of a structured field: printable ASCII.
      if (typeof unit === "string" && /^[\x20-\x7e]{1,64}$/.test(unit)) return [limit, unit];
      throw invalid(`unit of ${limit} is ${shown(unit)}; give a word such as "tokens"`);
    }),
  );
}

function invalid(what: string): ValidationError {
  return new ValidationError("option_invalid", `${what}.`);
}
