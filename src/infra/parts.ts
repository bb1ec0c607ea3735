import type { FullStackOptions } from "./stack-options.ts";

/** A value of a template: a text, or an expression of which CloudFormation makes one. */
export type Text = string | Reference | Substitution | Attribute;

/** The name, or the ARN, of a resource. */
export interface Reference {
  /** Its logical id. */
  readonly Ref: string;
}

/** A text with references in it. */
export interface Substitution {
  /** Such as `${AWS::StackName}-aggregator`. */
  readonly "Fn::Sub": string;
}

/** An attribute of a resource. */
export interface Attribute {
  /** Its logical id, and the name of the attribute. */
  readonly "Fn::GetAtt": readonly string[];
}

/** A piece of a template. */
export type Json = Readonly<Record<string, unknown>>;

/** A resource of a template. */
export interface Resource {
  /** Such as `AWS::DynamoDB::Table`. */
  readonly Type: string;
  /** The properties that CloudFormation makes it with. */
  readonly Properties: Json;
  /** Logical ids of resources that must be made first. */
  readonly DependsOn?: readonly string[];
  /** Its end when the stack is deleted, or was never finished. Absent: it is deleted. */
  readonly DeletionPolicy?: "Retain" | "RetainExceptOnCreate" | "Delete";
  /** Its end when another takes its place. */
  readonly UpdateReplacePolicy?: "Retain" | "Delete";
}

/** Resources by logical id. */
export type Resources = Readonly<Record<string, Resource>>;

export const ref = (logicalId: string): Text => ({ Ref: logicalId });
export const arnOf = (logicalId: string): Text => ({ "Fn::GetAtt": [logicalId, "Arn"] });
export const sub = (text: string): Text => ({ "Fn::Sub": text });

/** Names and ARNs as the parts of a template say them. */
export interface TemplateContext {
  readonly options: FullStackOptions;
  /** The stack's name with an ending. */
  named(ending: string): Text;
  /** The name of something that is unique in the account, in a format such as `acme-{}`, with the region if the stack's names have it. */
  accountWide(format: string, ending: string): Text;
  readonly table: {
    readonly name: Text;
    readonly arn: Text;
    readonly indexArns: Text;
    readonly streamArn: Text | undefined;
  };
}

export function templateContext(options: FullStackOptions): TemplateContext {
  const { name, tableArn, streamArn } = options;
  const named = (ending: string): Text =>
    name === undefined
      ? ending === ""
        ? ref("AWS::StackName")
        : sub(`\${AWS::StackName}${ending}`)
      : `${name}${ending}`;
  const accountWide = (format: string, ending: string): Text => {
    const text = format.replace("{}", () => `${name ?? `\${AWS::StackName}`}${ending}`);
    if (options.regionalNames) return sub(`${text}-\${AWS::Region}`);
    return name === undefined ? sub(text) : text;
  };
  const table =
    tableArn === undefined
      ? {
          name: ref("RateLimitsTable"),
          arn: arnOf("RateLimitsTable"),
          indexArns: sub(`\${RateLimitsTable.Arn}/index/*`),
          streamArn: { "Fn::GetAtt": ["RateLimitsTable", "StreamArn"] },
        }
      : { name: tableNameOf(tableArn), arn: tableArn, indexArns: `${tableArn}/index/*`, streamArn };
  return { options, named, accountWide, table };
}

/** The part of the ARN after the last slash. */
export function tableNameOf(tableArn: string): string {
  return tableArn.slice(tableArn.lastIndexOf("/") + 1);
}
