import { ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import { addressParts, decodedPart, hostAndPort, invalidAddress } from "../../domain/names/server-address.ts";

/** The place of a server, and the user who asks it. */
export interface PostgresAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string;
  readonly schema: string;
  readonly ssl: SslMode;
  readonly sslRootCert: string | undefined;
  readonly sslCert: string | undefined;
  readonly sslKey: string | undefined;
  readonly applicationName: string;
  /** Settings of the session, as `psql` has them: `-c statement_timeout=5s`. */
  readonly sessionOptions: string | undefined;
  /** Bind the password to the TLS connection where the server can. */
  readonly bindsChannel: boolean;
}

type SslMode = "disable" | "prefer" | "require" | "verify-ca" | "verify-full";

const SSL_MODES: readonly string[] = ["disable", "prefer", "require", "verify-ca", "verify-full"];
const PARAMETERS = [
  "schema",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "application_name",
  "options",
  "channel_binding",
  "host",
];

export const SCHEMA_DEFAULT = "zae_limiter";
const PORT_DEFAULT = 5432;

export function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:\/\//i.test(text);
}

/** The address of a server: as it is given, else that of `DATABASE_URL`. Whatever it is, no message shows it. */
export function postgresUrlOf(given: string | undefined, databaseUrl: string | undefined): string {
  const found = given ?? databaseUrl;
  if (found === undefined || found === "") {
    throw new ValidationError(
      "option_invalid",
      'The store "postgres" goes by DATABASE_URL, which is not set; set it, or give postgres://host:5432/database.',
    );
  }
  if (typeof found === "string" && isPostgresUrl(found)) return found;
  const whose = given === undefined ? "The address in DATABASE_URL" : "The address of the store";
  throw new ValidationError("option_invalid", `${whose} does not begin with postgres:// or postgresql://.`);
}

/** The parts of `postgres://user:password@host:5432/db?schema=s`. */
export function addressOf(url: string): PostgresAddress {
  const [, rest = ""] = /^postgres(?:ql)?:\/\/(.*)$/is.exec(url) ?? [];
  const { user, password, authority, path, parameters } = addressParts(rest, PARAMETERS);
  const { host, port } = hostOf(authority, parameters.get("host"));
  const database = decodedPart(path, "the database");
  const ssl = parameters.get("sslmode") ?? "prefer";
  if (!SSL_MODES.includes(ssl)) throw invalidAddress(`sslmode is ${shown(ssl)}; give one of ${SSL_MODES.join(", ")}`);
  return {
    host,
    port,
    user,
    password,
    database: database === "" ? (user ?? "postgres") : database,
    schema: checkSchema(parameters.get("schema") ?? SCHEMA_DEFAULT),
    ssl: sslModeOf(ssl as SslMode, parameters.get("sslrootcert")),
    sslRootCert: parameters.get("sslrootcert"),
    sslCert: parameters.get("sslcert"),
    sslKey: parameters.get("sslkey"),
    applicationName: parameters.get("application_name") ?? "zae-limiter",
    sessionOptions: parameters.get("options"),
    bindsChannel: bindsChannel(parameters.get("channel_binding") ?? "disable"),
  };
}

/** For messages and as the name of the store: neither user nor password. */
export function nameOf({
  host,
  port,
  database,
  schema,
}: Pick<PostgresAddress, "host" | "port" | "database" | "schema">): string {
  const at = host.startsWith("/") ? encodeURIComponent(host) : host.includes(":") ? `[${host}]` : host;
  return `postgres://${at}:${port}/${database}?schema=${schema}`;
}

export function checkSchema(schema: unknown): string {
  if (typeof schema === "string" && /^[a-z_][a-z0-9_]{0,62}$/.test(schema) && !schema.startsWith("pg_")) return schema;
  throw new ValidationError(
    "option_invalid",
    `schema is ${shown(schema)}; give up to 63 lower-case letters, digits and underscores that begin with no digit and not with "pg_".`,
  );
}

/** The mode as libpq has it: `require` with a root certificate looks at the server's, and `system` stands for those of the machine. */
function sslModeOf(ssl: SslMode, rootCert: string | undefined): SslMode {
  if (rootCert === "system" && ssl !== "verify-full")
    throw invalidAddress("sslrootcert=system goes with sslmode=verify-full");
  return ssl === "require" && rootCert !== undefined ? "verify-ca" : ssl;
}

/** pg cannot refuse a server that does not bind; whoever asks for that asks for protection from a server in between. */
function bindsChannel(binding: string): boolean {
  if (binding === "disable" || binding === "prefer") return binding === "prefer";
  if (binding === "require") {
    throw invalidAddress("channel_binding=require cannot be kept by pg; leave it out, and give sslmode=verify-full");
  }
  throw invalidAddress(`channel_binding is ${shown(binding)}; give disable or prefer`);
}

/** A folder of sockets may stand in the place of the host, or in the parameter `host`: `postgres:///app?host=/run/postgresql`. */
function hostOf(authority: string, folder: string | undefined): { readonly host: string; readonly port: number } {
  const { named, port } = hostAndPort(authority, PORT_DEFAULT);
  if (folder !== undefined && (named !== "" || !folder.startsWith("/"))) {
    throw invalidAddress("its parameter host is for a folder of sockets, such as postgres:///app?host=/run/postgresql");
  }
  const host = folder ?? (/^%2f/i.test(named) ? decodedPart(named, "the host") : named);
  if (host === "") throw invalidAddress("it has no host, or more than one; give postgres://host:5432/database");
  return { host, port };
}
