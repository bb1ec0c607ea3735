import type { Construct } from "constructs";
import { RateLimiterConstruct, type RateLimiterProps } from "../cdk/rate-limiter.ts";
import { builtZip } from "./lambda-code.ts";
import { parseManifest } from "./manifest.ts";

export type { GrantOptions, LimitsOptions, OwnKey, OwnTable, RateLimiterProps } from "../cdk/rate-limiter.ts";
export type { Manifest } from "../manifest/manifest.ts";

/**
 * The stack of a rate limiter in a CDK stack: table, functions, policies, alarms.
 *
 * ```ts
 * const limiter = new RateLimiter(stack, "Limits", { tableName: "limits" });
 * limiter.grantAcquire(api);
 * limiter.limits("Declared", readFileSync("limits.yaml", "utf8"));
 * ```
 */
export class RateLimiter extends RateLimiterConstruct {
  constructor(scope: Construct, id: string, props: RateLimiterProps = {}) {
    super(scope, id, props, { code: builtZip, parse: parseManifest });
  }
}
