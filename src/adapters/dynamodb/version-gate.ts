import { type ConfigScope, isTotal, type LimitsChange, type PolicyChange } from "../../domain/config/config.ts";
import { isBeyondRates } from "../../domain/limits/beyond-rates.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { SourcedLimits } from "../../domain/limits/limit-set.ts";
import { ValidationError, VersionError } from "../../domain/names/errors.ts";
import type { Records } from "./records.ts";
import { compareVersions, demandBeyondRates, demandOverrides, raiseClientMin, readVersion } from "./version.ts";

/** Features that older releases of the original misread, with the first release that reads them. */
const NEEDS = {
  sessionQuota: "0.15.0",
  cascadePolicy: "0.16.0",
  nonEnforcing: "0.17.0",
  parentMove: "0.17.0",
} as const;

type Feature = keyof typeof NEEDS;

/**
 * Raises the version that a table demands of its clients, before something is written that older clients would misread.
 * Limits beyond rates raise it on every table. The other features raise it on a table shared with the original, as the
 * original itself does; a table that is not shared refuses its older releases from the start.
 */
export class VersionGate {
  readonly #records: Records;
  readonly #shared: boolean;
  readonly #passed = new Set<Feature>();
  #hasBeyondRates = false;
  #hasOverrides = false;

  constructor(records: Records, shared: boolean) {
    this.#records = records;
    this.#shared = shared;
  }

  async demandFor(limits: readonly Limit[]): Promise<void> {
    if (limits.some(({ resetAfterMs }) => resetAfterMs !== undefined)) await this.demand("sessionQuota");
    if (limits.some(({ soft }) => soft)) await this.demand("nonEnforcing");
    if (limits.some(isBeyondRates)) await this.demandBeyondRates();
  }

  /** True if a request may be the first with limits beyond rates on this table. */
  isToPass(claims: readonly SourcedLimits[]): boolean {
    return !this.#hasBeyondRates && claims.some(({ set }) => set.isBeyondRates);
  }

  /** A shared table refuses such limits elsewhere, with the reason. */
  async demandBeyondRates(): Promise<void> {
    if (this.#shared || this.#hasBeyondRates) return;
    await demandBeyondRates(this.#records);
    this.#hasBeyondRates = true;
  }

  /** Called before the first override is written; a shared table refuses them elsewhere, with the reason. */
  async demandOverrides(): Promise<void> {
    if (this.#hasOverrides) return;
    await demandOverrides(this.#records);
    this.#hasOverrides = true;
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
    // The version is never lowered, so once is enough.
    this.#passed.add(feature);
  }
}

const DESCRIBED: Readonly<Record<Feature, string>> = {
  sessionQuota: "Session quotas",
  cascadePolicy: "Cascade policies",
  nonEnforcing: "Soft limits and bypasses",
  parentMove: "Changes of an entity's parent",
};

/** Throws for limits that the original would ignore, on a table shared with it. */
export function refuseLevelShared(scope: ConfigScope, { inherit, appliesTo, untilMs }: LimitsChange): void {
  if ("planId" in scope) throw notShared("Plans");
  if (isTotal(scope)) throw notShared("Totals over all resources");
  if (inherit === true) throw notShared("Levels that inherit");
  if (untilMs !== undefined) throw notShared("Limits with an end");
  if (appliesTo === "callers") throw notShared("Defaults for callers only");
}

export function notShared(what: string): ValidationError {
  return new ValidationError(
    "shared_table",
    `${what} cannot be set on a table that is shared with the original, which would ignore them; ` +
      "take the table over with `migrate`, or leave them out.",
  );
}
