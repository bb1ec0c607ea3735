import { spawn } from "node:child_process";
import { accessSync, chownSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describeOn } from "../engines/describe-on.ts";
import { postgresOrReason } from "./postgres.ts";
import { freePort, unprivileged } from "./postgres-process.ts";

// A pooler in transaction mode between limiter and server: that of ZAEL_PGBOUNCER, Debian's, or one on the PATH. Where there is none
// its suites are skipped and say so; with ZAEL_REQUIRE_PGBOUNCER=1 that is a failure.

/** So many connections the pooler has to the server, however many limiters have to it. */
export const SERVER_CONNECTIONS = 3;

/** A server, and the way to it through a pooler. */
export interface PooledPostgres {
  readonly url: string;
  readonly pooledUrl: string;
  newSchema(): string;
}

/** A suite on a server behind a pooler. To be awaited, at the top of a file. */
export async function describePgbouncer(name: string, define: (place: PooledPostgres) => void): Promise<void> {
  describeOn("pgbouncer", name, await pooledOrReason(), define);
}

async function pooledOrReason(): Promise<PooledPostgres | string> {
  const program = programPath();
  if (program === undefined) return "There is no pgbouncer: install it, or name one in ZAEL_PGBOUNCER.";
  const found = await postgresOrReason();
  if (typeof found === "string") return found;
  return { ...found, pooledUrl: await started(program, new URL(found.url)) };
}

/** In front of the server at `to`; it ends with this process. */
async function started(program: string, to: URL): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "zael-pgbouncer-"));
  const account = unprivileged();
  const port = await freePort();
  const [user, password] = [to.username || "postgres", decodeURIComponent(to.password)];
  const database = to.pathname.slice(1) || "postgres";
  const settings = [
    "[databases]",
    `${database} = host=${to.hostname} port=${to.port || 5432} user=${user}${password === "" ? "" : ` password=${password}`}`,
    "[pgbouncer]",
    ...["listen_addr = 127.0.0.1", `listen_port = ${port}`, "unix_socket_dir =", "auth_type = any"],
    ...["pool_mode = transaction", `default_pool_size = ${SERVER_CONNECTIONS}`, "max_client_conn = 200"],
    ...["logfile =", "server_tls_sslmode = prefer"],
  ];
  const file = join(folder, "pgbouncer.ini");
  writeFileSync(file, settings.join("\n"), { mode: 0o600 });
  for (const path of [folder, file]) if (account !== undefined) chownSync(path, account.uid, account.gid);
  const child = spawn(program, [file], { ...account, cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  process.once("exit", () => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  await new Promise<void>((resolve, reject) => {
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-4_000);
      if (/process up/.test(said)) resolve();
    });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`pgbouncer ended with ${code}: ${said}`)));
  });
  child.unref();
  (child.stderr as unknown as { unref?: () => void }).unref?.();
  return `postgres://${user}@127.0.0.1:${port}/${database}`;
}

function programPath(): string | undefined {
  const { ZAEL_PGBOUNCER, PATH = "" } = process.env;
  if (ZAEL_PGBOUNCER) return isProgram(ZAEL_PGBOUNCER) ? ZAEL_PGBOUNCER : undefined;
  return ["/usr/sbin", ...PATH.split(delimiter)].map((folder) => join(folder, "pgbouncer")).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
