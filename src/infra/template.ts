import { checkedOptions } from "./check-options.ts";
import { declared, PARAMETERS } from "./parameters.ts";
import { type Json, type Resources, templateContext } from "./parts.ts";
import { type FullStackOptions, STACK_DEFAULTS, type StackOptions } from "./stack-options.ts";
import { accessResources } from "./template-access.ts";
import { alarmResources } from "./template-alarms.ts";
import { dashboardResources } from "./template-dashboard.ts";
import { functionResources } from "./template-functions.ts";
import { outputsOf } from "./template-outputs.ts";
import { tableResources } from "./template-table.ts";

/** A template of CloudFormation. */
export interface Template {
  /** The version of the template language. */
  readonly AWSTemplateFormatVersion: "2010-09-09";
  /** What the stack is. */
  readonly Description: string;
  /** The options that the template was made with. */
  readonly Metadata: Json;
  /** Values that can be changed without changing the structure. */
  readonly Parameters: Json;
  /** The resources by logical id. */
  readonly Resources: Resources;
  /** Outputs, with the names under which they are exported. */
  readonly Outputs: Json;
}

/**
 * The stack as a CloudFormation template. The options decide which resources it has; values stay parameters, and there
 * are no conditions.
 *
 * ```ts
 * writeFileSync("limits.json", JSON.stringify(template({ name: "limits", alarms: false })));
 * ```
 */
export function template(options: StackOptions = {}): Template {
  return templateOf(checkedOptions(options));
}

export function templateOf(options: FullStackOptions): Template {
  const context = templateContext(options);
  const resources: Resources = {
    ...tableResources(context),
    ...accessResources(context),
    ...functionResources(context),
    ...alarmResources(context),
    ...dashboardResources(context),
  };
  const body = { Resources: resources, Outputs: outputsOf(context, resources) };
  return {
    AWSTemplateFormatVersion: "2010-09-09",
    Description: "zae-limiter: a table of rate limits, its functions, policies and alarms",
    Metadata: { [METADATA_KEY]: structureOf(options) },
    Parameters: declared(body, options),
    ...body,
  };
}

const METADATA_KEY = "zae-limiter";

/** The options that decide what there is, as far as they differ from the defaults: what a later deploy begins with. */
function structureOf(options: FullStackOptions): Json {
  const values = new Set<string>(Object.values(PARAMETERS).flatMap(({ option }) => option ?? []));
  const chosen = Object.fromEntries(
    Object.entries(options).filter(
      ([name, value]) =>
        name !== "name" &&
        name !== "lambdaDurationThresholdPct" &&
        !values.has(name) &&
        // Always told: a template that does not say it is one from before there was a choice.
        name !== "regionalNames" &&
        JSON.stringify(value) !== JSON.stringify(STACK_DEFAULTS[name as keyof FullStackOptions]),
    ),
  );
  return { ...chosen, regionalNames: options.regionalNames };
}

/** What a deployed template was made with; undefined where it is not one of ours. */
export function structureIn(template: unknown): StackOptions | undefined {
  const metadata = (template as { Metadata?: Record<string, unknown> } | undefined)?.Metadata;
  return metadata?.[METADATA_KEY] as StackOptions | undefined;
}
