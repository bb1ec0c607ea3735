import { readFileSync } from "node:fs";
import { LimiterError } from "../../domain/errors.ts";
import { nameOf, type PostgresAddress } from "./address.ts";
import { NotConnected, thrownFor } from "./faults.ts";
import { type PgPool, PoolSession } from "./sessions.ts";

/** The sessions of a store: for takes, and for everything else. */
export interface Sessions {
  readonly takes: PoolSession;
  readonly others: PoolSession;
}

/** Connects by the package `pg`. One connection of `poolMax` is kept for what is no take: a burst of takes must not stop it. */
export async function openPools(address: PostgresAddress, poolMax: number, timeoutMs: number): Promise<Sessions> {
  const { Pool } = await loadPg();
  const ssl = await sslOf(address, Pool, timeoutMs);
  const poolOf = (max: number) =>
    new PoolSession(new Pool({ ...settingsOf(address), ssl, max, allowExitOnIdle: true }));
  if (poolMax === 1) {
    const only = poolOf(1);
    return { takes: only, others: only };
  }
  return { takes: poolOf(poolMax - 1), others: poolOf(1) };
}

interface PoolSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string;
  readonly application_name: string;
  readonly ssl: Ssl;
  readonly max: number;
  readonly allowExitOnIdle: boolean;
  readonly connectionTimeoutMillis?: number;
}

type Ssl =
  | false
  | {
      readonly ca?: string;
      readonly cert?: string;
      readonly key?: string;
      readonly rejectUnauthorized: boolean;
      readonly checkServerIdentity?: () => undefined;
    };

type PoolClass = new (settings: PoolSettings) => PgPool;

function settingsOf({ host, port, user, password, database, applicationName }: PostgresAddress) {
  return { host, port, user, password, database, application_name: applicationName };
}

async function loadPg(): Promise<{ readonly Pool: PoolClass }> {
  try {
    const { default: pg } = await import("pg");
    return pg as unknown as { readonly Pool: PoolClass };
  } catch (cause) {
    throw new LimiterError("package_missing", "The store postgres:// needs the package pg: npm install pg", {
      cause,
    });
  }
}

/** As libpq has it: `prefer` is TLS where the server has it. */
async function sslOf(address: PostgresAddress, Pool: PoolClass, timeoutMs: number): Promise<Ssl> {
  const { ssl, sslRootCert, sslCert, sslKey } = address;
  if (ssl === "disable") return false;
  const files = {
    ...(sslRootCert === undefined ? {} : { ca: contentOf(sslRootCert, "sslrootcert") }),
    ...(sslCert === undefined ? {} : { cert: contentOf(sslCert, "sslcert") }),
    ...(sslKey === undefined ? {} : { key: contentOf(sslKey, "sslkey") }),
  };
  if (ssl === "verify-full") return { ...files, rejectUnauthorized: true };
  if (ssl === "verify-ca") return { ...files, rejectUnauthorized: true, checkServerIdentity: () => undefined };
  const unverified = { ...files, rejectUnauthorized: false };
  if (ssl === "require") return unverified;
  return (await hasTls(address, Pool, unverified, timeoutMs)) ? unverified : false;
}

async function hasTls(address: PostgresAddress, Pool: PoolClass, ssl: Ssl, timeoutMs: number): Promise<boolean> {
  const limits = { max: 1, allowExitOnIdle: true, connectionTimeoutMillis: timeoutMs };
  const pool = new Pool({ ...settingsOf(address), ssl, ...limits });
  pool.on("error", () => {});
  try {
    (await pool.connect()).release(true);
    return true;
  } catch (error) {
    if (error instanceof Error && /does not support SSL/i.test(error.message)) return false;
    throw thrownFor(new NotConnected("No connection.", { cause: error }), nameOf(address));
  } finally {
    await pool.end();
  }
}

function contentOf(file: string, parameter: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new LimiterError("store_refused", `The file of ${parameter} cannot be read: ${file}.`, { cause });
  }
}
