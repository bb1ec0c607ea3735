import { LimiterError, NotFoundError, ValidationError, VersionError } from "../../domain/names/errors.ts";
import { type Connection, type Reply, textOf } from "./connection.ts";
import { faultOf, thrownFor } from "./faults.ts";
import { metaKey } from "./keys.ts";

/** The form of what is kept under our keys; a later one is a store of a later package. */
const SCHEMA_VERSION = 1;

/** What a server says of itself; undefined where the user may not ask. */
export interface ServerFacts {
  readonly version: string;
  readonly isValkey: boolean;
  readonly isReplica: boolean;
  readonly isCluster: boolean;
  /** Undefined: it is no node of a cluster, or does not tell. */
  readonly clusterState: string | undefined;
  readonly evictionPolicy: string;
  readonly usedBytes: number;
  /** 0: there is no bound. */
  readonly maxBytes: number;
  readonly hasAppendLog: boolean;
  /** Undefined: not to be had. */
  readonly appendFsync: string | undefined;
  readonly replicas: readonly { readonly name: string; readonly lagS: number }[];
  readonly user: string | undefined;
  /** Undefined: this user may not ask. */
  readonly isDefaultUserOff: boolean | undefined;
}

/** The rules under which a store is opened. */
export interface OpeningRules {
  readonly durability: "normal" | "full";
  /** A managed service that does not show its settings is taken at its word. */
  readonly trustServer: boolean;
  readonly allowEviction: boolean;
}

/** The oldest server with all commands that are used. */
const OLDEST = [6, 2] as const;

/** Asks the server for its facts. Without the right to, there are none. */
export async function serverFacts(connection: Connection): Promise<ServerFacts | undefined> {
  let text: string;
  try {
    const [reply] = await connection.send([["INFO"]]);
    // Some clients of a cluster ask every node, and answer its name and its text.
    text = textOf(Array.isArray(reply) ? reply[1] : reply) ?? "";
  } catch (error) {
    if (faultOf(error) === "rights") return undefined;
    throw thrownFor(error, connection.name);
  }
  const facts = new Map(
    text.split(/\r?\n/).map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]),
  );
  const of = (name: string): string => facts.get(name) ?? "";
  const replicas = [...facts.keys()].filter((name) => /^slave\d+$/.test(name)).map((name) => replicaOf(of(name)));
  return {
    version: of("valkey_version") || of("redis_version"),
    isValkey: facts.has("valkey_version"),
    isReplica: of("role") === "slave",
    isCluster: of("cluster_enabled") === "1",
    clusterState: of("cluster_enabled") === "1" ? await clusterStateOf(connection) : undefined,
    evictionPolicy: of("maxmemory_policy"),
    usedBytes: Number(of("used_memory")),
    maxBytes: Number(of("maxmemory")),
    hasAppendLog: of("aof_enabled") === "1",
    appendFsync: await settingOf(connection, "appendfsync"),
    replicas,
    user: await userOf(connection),
    isDefaultUserOff: await isDefaultUserOff(connection),
  };
}

/** The scripts of a store that its server found slow. */
export interface SlowScripts {
  readonly count: number;
  readonly slowestMs: number;
}

/** Our scripts in the slow log of the server; undefined where the user may not ask. */
export async function slowScripts(connection: Connection): Promise<SlowScripts | undefined> {
  try {
    const [reply] = await connection.send([["SLOWLOG", "GET", "128"]]);
    const ours = (reply as readonly SlowEntry[]).filter(([, , , [name, , , key]]) =>
      /^EVAL(SHA)?$/i.test(textOf(name) ?? "") ? textOf(key)?.startsWith(`{${connection.prefix}:`) : false,
    );
    return { count: ours.length, slowestMs: Math.max(0, ...ours.map(([, , micros]) => Number(micros))) / 1_000 };
  } catch {
    // Some services have none.
    return undefined;
  }
}

type SlowEntry = readonly [id: number, atS: number, micros: number, command: readonly Uint8Array[]];

function replicaOf(text: string): { readonly name: string; readonly lagS: number } {
  const parts = new Map(text.split(",").map((part) => part.split("=", 2) as [string, string]));
  return { name: `${parts.get("ip")}:${parts.get("port")}`, lagS: Number(parts.get("lag") ?? 0) };
}

async function settingOf(connection: Connection, name: string): Promise<string | undefined> {
  try {
    const [reply] = await connection.send([["CONFIG", "GET", name]]);
    return Array.isArray(reply) ? textOf(reply[1]) : undefined;
  } catch {
    // Most services do not let anybody.
    return undefined;
  }
}

async function userOf(connection: Connection): Promise<string | undefined> {
  try {
    const [reply] = await connection.send([["ACL", "WHOAMI"]]);
    return textOf(reply);
  } catch {
    return undefined;
  }
}

