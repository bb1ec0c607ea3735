import type { DeclaredPiece } from "../domain/config/piece.ts";
import { given } from "../domain/names/given.ts";
import { levelMembers, limitTerms, partsOfDocument, withoutEmpty } from "./document.ts";
import { type Manifest, OWNER_DEFAULT } from "./manifest.ts";

type Json = Readonly<Record<string, unknown>>;

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
          // The stack and the logical id are the owner there. The manifest's own name is kept for its readers.
          ...(owner === OWNER_DEFAULT ? {} : { Owner: owner }),
          ...propertiesOf(manifest.pieces),
        },
      },
    },
  };
}

function propertiesOf(pieces: readonly DeclaredPiece[]): Json {
  const {
    plans: Plans,
    system: System,
    resources: Resources,
    entities: Entities,
  } = partsOfDocument(pieces, {
    resources: "Resources",
    create: "Create",
    plan: (_, { name, metadata }) => ({ Name: name, ...withoutEmpty({ Metadata: metadata }) }),
    entity: (_, { name, parentId, planId, cascade, metadata }) => ({
      ...given({ Name: name, Parent: parentId, Plan: planId, Cascade: cascade }),
      ...withoutEmpty({ Metadata: metadata }),
    }),
    level: (what, value) => {
      if (what === "access") return { Disabled: value === "bypass" ? "bypass" : value === "disabled" };
      const members = Object.entries(levelMembers(what, value, (limit) => pascal(limitTerms(limit))));
      return Object.fromEntries(members.map(([key, member]) => [pascalKey(key), member]));
    },
  });
  return withoutEmpty({ Plans, System, Resources, Entities });
}

/** `refill_amount` becomes `RefillAmount`, at every depth. */
function pascal(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(pascal);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [pascalKey(key), pascal(each)]));
}

function pascalKey(key: string): string {
  return key.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
