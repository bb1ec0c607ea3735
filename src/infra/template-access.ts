import { given } from "../domain/names/given.ts";
import { arnOf, type Json, type Resource, type Resources, ref, sub, type TemplateContext, type Text } from "./parts.ts";
import {
  allow,
  documentOf,
  functionStatements,
  type PolicyName,
  type PolicyPlace,
  policyDocument,
  type Statement,
} from "./policies.ts";
import { POLICIES, ROLES } from "./stack-names.ts";
import { hasAggregator, hasArchive, hasProvisioner } from "./stack-options.ts";

/** Roles of the functions, policies for clients, and roles that have these. */
export function accessResources(context: TemplateContext): Resources {
  const { options } = context;
  if (!options.iam) return {};
  return {
    ...(hasAggregator(options) && options.aggregatorRoleArn === undefined
      ? { AggregatorRole: functionRole(context, ROLES.aggregator, aggregatorStatements(context)) }
      : {}),
    ...(hasProvisioner(options)
      ? { ProvisionerRole: functionRole(context, ROLES.provisioner, provisionerStatements(context)) }
      : {}),
    ...Object.fromEntries(
      Object.entries(CLIENT_POLICIES).map(([id, { name, description }]) => [
        id,
        managedPolicy(context, name, description),
      ]),
    ),
    ...(options.createIamRoles
      ? Object.fromEntries(
          Object.entries(CLIENT_ROLES).map(([id, { ending, policy }]) => [id, clientRole(context, ending, policy)]),
        )
      : {}),
  };
}

/** The policies for clients. A description must never change: a new one would replace the policy, which has a name. */
export const CLIENT_POLICIES = {
  AcquireOnlyPolicy: {
    name: "acquire",
    description: "zae-limiter: acquires tokens in every namespace, changes no limits",
  },
  FullAccessPolicy: { name: "full", description: "zae-limiter: all operations of clients, in every namespace" },
  ReadOnlyPolicy: { name: "read", description: "zae-limiter: reads everything, changes nothing" },
  NamespaceAcquirePolicy: {
    name: "namespaceAcquire",
    description: "zae-limiter: acquires tokens in the namespace of the tag zael_namespace_id",
  },
  NamespaceFullAccessPolicy: {
    name: "namespaceFull",
    description: "zae-limiter: all operations in the namespace of the tag zael_namespace_id",
  },
  NamespaceReadOnlyPolicy: {
    name: "namespaceRead",
    description: "zae-limiter: reads the namespace of the tag zael_namespace_id",
  },
} as const satisfies Record<string, { name: PolicyName; description: string }>;

export const CLIENT_ROLES = {
  AppRole: { ending: ROLES.app, policy: "AcquireOnlyPolicy" },
  AdminRole: { ending: ROLES.admin, policy: "FullAccessPolicy" },
  ReadOnlyRole: { ending: ROLES.read, policy: "ReadOnlyPolicy" },
} as const;

function managedPolicy(context: TemplateContext, name: PolicyName, description: string): Resource {
  const { options, accountWide } = context;
  return {
    Type: "AWS::IAM::ManagedPolicy",
    Properties: {
      ManagedPolicyName: accountWide(options.policyNameFormat, POLICIES[name]),
      Description: description,
      PolicyDocument: policyDocument(name, policyPlace(context)),
    },
  };
}

function functionRole(context: TemplateContext, ending: string, statements: readonly Statement[]): Resource {
  return role(
    context,
    ending,
    { Service: "lambda.amazonaws.com" },
    {
      Policies: [{ PolicyName: "work", PolicyDocument: documentOf(statements) }],
    },
  );
}

function clientRole(context: TemplateContext, ending: string, policy: string): Resource {
  const { trust } = context.options;
  const AWS = trust.length === 0 ? sub(`arn:\${AWS::Partition}:iam::\${AWS::AccountId}:root`) : trust;
  return role(context, ending, { AWS }, { ManagedPolicyArns: [ref(policy)] });
}

/** Makes a role that `principal` may assume. */
function role(
  { options, accountWide }: TemplateContext,
  ending: string,
  principal: Json,
  properties: Resource["Properties"],
): Resource {
  const { permissionBoundary, roleNameFormat } = options;
  const assumed = { Effect: "Allow", Principal: principal, Action: "sts:AssumeRole" };
  return {
    Type: "AWS::IAM::Role",
    Properties: {
      RoleName: accountWide(roleNameFormat, ending),
      ...given({ PermissionsBoundary: permissionBoundary && boundaryArn(permissionBoundary) }),
      Tags: [{ Key: "Application", Value: "zae-limiter" }],
      AssumeRolePolicyDocument: { Version: "2012-10-17", Statement: [assumed] },
      ...properties,
    },
  };
}

/** The ARN of a policy; one that is given by name is of this account. */
export function boundaryArn(boundary: string): Text {
  return boundary.startsWith("arn:")
    ? boundary
    : sub(`arn:\${AWS::Partition}:iam::\${AWS::AccountId}:policy/${boundary}`);
}

function policyPlace({ options: { kmsKeyArn: keyArn }, table }: TemplateContext): PolicyPlace {
  return { tableArn: table.arn, indexArns: table.indexArns, ...given({ keyArn }) };
}

const STREAM_READS = ["GetRecords", "GetShardIterator", "DescribeStream", "ListStreams"].map(
  (name) => `dynamodb:${name}`,
);

function aggregatorStatements(context: TemplateContext): readonly Statement[] {
  const { options, table } = context;
  const { streamArn } = table;
  return [
    ...functionStatements(policyPlace(context)),
    ...(streamArn === undefined ? [] : [allow("Stream", STREAM_READS, [streamArn])]),
    ...(hasArchive(options) ? [allow("Archive", ["s3:PutObject"], [sub(`\${AuditArchiveBucket.Arn}/audit/*`)])] : []),
    allow("Failures", ["sqs:SendMessage"], [arnOf("AggregatorDLQ")]),
    ...ownLogs("AggregatorLogGroup"),
    ...tracing(options.tracing),
  ];
}

function provisionerStatements(context: TemplateContext): readonly Statement[] {
  const { options, table } = context;
  return [
    ...functionStatements(policyPlace(context)),
    // Before it sets up a table, the provisioner checks that a limiter can work there.
    allow("Describe", ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"], [table.arn]),
    ...ownLogs("ProvisionerLogGroup"),
    ...tracing(options.tracing),
  ];
}

/** Allows writing to a log group that the stack makes, so that no role needs the right to make one. Its ARN ends in `:*`, for its streams. */
function ownLogs(group: string): readonly Statement[] {
  return [allow("Logs", ["logs:CreateLogStream", "logs:PutLogEvents"], [arnOf(group)])];
}

function tracing(isOn: boolean): readonly Statement[] {
  return isOn ? [allow("Tracing", ["xray:PutTraceSegments", "xray:PutTelemetryRecords"], ["*"])] : [];
}
