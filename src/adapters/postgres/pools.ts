import { LimiterError } from "../../domain/names/errors.ts";
import { nameOf, type PostgresAddress } from "./address.ts";
import { NotConnected, thrownFor } from "./faults.ts";
import { type PgPool, PoolSession } from "./sessions.ts";
import { isWithoutTls, type Ssl, sslOf } from "./tls.ts";

/** The sessions of a store: for takes, and for everything else. */
interface Sessions {
  readonly takes: PoolSession;
  readonly others: PoolSession;
}

/** Connects by the package `pg`. One connection of `poolMax` is kept for what is no take: a burst of takes must not stop it. */
export async function openPools(address: PostgresAddress, poolMax: number, timeoutMs: number): Promise<Sessions> {
  const { Pool } = await loadPg();
  const ssl = await sslOf(address, (tried) => hasTls(address, Pool, tried, timeoutMs));
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
  readonly enableChannelBinding: boolean;
  readonly options?: string;
  readonly ssl: Ssl;
  readonly max: number;
  readonly allowExitOnIdle: boolean;
  readonly connectionTimeoutMillis?: number;
}

type PoolClass = new (settings: PoolSettings) => PgPool;

function settingsOf(address: PostgresAddress) {
  const { host, port, user, password, database, applicationName, sessionOptions: options, bindsChannel } = address;
  return {
    ...{ host, port, user, password, database, application_name: applicationName, enableChannelBinding: bindsChannel },
    ...(options === undefined ? {} : { options }),
  };
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

/** Whether the server can. Throws where it cannot be reached, or refuses this user. */
async function hasTls(address: PostgresAddress, Pool: PoolClass, ssl: Ssl, timeoutMs: number): Promise<boolean> {
  const limits = { max: 1, allowExitOnIdle: true, connectionTimeoutMillis: timeoutMs };
  const pool = new Pool({ ...settingsOf(address), ssl, ...limits });
  pool.on("error", () => {});
  try {
    (await pool.connect()).release(true);
    return true;
  } catch (error) {
    if (isWithoutTls(error)) return false;
    throw thrownFor(new NotConnected("No connection.", { cause: error }), nameOf(address));
  } finally {
    await pool.end();
  }
}
