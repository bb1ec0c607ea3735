import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";

/** A PostgreSQL that this process has started. */
export interface PostgresProcess {
  readonly url: string;
  readonly port: number;
  /** The folder of its socket. */
  readonly sockets: string;
  /** SIGKILL of the server with all that belongs to it, as a crash. */
  kill(): Promise<void>;
  /** Starts it again on the same data and the same port. */
  restart(): Promise<void>;
}

/** The newest that Debian's packages have put there, or on the path. */
function binaries(): string {
  const [newest] = globSync("/usr/lib/postgresql/*/bin/initdb").sort().reverse();
  if (newest !== undefined) return join(newest, "..");
  for (const folder of (process.env.PATH ?? "").split(":")) if (existsSync(join(folder, "initdb"))) return folder;
  throw new Error("PostgreSQL is not installed: neither /usr/lib/postgresql/*/bin nor the path has initdb.");
}

export function hasBinaries(): boolean {
  try {
    binaries();
    return true;
  } catch {
    return false;
  }
}

/**
 * Starts a server in a folder of its own, on a free port of loopback; it ends with this process. `files`: what its folder of data has
 * besides what `initdb` makes, or in place of it, by name.
 */
export async function startPostgres(
  settings: readonly string[],
  files: Readonly<Record<string, string>> = {},
): Promise<PostgresProcess> {
  return madeBy(settings, (data, who) => {
    const flags = ["-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"];
    execFileSync(join(binaries(), "initdb"), flags, { ...who, cwd: join(data, ".."), stdio: "pipe" });
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(data, name), text, { mode: 0o600 });
      if (who !== undefined) chownSync(join(data, name), who.uid, who.gid);
    }
  });
}

/** Starts a standby that receives the log of a server as it is written, as `name`. */
export async function startStandby(
  primary: PostgresProcess,
  name: string,
  settings: readonly string[],
): Promise<PostgresProcess> {
  return madeBy(settings, (data, who) => {
    const from = `host=127.0.0.1 port=${primary.port} user=postgres application_name=${name}`;
    const flags = [
      "-D",
      data,
      "-d",
      from,
      "--write-recovery-conf",
      "--wal-method=stream",
      "--no-sync",
      "--checkpoint=fast",
    ];
    execFileSync(join(binaries(), "pg_basebackup"), flags, { ...who, cwd: join(data, ".."), stdio: "pipe" });
  });
}

type Account = { readonly uid: number; readonly gid: number } | undefined;

async function madeBy(
  settings: readonly string[],
  makeData: (data: string, who: Account) => void,
): Promise<PostgresProcess> {
  const folder = mkdtempSync(join(tmpdir(), "zael-postgres-"));
  const data = join(folder, "data");
  const account = unprivileged();
  if (account !== undefined) chownSync(folder, account.uid, account.gid);
  makeData(data, account);
  const port = await freePort();
  let server: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    // Memory that it shares stands in its own folder: a server that is killed leaves nothing behind.
    const ownMemory = "dynamic_shared_memory_type=mmap";
    const options = ["listen_addresses=127.0.0.1", `unix_socket_directories=${folder}`, ownMemory, ...settings];
    const args = ["-D", data, "-p", String(port), ...options.flatMap((option) => ["-c", option])];
    server = spawn(join(binaries(), "postgres"), args, {
      ...{ ...account, cwd: folder, stdio: ["ignore", "ignore", "pipe"] },
    });
    await ready(server);
  };
  process.once("exit", () => {
    server?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  await start();
  server?.unref();
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    sockets: folder,
    kill: async () => {
      // One that has stopped by itself tells of no second end.
      if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
      const ended = new Promise((resolve) => server?.once("exit", resolve));
      server.kill("SIGKILL");
      await ended;
    },
    restart: async () => {
      // The children of one that was killed end when they notice; until then the folder is theirs.
      for (let tries = 1; ; tries++) {
        try {
          await start();
          server?.unref();
          return;
        } catch (error) {
          if (tries === 50) throw error;
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
      }
    },
  };
}

// The server refuses to run as root.
export function unprivileged(): Account {
  if (userInfo().uid !== 0) return undefined;
  for (const name of ["postgres", "nobody"]) {
    try {
      const numberOf = (flag: string) => Number(execFileSync("id", [flag, name], { encoding: "utf8", stdio: "pipe" }));
      return { uid: numberOf("-u"), gid: numberOf("-g") };
    } catch {
      // The next one.
    }
  }
  throw new Error("PostgreSQL does not run as root, and there is neither the user postgres nor nobody.");
}

function ready(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = "";
    server.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-4_000);
      if (/database system is ready to accept (read-only )?connections/.test(said)) resolve();
    });
    (server.stderr as unknown as { unref?: () => void })?.unref?.();
    server.once("error", reject);
    server.once("exit", (code) => reject(new Error(`The server ended with ${code}: ${said}`)));
  });
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
