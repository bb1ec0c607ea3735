/** What a stack consists of and how its parts are set. Everything has a default. */
export interface StackOptions {
  /** Of the stack and of its table; absent: CloudFormation's own name of the stack. */
  readonly name?: string;
  /** Roles and policies. Default true. Without them the aggregator needs `aggregatorRoleArn`, and there is no provisioner. */
  readonly iam?: boolean;
  /** Roles for applications, administrators and readers, besides their policies. Default false. */
  readonly createIamRoles?: boolean;
  /** Who may take these roles, by ARN. Default: whoever the account's own policies let. */
  readonly trust?: readonly string[];
  /** A policy, by name or ARN, that bounds every role. */
  readonly permissionBoundary?: string;
  /** Names of roles, with `{}` for what they are called otherwise, such as `acme-{}`. */
  readonly roleNameFormat?: string;
  /** The same for policies. */
  readonly policyNameFormat?: string;
  /**
   * Whether names that are one for the whole account (roles, policies, dashboard) end in the region, so that each region can have a stack of the
   * same name. Default true; a stack that was made without keeps its names: renamed, policies would lose whom they are attached to.
   */
  readonly regionalNames?: boolean;
  /** A role for the aggregator that is there already. */
  readonly aggregatorRoleArn?: string;
  /** The function that archives audit events and sweeps. Default true. */
  readonly aggregator?: boolean;
  /** The function behind `Custom::ZaeLimiterLimits`. Default true. */
  readonly provisioner?: boolean;
  /** The bucket for audit events that expire. Default true. */
  readonly auditArchival?: boolean;
  /** Alarms. Default true. */
  readonly alarms?: boolean;
  /** The topic that alarms are told to, by ARN. */
  readonly alarmSnsTopic?: string;
  /** What the resource index has of an item. Default `KEYS_ONLY`; a table that the original works on too needs `ALL`. */
  readonly projection?: "KEYS_ONLY" | "ALL";
  /** The original writes to the table too; the functions then leave its usage to it. Default false. */
  readonly sharedTable?: boolean;
  /** A table of your own, by ARN: the stack has everything else. */
  readonly tableArn?: string;
  /** The stream of that table. */
  readonly streamArn?: string;
  /** Whether the table refuses to be deleted. Default false. */
  readonly deletionProtection?: boolean;
  /** How many days back the table can be restored. Default: as many as DynamoDB has, 35. */
  readonly pitrRecoveryDays?: number;
  /**
   * A key of KMS, by ARN, for table, archive, queue, logs and functions. Its policy must let this account use it, and CloudWatch Logs of the
   * region; the stack's own roles and policies get the right to use it. Default: keys of AWS's.
   */
  readonly kmsKeyArn?: string;
  /** X-Ray for the functions. Default false. */
  readonly tracing?: boolean;
  /**
   * A bucket of the same region with the code of the functions, for a template that other tools deploy: `aggregator.zip` and
   * `provisioner.zip`, as `lambda-export` writes them. The stack then sets up its table itself. Default: `deploy` uploads the code.
   */
  readonly codeBucket?: string;
  /** What stands before these names, such as `zae-limiter/0.1.0/`; give each version another, or nobody sees that the code is new. */
  readonly codePrefix?: string;
  /** Memory of the aggregator, in MB. Default 256. */
  readonly lambdaMemory?: number;
  /** How long the aggregator may run, in seconds. Default 900, so that a sweep has time for a million buckets. */
  readonly lambdaTimeout?: number;
  /** How long logs are kept, in days. Default 30. */
  readonly logRetentionDays?: number;
  /** How long usage is kept, in days. Default 90. */
  readonly usageRetentionDays?: number;
  /** After how many days archived events move to Glacier. Default 90. */
  readonly auditArchiveGlacierDays?: number;
  /** At which part of its time a run of the aggregator is worth an alarm, in percent. Default 80. */
  readonly lambdaDurationThresholdPct?: number;
}

/** The same with every default in its place. */
export interface FullStackOptions {
  readonly name: string | undefined;
  readonly iam: boolean;
  readonly createIamRoles: boolean;
  readonly trust: readonly string[];
  readonly permissionBoundary: string | undefined;
  readonly roleNameFormat: string;
  readonly policyNameFormat: string;
  readonly regionalNames: boolean;
  readonly aggregatorRoleArn: string | undefined;
  readonly aggregator: boolean;
  readonly provisioner: boolean;
  readonly auditArchival: boolean;
  readonly alarms: boolean;
  readonly alarmSnsTopic: string | undefined;
  readonly projection: "KEYS_ONLY" | "ALL";
  readonly sharedTable: boolean;
  readonly tableArn: string | undefined;
  readonly streamArn: string | undefined;
  readonly deletionProtection: boolean;
  readonly pitrRecoveryDays: number | undefined;
  readonly kmsKeyArn: string | undefined;
  readonly tracing: boolean;
  readonly codeBucket: string | undefined;
  readonly codePrefix: string | undefined;
  readonly lambdaMemory: number;
  readonly lambdaTimeout: number;
  readonly logRetentionDays: number;
  readonly usageRetentionDays: number;
  readonly auditArchiveGlacierDays: number;
  readonly lambdaDurationThresholdPct: number;
}

export const STACK_DEFAULTS = {
  name: undefined,
  iam: true,
  createIamRoles: false,
  trust: [],
  permissionBoundary: undefined,
  roleNameFormat: "{}",
  policyNameFormat: "{}",
  regionalNames: true,
  aggregatorRoleArn: undefined,
  aggregator: true,
  provisioner: true,
  auditArchival: true,
  alarms: true,
  alarmSnsTopic: undefined,
  projection: "KEYS_ONLY",
  sharedTable: false,
  tableArn: undefined,
  streamArn: undefined,
  deletionProtection: false,
  pitrRecoveryDays: undefined,
  kmsKeyArn: undefined,
  tracing: false,
  codeBucket: undefined,
  codePrefix: undefined,
  lambdaMemory: 256,
  lambdaTimeout: 900,
  logRetentionDays: 30,
  usageRetentionDays: 90,
  auditArchiveGlacierDays: 90,
  lambdaDurationThresholdPct: 80,
} as const satisfies FullStackOptions;
