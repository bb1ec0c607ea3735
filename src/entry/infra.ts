// The stack on AWS without the command: its template, its policies, the code of its functions.

export type { LambdaZip } from "../infra/functions.ts";
export type { Attribute, Json, Reference, Resource, Resources, Substitution, Text } from "../infra/parts.ts";
export {
  type PolicyDocument,
  type PolicyName,
  type PolicyPlace,
  policyDocument,
  type Statement,
} from "../infra/policies.ts";
export type { StackOptions } from "../infra/stack-options.ts";
export { type Template, template } from "../infra/template.ts";
export { type LambdaName, lambdaCode } from "./lambda-code.ts";
