import { ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import { addressParts, hostAndPort, invalidAddress } from "../../domain/names/server-address.ts";

/** The place of a server, and the user who asks it. */
export interface RedisAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: number;
  readonly prefix: string;
  readonly isSecure: boolean;
  readonly isCluster: boolean;
}

export const PREFIX_DEFAULT = "zael";
const PORT_DEFAULT = 6379;
const PARAMETERS = ["prefix", "cluster"];

export function isRedisUrl(text: string): boolean {
  return /^(redis|valkey)s?:\/\//i.test(text);
}

/** The address of a server: as it is given, else that of `REDIS_URL`. Whatever it is, no message shows it. */
export function redisUrlOf(given: string | undefined, redisUrl: string | undefined): string {
  const found = given ?? redisUrl;
  if (found === undefined || found === "") {
    throw new ValidationError(
      "option_invalid",
      'The store "redis" goes by REDIS_URL, which is not set; set it, or give redis://host:6379.',
    );
  }
  if (typeof found === "string" && isRedisUrl(found)) return found;
  const whose = given === undefined ? "The address in REDIS_URL" : "The address of the store";
  throw new ValidationError(
    "option_invalid",
    `${whose} does not begin with redis://, rediss://, valkey:// or valkeys://.`,
  );
}

/** The parts of `redis://user:password@host:6379/0?prefix=zael`. */
export function addressOf(url: string): RedisAddress {
  const [, scheme = "", rest = ""] = /^((?:redis|valkey)s?):\/\/(.*)$/is.exec(url) ?? [];
  const { user, password, authority, path, parameters } = addressParts(rest, PARAMETERS);
  const isCluster = flagOf(parameters.get("cluster"));
  const database = databaseOf(path);
  if (isCluster && database !== 0) throw invalidAddress(`it names database ${database}; a cluster has database 0 only`);
  return {
    ...hostOf(authority),
    user,
    password,
    database,
    prefix: checkPrefix(parameters.get("prefix") ?? PREFIX_DEFAULT),
    isSecure: /^(rediss|valkeys)$/i.test(scheme),
    isCluster,
  };
}

/** For messages and as the name of the store: neither user nor password. */
export function nameOf(address: Omit<RedisAddress, "user" | "password">): string {
  const { host, port, database, prefix, isSecure, isCluster } = address;
  const at = host.includes(":") ? `[${host}]` : host;
  return `redis${isSecure ? "s" : ""}://${at}:${port}/${database}?prefix=${prefix}${isCluster ? "&cluster=true" : ""}`;
}

export function checkPrefix(prefix: unknown): string {
  if (typeof prefix === "string" && /^[A-Za-z0-9._-]{1,32}$/.test(prefix)) return prefix;
  throw new ValidationError(
    "option_invalid",
    `prefix is ${shown(prefix)}; give 1 to 32 letters, digits, ".", "_" and "-".`,
  );
}

function hostOf(authority: string): { readonly host: string; readonly port: number } {
  const { named: host, port } = hostAndPort(authority, PORT_DEFAULT);
  if (host === "") throw invalidAddress("it has no host, or more than one; give redis://host:6379");
  return { host, port };
}

function databaseOf(path: string): number {
  if (path === "") return 0;
  if (!/^\d{1,4}$/.test(path))
    throw invalidAddress(`its database is ${shown(path)}; give a number, such as redis://host:6379/0`);
  return Number(path);
}

function flagOf(value: string | undefined): boolean {
  if (value === undefined || value === "false") return false;
  if (value === "true") return true;
  throw invalidAddress(`cluster is ${shown(value)}; give true or false`);
}