async function clusterStateOf(connection: Connection): Promise<string | undefined> {
  try {
    const [reply] = await connection.send([["CLUSTER", "INFO"]]);
    return /^cluster_state:(\w+)/m.exec(textOf(reply) ?? "")?.[1];
  } catch {
    return undefined;
  }
}

async function isDefaultUserOff(connection: Connection): Promise<boolean | undefined> {
  try {
    const [reply] = await connection.send([["ACL", "GETUSER", "default"]]);
    const parts = (reply ?? []) as readonly Reply[];
    const flags = parts[parts.findIndex((part) => textOf(part) === "flags") + 1] as readonly Reply[];
    return flags.some((flag) => textOf(flag) === "off");
  } catch {
    return undefined;
  }
}

/** Throws where a limiter on this server could not keep its promise. */
export function checkServer(name: string, facts: ServerFacts | undefined, rules: OpeningRules): void {
  const refused = (why: string) => new LimiterError("store_refused", `The server of ${name} ${why}`);
  if (facts === undefined) {
    if (rules.durability === "normal" || rules.trustServer) return;
    throw refused(
      'does not show its settings (INFO is not allowed), so durability "full" cannot be checked; allow INFO, or pass trustServer: true.',
    );
  }
  const [major = 0, minor = 0] = facts.version.split(".").map(Number);
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    throw refused(`is ${facts.version || "of an unknown version"}; zae-limiter needs Redis 6.2 or later, or Valkey.`);
  }
  if (facts.isReplica) throw refused("is a replica, which only reads; give the address of the primary.");
  if (facts.evictionPolicy !== "noeviction" && facts.evictionPolicy !== "" && !rules.allowEviction) {
    throw refused(
      `removes keys when its memory is full (maxmemory-policy ${facts.evictionPolicy}), which resets limits without a word; ` +
        "set `maxmemory-policy noeviction` there, or pass allowEviction: true.",
    );
  }
  if (rules.durability === "full" && !rules.trustServer) checkDurability(refused, facts);
}

function checkDurability(refused: (why: string) => LimiterError, { hasAppendLog, appendFsync }: ServerFacts): void {
  if (!hasAppendLog) {
    throw refused(
      'keeps no append-only file, so durability "full" cannot be had; set `appendonly yes` and `appendfsync always` there.',
    );
  }
  if (appendFsync === undefined) {
    throw refused(
      'does not show `appendfsync` (CONFIG GET is not allowed), so durability "full" cannot be checked; pass trustServer: true if it is `always`.',
    );
  }
  if (appendFsync !== "always") {
    throw refused(
      `has \`appendfsync ${appendFsync}\`, so durability "full" cannot be had; set \`appendfsync always\` there.`,
    );
  }
}

/** The form of the store; undefined: there is none under this prefix. */
export async function storeVersion(connection: Connection): Promise<number | undefined> {
  const [reply] = await connection.ask([["GET", metaKey(connection.prefix)]]);
  const text = textOf(reply);
  if (text === undefined) return undefined;
  const version = /^zae-limiter (\d+)$/.exec(text)?.[1];
  if (version !== undefined) return Number(version);
  throw new ValidationError(
    "store_invalid",
    `The key ${metaKey(connection.prefix)} of ${connection.name} is not of zae-limiter; choose another prefix, such as ?prefix=limits.`,
  );
}

/** Makes the store where there is none, if it may. */
export async function ensureStore(connection: Connection, create: boolean): Promise<void> {
  const version = await storeVersion(connection);
  if (version === SCHEMA_VERSION) return;
  if (version !== undefined) {
    throw new VersionError(
      "schema_newer",
      `The keys of ${connection.name} are of version ${version}, and this package knows version ${SCHEMA_VERSION}; upgrade zae-limiter.`,
    );
  }
  if (!create) {
    throw new NotFoundError(
      "store_not_found",
      `${connection.name} has no store of zae-limiter. Make it with \`zae-limiter init\`, or open the store without \`create: false\`.`,
    );
  }
  await connection.ask([["MSET", metaKey(connection.prefix), `zae-limiter ${SCHEMA_VERSION}`]]);
}

/** The time of the server, in ms; undefined where it does not tell. */
export async function serverTime(connection: Connection): Promise<number | undefined> {
  try {
    const [reply] = await connection.send([["TIME"]]);
    const [seconds, micros] = reply as readonly (Uint8Array | string)[];
    return Number(textOf(seconds)) * 1000 + Math.floor(Number(textOf(micros)) / 1000);
  } catch (error) {
    if (faultOf(error) === "rights") return undefined;
    throw thrownFor(error, connection.name);
  }
}
