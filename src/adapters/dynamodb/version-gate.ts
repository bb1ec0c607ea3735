import type { SourcedLimits } from "../../domain/bucket/limited-bucket.ts";
import type { PolicyChange } from "../../domain/config/config.ts";
import { isBeyondRates } from "../../domain/limits/beyond-rates.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { VersionError } from "../../domain/names/errors.ts";
import type { Records } from "./records.ts";
import { compareVersions, demandBeyondRates, raiseClientMin, readVersion } from "./version.ts";

/** What older releases of the original would misread, and the release that reads it. */
const NEEDS = {
  sessionQuota: "0.15.0",
  cascadePolicy: "0.16.0",
  nonEnforcing: "0.17.0",
  parentMove: "0.17.0",
} as const;

type Feature = keyof typeof NEEDS;

/**
 * On every table: limits beyond rates demand clients that know them. On a table shared with the original: before something is written that its older releases would misread, the version record
 * is raised so that they refuse the table, as the original itself does. A table that is not shared they refuse from the start.
 */
export class VersionGate {
  readonly #records: Records;
  readonly #shared: boolean;
  readonly #passed = new Set<Feature>();
  #hasBeyondRates = false;

  constructor(records: Records, shared: boolean) {
    this.#records = records;
    this.#shared = shared;
  }

  async demandFor(limits: readonly Limit[]): Promise<void> {
    if (limits.some(({ resetAfterMs }) => resetAfterMs !== undefined)) await this.demand("sessionQuota");
    if (limits.some(({ soft }) => soft)) await this.demand("nonEnforcing");
    if (limits.some(isBeyondRates)) await this.demandBeyondRates();
  }

  /** Whether a request may be the first that brings limits beyond rates to the table: it may have brought them itself. */
  isToPass(claims: readonly SourcedLimits[]): boolean {
    return !this.#hasBeyondRates && claims.some(({ set }) => set.isBeyondRates);
  }

  /** A shared table refuses such limits elsewhere, with the reason. */
  async demandBeyondRates(): Promise<void> {
    if (this.#shared || this.#hasBeyondRates) return;
    await demandBeyondRates(this.#records);
    this.#hasBeyondRates = true;
  }

  async demandForPolicy({ access, cascade }: PolicyChange): Promise<void> {
    if (typeof cascade === "boolean") await this.demand("cascadePolicy");
    if (access === "bypass") await this.demand("nonEnforcing");
  }

  async demand(feature: Feature): Promise<void> {
    if (!this.#shared || this.#passed.has(feature)) return;
    const least = NEEDS[feature];
    const lambda = (await readVersion(this.#records))?.lambdaVersion;
    if (lambda === undefined || compareVersions(lambda, least) < 0) {
      throw new VersionError(
        "lambda_version",
        `${DESCRIBED[feature]} need release ${least} of the original's Lambda functions, and the table ` +
          `"${this.#records.tableName}" ${lambda === undefined ? "does not say which it has" : `has ${lambda}`}; ` +
          "update its stack first.",
      );
    }
    await raiseClientMin(this.#records, least);
    // Never lowered, so once is enough.
    this.#passed.add(feature);
  }
}

const DESCRIBED: Readonly<Record<Feature, string>> = {
  sessionQuota: "Session quotas",
  cascadePolicy: "Cascade policies",
  nonEnforcing: "Soft limits and bypasses",
  parentMove: "Changes of an entity's parent",
};
