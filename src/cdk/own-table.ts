import type { Template } from "../infra/template.ts";

/** Stands for a table that is known only as a token: CloudFormation's template is made with it, and then refers to parameters. */
const NAME = "zae-limiter-own-table";
const ARN = `arn:aws:dynamodb:us-east-1:000000000000:table/${NAME}`;
const STREAM = `${ARN}/stream/2026-01-01T00:00:00.000`;

const KEY = "arn:aws:kms:us-east-1:000000000000:key/zae-limiter-own-key";

export const OWN_KEY = KEY;
export const OWN_TABLE = { tableArn: ARN, streamArn: STREAM } as const;

/** Parameters that such a template has, to be replaced by what is known of the table. */
export const OWN_PARAMETERS = {
  name: "OwnTableName",
  arn: "OwnTableArn",
  stream: "OwnStreamArn",
  key: "OwnKeyArn",
} as const;

/** The template with references in place of the table and the key that stood in for the own ones. */
export function withOwnParts(template: Template): Template {
  const declared = { Type: "String", Default: "-" };
  const Parameters = {
    ...template.Parameters,
    ...Object.fromEntries(Object.values(OWN_PARAMETERS).map((name) => [name, declared])),
  };
  return { ...(replaced(template) as Template), Parameters };
}

function replaced(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(replaced);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, replacedIn(key, each)]));
  }
  switch (value) {
    case NAME:
      return { Ref: OWN_PARAMETERS.name };
    case ARN:
      return { Ref: OWN_PARAMETERS.arn };
    case STREAM:
      return { Ref: OWN_PARAMETERS.stream };
    case KEY:
      return { Ref: OWN_PARAMETERS.key };
    case `${ARN}/index/*`:
      return { "Fn::Sub": `\${${OWN_PARAMETERS.arn}}/index/*` };
    default:
      return value;
  }
}

/** A text with placeholders gets one more. */
function replacedIn(key: string, value: unknown): unknown {
  if (key !== "Fn::Sub" || typeof value !== "string") return replaced(value);
  return value.replaceAll(NAME, () => `\${${OWN_PARAMETERS.name}}`);
}
