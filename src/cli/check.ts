import type { PostgresInspection } from "../entry/postgres-admin.ts";

/** The checks of every store, each after those that it depends on. */
export const CHECKS = ["store", "namespace", "version", "clock", "permissions"] as const;

/**
 * Whether one thing is well; null: what stands before it is not, so that it could not be looked at. One that is well and has a
 * remedy works, and could be better.
 */
export interface Check {
  readonly name: string;
  readonly ok: boolean | null;
  readonly detail: string;
  readonly remedy?: string;
}

/** Notes whether one thing is well. */
export type AddCheck = (name: Check["name"], ok: boolean, detail: string, remedy?: string) => void;

/** A pool has four by default: with less than two pools' worth, the next process that starts may find none. */
const CONNECTIONS_FEW = 8;

/** Autovacuum removes this many before long; takes read more of them again and again. */
const DEAD_ROWS_MANY = 10_000;

/** Checks what a limiter needs of the server, whatever is in the schema. */
export function serverChecks(found: PostgresInspection, add: AddCheck): void {
  const { isStandby, serverVersion, isolation } = found;
  if (isStandby)
    add(
      "server",
      false,
      `PostgreSQL ${serverVersion}, a standby, which only reads`,
      "Give the address of the primary.",
    );
  else add("server", true, `PostgreSQL ${serverVersion}, a primary`);
  if (isolation === "read committed") add("isolation", true, "transactions are read committed");
  else {
    const remedy = `ALTER ROLE ${quoted(found.user)} SET default_transaction_isolation = 'read committed';`;
    add("isolation", false, `transactions of ${found.user} are ${isolation}; takes need read committed`, remedy);
  }
  durabilityCheck(found, add);
  tlsCheck(found, add);
  connectionsCheck(found, add);
  transactionsCheck(found, add);
  rowsCheck(found, add);
}

/** Checks whether this user has the rights of a role. */
export function permissionsCheck({ user, rights: { role, lacks } }: PostgresInspection, add: AddCheck): void {
  if (lacks.length === 0) {
    add("permissions", true, `${user} ${MAY[role]}`);
    return;
  }
  const shown = lacks.slice(0, 5).join(", ");
  const more = lacks.length > 5 ? ` and ${lacks.length - 5} more` : "";
  add(
    "permissions",
    false,
    `${user} lacks, of the rights of the role ${role}: ${shown}${more}`,
    "Grant them as the owner; `zae-limiter init --grants` prints the statements.",
  );
}

const MAY = {
  owner: "may do everything, and upgrade the tables",
  admin: "may do everything but upgrade the tables",
  acquire: "may acquire, settle and roll back, and may not change limits",
  read: "may read everything, and may not acquire",
} as const;

export function clockCheck({ aheadMs }: PostgresInspection, add: AddCheck): void {
  const off = `this machine is ${Math.abs(aheadMs)} ms ${aheadMs < 0 ? "behind" : "ahead of"} the server, whose clock counts`;
  add("clock", true, off);
}

function durabilityCheck(found: PostgresInspection, add: AddCheck): void {
  const off = [...(found.fsync ? [] : ["fsync"]), ...(found.fullPageWrites ? [] : ["full_page_writes"])];
  if (off.length > 0) {
    const names = off.join(" and ");
    add(
      "durability",
      false,
      `${names} ${off.length > 1 ? "are" : "is"} off: a crash of the machine can lose or damage everything`,
      `Set ${off.map((name) => `${name} = on`).join(" and ")} at the server.`,
    );
    return;
  }
  const atCrash = `a crash loses nothing that was answered; with durability normal, up to ${found.lossMaxMs} ms`;
  const { standbys, synchronousStandbyNames: names, synchronousCommit: commit } = found;
  const waits = names !== "" && commit !== "off" && commit !== "local";
  const of = standbys.map(({ name }) => name).join(", ");
  if (waits) add("durability", true, `${atCrash}; nor does a failover, for takes wait for ${names}`);
  else if (standbys.length === 0) add("durability", true, atCrash);
  else {
    const why = names === "" ? "synchronous_standby_names is empty" : `synchronous_commit is ${commit}`;
    add(
      "durability",
      true,
      `${atCrash}; a failover to ${of} loses what it has not received: ${why}`,
      names === "" ? "Set synchronous_standby_names, or accept that." : "Set synchronous_commit = on, or accept that.",
    );
  }
}

function tlsCheck({ isEncrypted, isLocal, isVerified }: PostgresInspection, add: AddCheck): void {
  if (isLocal) add("tls", true, `${isEncrypted ? "encrypted" : "not encrypted"}, and the server is on this machine`);
  else if (!isEncrypted)
    add(
      "tls",
      true,
      "not encrypted: the password and all data cross the network as they are",
      "Add sslmode=verify-full.",
    );
  else if (isVerified) add("tls", true, "encrypted, and the certificate of the server is verified");
  else {
    const remedy = "Add sslmode=verify-full, and sslrootcert=FILE for a CA of your own.";
    add("tls", true, "encrypted, but the certificate of the server is not verified", remedy);
  }
}

function connectionsCheck({ connectionsLeft, connectionsMax }: PostgresInspection, add: AddCheck): void {
  const left = `${connectionsLeft} of ${connectionsMax} connections are free`;
  if (connectionsLeft >= CONNECTIONS_FEW) add("connections", true, left);
  else add("connections", true, left, "Raise max_connections, lower poolMax, or put a pooler in front of the server.");
}

function transactionsCheck({ oldest, hiddenSessions, user }: PostgresInspection, add: AddCheck): void {
  if (oldest !== undefined) {
    const { pid, application, state, ageMs } = oldest;
    const who = `${oldest.user}${application === "" ? "" : ` (${application})`}, process ${pid}, ${state}`;
    const why = "while it lasts, old versions of rows are not removed, and takes get slower";
    add(
      "transactions",
      true,
      `one is open for ${Math.floor(ageMs / 60_000)} min: ${who}; ${why}`,
      `End it: SELECT pg_terminate_backend(${pid});`,
    );
  } else if (hiddenSessions > 0) {
    const hidden = `none over a minute old, of what ${user} can see; ${hiddenSessions} sessions of others are hidden from it`;
    add("transactions", true, hidden, `GRANT pg_read_all_stats TO ${quoted(user)}; shows them.`);
  } else add("transactions", true, "none is over a minute old");
}

function rowsCheck({ rows }: PostgresInspection, add: AddCheck): void {
  const { live, dead } = rows ?? { live: 0, dead: 0 };
  const counted = `about ${live} buckets and ${dead} dead rows`;
  if (dead <= DEAD_ROWS_MANY || dead <= live) add("rows", true, counted);
  else add("rows", true, counted, "Let autovacuum run on the table bucket more often, or run VACUUM on it.");
}

function quoted(role: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(role) ? role : `"${role.replaceAll('"', '""')}"`;
}
