import { NotFoundError, VersionError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { change } from "./changes.ts";
import { type Attributes, instantText } from "./codec.ts";
import type { Records } from "./records.ts";
import { any, exists, isStill, missing, putRecord, texts, updateRecord } from "./records-write.ts";
import {
  CLIENT_MIN_VERSION,
  LAMBDA_VERSION,
  MIGRATING,
  oldVersionKey,
  REGISTRY,
  SCHEMA_VERSION,
  SCHEMA_VERSION_ATTRIBUTE,
  systemIndexKeys,
  TAKEN_OVER,
  UPDATED_AT,
  UPDATED_BY,
  versionKey,
} from "./schema.ts";

/** The release of the original whose items we read and write. A table that demands more is not for us. */
const FEATURE_LEVEL = "0.17.0";

/** The version demanded by a table that was taken over; no release of the original has it. */
export const KEEP_OUT = "1000.0.0";

/**
 * The version demanded by a table with limits beyond rates (domain/limits/beyond-rates.ts); no release of the original
 * has it, nor do our releases without such limits.
 */
const BEYOND_RATES = "1000.0.1";

/** The version demanded by a table that has had an override (domain/config/overrides.ts); our earlier releases would ignore it. */
const OVERRIDES = "1000.0.2";

/** The prefix of `updated_by` if this library wrote the record last. The original writes `client:` and its version. */
export const OURS = "zae-limiter-ts:";

export interface VersionRecord {
  readonly schemaVersion: string;
  readonly clientMinVersion: string;
  /** The version of the original's Lambda functions; undefined if the record has none. */
  readonly lambdaVersion: string | undefined;
  readonly updatedBy: string | undefined;
  /** The schema that the table is being migrated from, and the phase of the migration. */
  readonly migrating?: { readonly from: string; readonly phase: string };
  /** The version that keeps the original's clients out. */
  readonly takenOver?: string;
  /** The layout has no namespaces; its schema may be numbered higher than later ones. */
  readonly isOld?: true;
}

export async function readVersion(records: Records): Promise<VersionRecord | undefined> {
  const item = await records.get(versionKey());
  if (item !== undefined) return recordOf(item);
  const old = await records.get(oldVersionKey());
  // Until 0.5 all attributes but the keys were in a map.
  return old === undefined ? undefined : { ...recordOf({ ...old, ...old.data?.M }), isOld: true };
}

/**
 * Writes the version record of a new table; an existing one stays. `version`: of this package. Throws for a table in a
 * layout without namespaces, whose data would no longer be visible.
 */
export async function writeVersion(
  records: Records,
  by: { readonly version: string; readonly nowMs: number },
): Promise<void> {
  const known = await readVersion(records);
  if (known?.isOld === true) checkVersion(known, { name: records.tableName, shared: false });
  const item = newVersionItem(by);
  await records.transact([putRecord(versionKey(), item, any(missing, isStill(SCHEMA_VERSION_ATTRIBUTE, undefined)))]);
}

/** The record of a table that only this package writes. */
export function newVersionItem(by: { readonly version: string; readonly nowMs: number }): Attributes {
  return {
    ...texts(systemIndexKeys(REGISTRY)),
    ...texts({ [SCHEMA_VERSION_ATTRIBUTE]: SCHEMA_VERSION, [CLIENT_MIN_VERSION]: FEATURE_LEVEL }),
    ...texts({ [UPDATED_AT]: instantText(by.nowMs), [UPDATED_BY]: `${OURS}${by.version}` }),
    // The original's value for a table without Lambda functions, where none could misread anything.
    [LAMBDA_VERSION]: { S: FEATURE_LEVEL },
  };
}

/**
 * Records that the functions of the table's stack have the code of this version. The original reads it as the release
 * whose items they know, and does not replace them: its clients replace the code of functions with an older release
 * than their own.
 */
export async function writeLambdaVersion(records: Records, version: string): Promise<void> {
  const set = { [LAMBDA_VERSION]: { S: `${FEATURE_LEVEL}${OWN_LABEL}${version}` } };
  await records.transact([updateRecord(versionKey(), { set }, exists)]);
}

/** Our version of the functions; undefined if they are the original's, or there are none. */
export function ownLambdaVersion({ lambdaVersion }: VersionRecord): string | undefined {
  return lambdaVersion?.split(OWN_LABEL)[1];
}

/** A local version label (PEP 440), which comparisons of versions ignore. */
const OWN_LABEL = "+ts.";

/** Raises the client version that the table demands; never lowers it. */
export function raiseClientMin(records: Records, least: string): Promise<void> {
  return change(records, "The version record", async () => {
    const stored = (await records.get(versionKey()))?.[CLIENT_MIN_VERSION];
    if (stored?.S !== undefined && compareVersions(stored.S, least) >= 0) return { reply: undefined };
    const set = { [CLIENT_MIN_VERSION]: { S: least } };
    const raised = updateRecord(versionKey(), { set }, isStill(CLIENT_MIN_VERSION, stored));
    return { reply: undefined, writes: [raised] };
  });
}

/** Called before the first limit beyond rates is written: clients that would misread it refuse the table from then on. */
export function demandBeyondRates(records: Records): Promise<void> {
  return raiseClientMin(records, BEYOND_RATES);
}

/** Called before the first override is written. */
export function demandOverrides(records: Records): Promise<void> {
  return raiseClientMin(records, OVERRIDES);
}

/** Throws unless this library can use the table in the requested way. */
export function checkVersion(
  record: VersionRecord | undefined,
  table: { readonly name: string; readonly shared: boolean },
): void {
  const { name, shared } = table;
  if (record === undefined) {
    throw new NotFoundError(
      "version_missing",
      `The table "${name}" has no version record: it is not set up for this package. Set up an empty table with ` +
        `\`zae-limiter init --stack ${name}\` (in a program \`prepareTable()\`), or correct the name.`,
    );
  }
  if (record.migrating !== undefined) {
    const { from, phase } = record.migrating;
    throw new VersionError(
      "table_migrating",
      `The table "${name}" is being migrated from schema ${from} (${phase}) and cannot be used until that ends; ` +
        `\`zae-limiter migrate --name ${name}\` resumes it${phase === "clean" ? "" : ", and --abort undoes it"}.`,
    );
  }
  const schema = schemaOf(record);
  if (schema !== "same") {
    throw new VersionError(
      "schema_version",
      `The table "${name}" has schema ${record.schemaVersion}, and this version needs ${SCHEMA_VERSION}; ` +
        (schema === "older"
          ? `upgrade it with \`zae-limiter migrate --name ${name}\`, or use the version that wrote it.`
          : "update this package to one that knows it."),
    );
  }
  if (record.takenOver !== undefined && shared) {
    throw new VersionError(
      "table_taken_over",
      `The table "${name}" was taken over from the Python zae-limiter, whose clients are locked out; open it without \`sharedTable\`.`,
    );
  }
  const isOurs = record.clientMinVersion === BEYOND_RATES || record.clientMinVersion === OVERRIDES;
  if (isOurs && shared) {
    throw new VersionError(
      "client_version",
      `The table "${name}" has limits that the Python zae-limiter cannot read, and its clients are kept out; open it without \`sharedTable\`.`,
    );
  }
  const isKeptOut = record.takenOver !== undefined && record.takenOver === record.clientMinVersion;
  if (!isKeptOut && !isOurs && compareVersions(record.clientMinVersion, FEATURE_LEVEL) > 0) {
    throw new VersionError(
      "client_version",
      `The table "${name}" needs clients with the features of release ${record.clientMinVersion} of the original, ` +
        `and this one has those of ${FEATURE_LEVEL}; update this package.`,
    );
  }
  if (shared || record.updatedBy?.startsWith(OURS) === true) return;
  throw new VersionError(
    "table_shared",
    `The table "${name}" was set up by the Python zae-limiter (${record.updatedBy ?? "version unknown"}), which may ` +
      "still write to it. Open it with `sharedTable: true` to share it; or, once its clients are gone, take it over with " +
      `\`zae-limiter migrate --take-over --name ${name}\`; or use a table of your own.`,
  );
}

/** Compares the table's schema with ours by the first two numbers. */
export function schemaOf({ schemaVersion, isOld }: VersionRecord): "same" | "older" | "newer" {
  if (isOld === true) return "older";
  const [major, minor] = partsOf(schemaVersion) ?? NOTHING;
  const [ownMajor, ownMinor] = partsOf(SCHEMA_VERSION) ?? NOTHING;
  if (major === ownMajor && minor === ownMinor) return "same";
  return compareVersions(schemaVersion, SCHEMA_VERSION) < 0 ? "older" : "newer";
}

/** Negative, 0 or positive. A pre-release counts as its release; an unreadable version is below all others. */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [partsOf(a) ?? NOTHING, partsOf(b) ?? NOTHING];
  for (const [i, part] of one.entries()) if (part !== other[i]) return part - (other[i] ?? 0);
  return 0;
}

const NOTHING = [-1, 0, 0] as const;

function partsOf(version: string): readonly [number, number, number] | undefined {
  const [, major, minor, patch = "0"] = /^v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(version) ?? [];
  return major === undefined || minor === undefined ? undefined : [Number(major), Number(minor), Number(patch)];
}

function recordOf(item: Attributes): VersionRecord {
  const migrating = item[MIGRATING]?.M;
  return {
    schemaVersion: item[SCHEMA_VERSION_ATTRIBUTE]?.S ?? "",
    clientMinVersion: item[CLIENT_MIN_VERSION]?.S ?? "0.0.0",
    lambdaVersion: item[LAMBDA_VERSION]?.S,
    updatedBy: item[UPDATED_BY]?.S,
    ...given({
      migrating: migrating && { from: migrating.from?.S ?? "?", phase: migrating.phase?.S ?? "?" },
      takenOver: item[TAKEN_OVER]?.S,
    }),
  };
}
