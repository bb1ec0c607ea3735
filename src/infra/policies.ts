import { given } from "../domain/names/given.ts";
import type { Text } from "./parts.ts";

/** A statement of a policy as IAM reads it. */
export interface Statement {
  /** The name of the statement. */
  readonly Sid?: string;
  /** The policies only allow. */
  readonly Effect: "Allow";
  /** The actions, such as `dynamodb:GetItem`. */
  readonly Action: readonly string[];
  /** The ARNs. */
  readonly Resource: readonly Text[];
  /** Conditions by operator and name. */
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>;
}

/** A policy as IAM reads it. */
export interface PolicyDocument {
  /** The version of the policy language. */
  readonly Version: "2012-10-17";
  /** The statements. An action is allowed if one of them allows it. */
  readonly Statement: readonly Statement[];
}

/** The table that a policy is about. */
export interface PolicyPlace {
  /** The ARN of the table. */
  readonly tableArn: Text;
  /** The ARN of all its indexes: the table's with `/index/*` behind it. */
  readonly indexArns: Text;
  /** The ARN of the KMS key that encrypts the table. Default: a key of AWS, which needs no right. */
  readonly keyArn?: Text;
}

/**
 * A kind of client: `acquire` takes tokens, `read` reads, `full` does everything; those that begin with `namespace` do
 * so in one namespace.
 */
export type PolicyName = "acquire" | "full" | "read" | "namespaceAcquire" | "namespaceFull" | "namespaceRead";

/** The namespace's id, from a tag of the caller: one policy serves every tenant. */
export const NAMESPACE_TAG = `\${aws:PrincipalTag/zael_namespace_id}`;

const READS = ["GetItem", "BatchGetItem"];
const WRITES = ["PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"];
const REGISTRY = "_/SYSTEM#";

/**
 * The policy of a kind of client. `namespaceId` is the id of one namespace; without it the policies of a namespace go
 * by the tag `zael_namespace_id` of the caller.
 */
export function policyDocument(name: PolicyName, place: PolicyPlace, namespaceId = NAMESPACE_TAG): PolicyDocument {
  return documentOf([...clientStatements(name, place, namespaceId), ...tableKey(place)]);
}

function clientStatements(name: PolicyName, place: PolicyPlace, namespaceId: string): readonly Statement[] {
  const { tableArn, indexArns } = place;
  const both = [tableArn, indexArns];
  switch (name) {
    case "acquire":
      return acquiring("*", tableArn);
    case "full":
      return [
        allowed("ReadAndWrite", [...READS, "Query", ...WRITES], both),
        allowed("Describe", ["DescribeTable"], [tableArn]),
      ];
    case "read":
      return [allowed("Read", [...READS, "Query"], both), allowed("Describe", ["DescribeTable"], [tableArn])];
    case "namespaceAcquire":
      return acquiring(namespaceId, tableArn);
    case "namespaceRead":
      return reading(namespaceId, place);
    case "namespaceFull":
      return [
        ...reading(namespaceId, place),
        allowed("WriteOwn", ["PutItem", "UpdateItem", "DeleteItem"], [tableArn], [`${namespaceId}/*`]),
        // Changes of a namespace are made on condition that it is still active.
        allowed("CheckOwn", ["ConditionCheckItem"], [tableArn], [`${namespaceId}/*`, REGISTRY]),
      ];
  }
}

/** Allows a client to use the key only through DynamoDB, which uses it on the caller's behalf. */
function tableKey({ keyArn }: PolicyPlace): readonly Statement[] {
  if (keyArn === undefined) return [];
  return [allow("TableKey", KEY_USE, [keyArn], { StringLike: { "kms:ViaService": "dynamodb.*" } })];
}

/** The actions that DynamoDB, S3 and SQS need on a key, as the guide to each of them lists them. */
const KEY_USE = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"];

/**
 * Allows takes and counts of refusals, and no other writes. One statement covers all keys that are read: configuration and the namespace's
 * registry item are asked for in one BatchGetItem, and a statement must hold for all keys of a request. A take needs DeleteItem to remove
 * shards that were joined.
 */
function acquiring(namespaceId: string, tableArn: Text): readonly Statement[] {
  const own = ["BUCKET#*", "ENTITY#*", "PLAN#*", "RESOURCE#*", "SYSTEM#"].map((key) => `${namespaceId}/${key}`);
  return [
    allowed("ReadLimits", READS, [tableArn], [...own, REGISTRY]),
    allowed("TakeTokens", WRITES, [tableArn], [`${namespaceId}/BUCKET#*`]),
    allowed("CountRefusals", ["PutItem"], [tableArn], [`${namespaceId}/REFUSED#*`]),
  ];
}

/** Allows reading registry items one by one, but not listing them: a tenant must not see the names of others. */
function reading(namespaceId: string, { tableArn, indexArns }: PolicyPlace): readonly Statement[] {
  return [
    allowed("ReadOwn", READS, [tableArn], [`${namespaceId}/*`, REGISTRY]),
    // In the namespace's index the key is the bare id.
    allowed("QueryOwn", ["Query"], [tableArn, indexArns], [`${namespaceId}/*`, namespaceId]),
  ];
}

/** Allows what the two functions do on the table; with its key they also write the archive and the queue, and read their settings. */
export function functionStatements({ tableArn, indexArns, keyArn }: PolicyPlace): readonly Statement[] {
  return [
    allowed("Table", [...READS, "Query", ...WRITES], [tableArn, indexArns]),
    ...(keyArn === undefined ? [] : [allow("Key", KEY_USE, [keyArn])]),
  ];
}

export function documentOf(statements: readonly Statement[]): PolicyDocument {
  return { Version: "2012-10-17", Statement: statements };
}

/**
 * Allows operations of DynamoDB, with `keys` only for requests on these partition keys. The condition also demands that a request names a
 * key, because an empty set of keys is within every set.
 */
function allowed(
  sid: string,
  operations: readonly string[],
  resources: readonly Text[],
  keys?: readonly string[],
): Statement {
  const ofKeys = keys && {
    "ForAllValues:StringLike": { "dynamodb:LeadingKeys": keys },
    Null: { "dynamodb:LeadingKeys": "false" },
  };
  return allow(
    sid,
    operations.map((operation) => `dynamodb:${operation}`),
    resources,
    ofKeys,
  );
}

export function allow(
  Sid: string,
  Action: readonly string[],
  Resource: readonly Text[],
  Condition?: Statement["Condition"],
): Statement {
  return { Sid, Effect: "Allow", Action, Resource, ...given({ Condition }) };
}
