import type { NamespaceWrites, RedisInspection } from "../entry/redis-admin.ts";
import type { AddCheck } from "./check.ts";

export const REDIS_CHECKS = ["server", "eviction", "memory", "durability", "replicas", "writes", "slow", "tls"];

/** Less memory than this part of the bound is little: what is idle stays for an hour. */
const MEMORY_LEFT_LITTLE = 0.1;

/** A replica that is behind by more seconds would lose them in a failover. */
const LAG_MAX_S = 5;

type Facts = NonNullable<RedisInspection["facts"]>;

/** Checks what a limiter needs of the server. */
export function redisChecks(found: RedisInspection, add: AddCheck): void {
  const { facts, aheadMs, slow, refused, isLocal, isEncrypted } = found;
  if (facts === undefined) {
    const unseen = "not shown: this user may not ask INFO";
    for (const name of ["server", "eviction", "memory", "durability", "replicas"]) {
      add(name, true, unseen, "Allow INFO to see it.");
    }
  } else {
    serverCheck(facts, add);
    evictionCheck(facts, add);
    memoryCheck(facts, add);
    durabilityCheck(facts, add);
    replicasCheck(facts, add);
  }
  slowCheck(slow, add);
  if (isEncrypted) add("tls", true, "encrypted, and the certificate of the server is verified");
  else if (isLocal) add("tls", true, "not encrypted, and the server is on this machine");
  else add("tls", true, "not encrypted: the password and all data cross the network as they are", "Give rediss://.");
  if (aheadMs === undefined) {
    add(
      "clock",
      true,
      "the server does not tell its time (TIME is not allowed): the clocks of the machines count",
      "Allow TIME.",
    );
  } else {
    add(
      "clock",
      true,
      `this machine is ${Math.abs(aheadMs)} ms ${aheadMs < 0 ? "behind" : "ahead of"} the server, whose clock counts`,
    );
  }
  if (refused.length === 0) add("permissions", true, "every command that was tried is allowed");
  else
    add("permissions", false, `refused: ${refused.join("; ")}`, 'The guide "Run on Redis" has the rules of the ACL.');
}

/** Whether the server has kept what it had answered, by the count of its writes. */
export function writesCheck({ writes, loss }: NamespaceWrites, add: AddCheck): void {
  if (loss === undefined) {
    add("writes", true, `${writes}, and no process has noticed that some were lost`);
    return;
  }
  const noticed = new Date(loss.atMs).toISOString();
  const detail = `${writes}; ${loss.writes} or more were lost, as was noticed at ${noticed}: what they took can be taken again`;
  add(
    "writes",
    true,
    detail,
    "Look at failovers and restarts of the server before then, and at durability and replicas here.",
  );
}

function nameOf({ version, isValkey }: Facts): string {
  return `${isValkey ? "Valkey" : "Redis"} ${version}`;
}

function serverCheck(facts: Facts, add: AddCheck): void {
  const mode = facts.isCluster ? ", a node of a cluster" : "";
  if (facts.isReplica) {
    add("server", false, `${nameOf(facts)}, a replica, which only reads`, "Give the address of the primary.");
  } else if (facts.clusterState !== undefined && facts.clusterState !== "ok") {
    const detail = `${nameOf(facts)}, a primary${mode} whose state is ${facts.clusterState}: it refuses what is asked`;
    add("server", false, detail, "CLUSTER NODES and CLUSTER SLOTS tell which node or slot is missing.");
  } else add("server", true, `${nameOf(facts)}, a primary${mode}`);
}

function evictionCheck({ evictionPolicy }: Facts, add: AddCheck): void {
  if (evictionPolicy === "noeviction") add("eviction", true, "nothing is removed when the memory is full");
  else {
    const detail = `maxmemory-policy is ${evictionPolicy}: a full memory resets limits without a word`;
    add("eviction", false, detail, "Set maxmemory-policy noeviction, or open the store with allowEviction.");
  }
}

function memoryCheck({ usedBytes, maxBytes }: Facts, add: AddCheck): void {
  const used = `${megabytes(usedBytes)} used`;
  if (maxBytes === 0) add("memory", true, `${used}, without a bound`);
  else {
    const detail = `${used} of ${megabytes(maxBytes)}`;
    if (usedBytes < (1 - MEMORY_LEFT_LITTLE) * maxBytes) add("memory", true, detail);
    else add("memory", true, detail, "Raise maxmemory, or run `zae-limiter sweep`.");
  }
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1_048_576)} MB`;
}

function durabilityCheck({ hasAppendLog, appendFsync, isDefaultUserOff }: Facts, add: AddCheck): void {
  if (!hasAppendLog) {
    const remedy = "Set appendonly yes, or accept that.";
    add(
      "durability",
      true,
      "no append-only file: a crash of the server loses everything since its last snapshot",
      remedy,
    );
    return;
  }
  // Takes and changes are one write each. Of the other programs on such a server nobody knows.
  const dropped =
    isDefaultUserOff === true
      ? "; as its default user is off, some servers drop transactions of the log, but the store has none"
      : "";
  const atCrash = `a crash of the server loses nothing that was answered${dropped}`;
  if (appendFsync === "always") add("durability", true, `${atCrash}, nor does a loss of power`);
  else if (appendFsync === undefined)
    add("durability", true, `${atCrash}; what a loss of power takes is not shown (CONFIG GET)`);
  else add("durability", true, `${atCrash}; a loss of power takes up to 2 s (appendfsync ${appendFsync})`);
}

function replicasCheck({ replicas }: Facts, add: AddCheck): void {
  if (replicas.length === 0) {
    add("replicas", true, "none");
    return;
  }
  const told = replicas.map(({ name, lagS }) => `${name} (${lagS} s behind)`).join(", ");
  const late = replicas.some(({ lagS }) => lagS > LAG_MAX_S);
  const detail = `${told}; a failover loses what its replica has not received, unless the store is opened with replicas`;
  add("replicas", true, detail, ...(late ? ["Look why a replica is behind."] : []));
}

function slowCheck(slow: RedisInspection["slow"], add: AddCheck): void {
  if (slow === undefined) {
    add("slow", true, "the slow log is not shown to this user", "Allow SLOWLOG to see it.");
    return;
  }
  const { count, slowestMs } = slow;
  if (count === 0) add("slow", true, "the slow log has none of its scripts");
  else {
    const detail = `the slow log has ${count} of its scripts, the slowest of ${slowestMs.toFixed(1)} ms`;
    add(
      "slow",
      true,
      detail,
      "Look what keeps the server busy, such as KEYS of another program, swap, or a full core.",
    );
  }
}
