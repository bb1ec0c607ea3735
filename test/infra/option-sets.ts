import type { StackOptions } from "../../src/infra/stack-options.ts";

const ACCOUNT = "123456789012";
export const TABLE_ARN = `arn:aws:dynamodb:eu-west-1:${ACCOUNT}:table/mine`;
export const STREAM_ARN = `${TABLE_ARN}/stream/2026-03-15T12:00:00.000`;
const ROLE_ARN = `arn:aws:iam::${ACCOUNT}:role/aggregators`;

/** Every option at least once on and once off, and every pair of options that changes what there is. */
export const OPTION_SETS: Readonly<Record<string, StackOptions>> = {
  "all defaults, under whatever name": {},
  "all defaults": { name: "limits" },
  "everything there is": {
    name: "limits",
    createIamRoles: true,
    trust: [`arn:aws:iam::${ACCOUNT}:role/deploy`, `arn:aws:iam::${ACCOUNT}:user/ops`],
    permissionBoundary: "Boundary",
    roleNameFormat: "acme-{}",
    policyNameFormat: "{}-v1",
    alarmSnsTopic: `arn:aws:sns:eu-west-1:${ACCOUNT}:pages`,
    projection: "ALL",
    deletionProtection: true,
    pitrRecoveryDays: 7,
    tracing: true,
    kmsKeyArn: `arn:aws:kms:eu-west-1:${ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab`,
    lambdaMemory: 1024,
    lambdaTimeout: 120,
    logRetentionDays: 365,
    usageRetentionDays: 400,
    auditArchiveGlacierDays: 30,
    lambdaDurationThresholdPct: 50,
  },
  "everything, under whatever name": {
    createIamRoles: true,
    permissionBoundary: "arn:aws:iam::aws:policy/PowerUserAccess",
    roleNameFormat: "acme-{}",
    policyNameFormat: "acme-{}",
    tracing: true,
  },
  "without the region in names": { name: "limits", createIamRoles: true, regionalNames: false },
  "nothing but the table": { name: "limits", iam: false, alarms: false },
  "no roles and no policies": { name: "limits", iam: false },
  "no roles, and one for the aggregator": { name: "limits", iam: false, aggregatorRoleArn: ROLE_ARN },
  "policies, and a role for the aggregator": { name: "limits", aggregatorRoleArn: ROLE_ARN },
  "no aggregator": { name: "limits", aggregator: false },
  "no provisioner": { name: "limits", provisioner: false },
  "no functions": { name: "limits", aggregator: false, provisioner: false },
  "no archive": { name: "limits", auditArchival: false },
  "its code in a bucket": { name: "limits", codeBucket: "releases", codePrefix: "zae-limiter/0.1.0/" },
  "no alarms": { name: "limits", alarms: false },
  "a table of one's own": { name: "limits", tableArn: TABLE_ARN, streamArn: STREAM_ARN },
  "a table of one's own, without a stream": { name: "limits", tableArn: TABLE_ARN, auditArchival: false },
  "a table of one's own, and no functions": { tableArn: TABLE_ARN, aggregator: false, provisioner: false },
};
