import {
  type DeclaredPiece,
  type EntityValue,
  type LimitsValue,
  limitsOfValue,
  type Piece,
  type PlanValue,
} from "../domain/config/piece.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { limitTerms, memberIn, notCreatedIn } from "./document.ts";
import { type Manifest, OWNER_DEFAULT } from "./manifest.ts";

type Json = Record<string, unknown>;

/** A CloudFormation template with the manifest as a custom resource, every field of it, by the names that the provisioner reads. */
export function cfnTemplateOf(manifest: Manifest, at: { readonly stack: string; readonly namespace: string }): Json {
  const owner = manifest.owner ?? OWNER_DEFAULT;
  return {
    AWSTemplateFormatVersion: "2010-09-09",
    Description: `Declared limits of the namespace ${at.namespace} in ${at.stack}`,
    Resources: {
      TenantLimits: {
        Type: "Custom::ZaeLimiterLimits",
        Properties: {
          ServiceToken: { "Fn::ImportValue": `${at.stack}-ProvisionerArn` },
          TableName: at.stack,
          Namespace: at.namespace,
          // There the stack and the logical id are the owner; the manifest's own name is kept for whoever reads it.
          ...(owner === OWNER_DEFAULT ? {} : { Owner: owner }),
          ...propertiesOf(manifest.pieces),
        },
      },
    },
  };
}

function propertiesOf(pieces: readonly DeclaredPiece[]): Json {
  const plans: Record<string, Json> = {};
  const system: Json = {};
  const resources: Record<string, Json> = {};
  const entities: Record<string, Json> = {};
  for (const { piece, value, ifAbsent } of pieces) {
    const { what, level, resource = "_default_", entityId = "", planId = "" } = piece;
    if (what === "plan") plans[planId] = { ...planProperties(value as PlanValue), ...plans[planId] };
    else if (what === "entity")
      entities[entityId] = {
        ...(ifAbsent === true ? {} : entityProperties(value as EntityValue)),
        ...entities[entityId],
      };
    else if (level === "plan") {
      const levels = memberIn(memberIn(plans, planId), "Resources");
      Object.assign(memberIn(levels, resource), levelProperty(what, value));
    } else if (level === "planDefault" || level === "planTotal") {
      Object.assign(memberIn(plans, planId), levelProperty(what, value));
    } else if (level === "entityTotal") Object.assign(memberIn(entities, entityId), levelProperty(what, value));
    else if (level === "system" || level === "systemTotal") Object.assign(system, levelProperty(what, value));
    else if (level === "resource") Object.assign(memberIn(resources, resource), levelProperty(what, value));
    else {
      const levels = memberIn(memberIn(entities, entityId), "Resources");
      Object.assign(memberIn(levels, resource), levelProperty(what, value));
    }
  }
  for (const id of notCreatedIn(pieces)) entities[id] = { Create: false, ...entities[id] };
  return {
    ...(Object.keys(plans).length === 0 ? {} : { Plans: plans }),
    ...(Object.keys(system).length === 0 ? {} : { System: system }),
    ...(Object.keys(resources).length === 0 ? {} : { Resources: resources }),
    ...(Object.keys(entities).length === 0 ? {} : { Entities: entities }),
  };
}

function levelProperty(what: Exclude<Piece["what"], "plan" | "entity">, value: unknown): Json {
  switch (what) {
    case "limits":
    case "totals": {
      const { limits, inherit, appliesTo } = limitsOfValue(value as readonly Limit[] | LimitsValue);
      const prefix = what === "limits" ? "" : "Totals";
      return {
        [what === "limits" ? "Limits" : "Totals"]: Object.fromEntries(
          limits.map((limit) => [limit.name, pascal(limitTerms(limit))]),
        ),
        ...(inherit === undefined ? {} : { [`${prefix}Inherit`]: inherit }),
        ...(appliesTo === undefined ? {} : { [`${prefix}AppliesTo`]: appliesTo }),
      };
    }
    case "access":
      return { Disabled: value === "bypass" ? "bypass" : value === "disabled" };
    case "cascade":
      return { Cascade: value };
    case "onUnavailable":
      return { OnUnavailable: value };
    case "usageKeptDays":
      return { UsageKeptDays: value };
  }
}

function planProperties({ name, metadata }: PlanValue): Json {
  return { Name: name, ...(Object.keys(metadata).length === 0 ? {} : { Metadata: metadata }) };
}

function entityProperties({ name, parentId, planId, cascade, metadata }: EntityValue): Json {
  return {
    Name: name,
    ...(parentId === undefined ? {} : { Parent: parentId }),
    ...(planId === undefined ? {} : { Plan: planId }),
    Cascade: cascade,
    // Keys of metadata are the user's.
    ...(Object.keys(metadata).length === 0 ? {} : { Metadata: metadata }),
  };
}

/** `refill_amount` becomes `RefillAmount`, at every depth: names of limits are not among them. */
function pascal(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(pascal);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [
      key.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      pascal(each),
    ]),
  );
}
