/** What a stack consists of. Every option has a default. */
export interface StackOptions {
  /** The name of the stack and of its table. Default: the name that CloudFormation gives the stack. */
  readonly name?: string;
  /**
   * Whether the stack has roles and policies. Without them the aggregator needs `aggregatorRoleArn`, and there is no
   * provisioner. Default: `true`.
   */
  readonly iam?: boolean;
  /** Whether it has roles for applications, administrators and readers, besides their policies. Default: `false`. */
  readonly createIamRoles?: boolean;
  /** ARNs of the principals that may assume these roles. Default: the principals that the account's own policies allow. */
  readonly trust?: readonly string[];
  /** A policy, by name or ARN, that bounds every role. Default: none. */
  readonly permissionBoundary?: string;
  /** Names of the roles, with `{}` for the usual name, such as `acme-{}`. Default: `{}`. */
  readonly roleNameFormat?: string;
  /** Names of the policies, with `{}` for the usual name. Default: `{}`. */
  readonly policyNameFormat?: string;
  /**
   * Whether names that are unique in the account (roles, policies, dashboard) end in the region, so that each region
   * can have a stack of the same name. A stack that was made without keeps its names, because renamed policies would
   * lose their attachments. Default: `true`.
   */
  readonly regionalNames?: boolean;
  /** A role for the aggregator that exists already. Default: a role of the stack. */
  readonly aggregatorRoleArn?: string;
  /** Whether the stack has the function that archives audit events and sweeps. Default: `true`. */
  readonly aggregator?: boolean;
  /** Whether it has the function behind `Custom::ZaeLimiterLimits`. Default: `true`. */
  readonly provisioner?: boolean;
  /** Whether it has the bucket for audit events that expire. Default: `true`. */
  readonly auditArchival?: boolean;
  /** Whether it has alarms. Default: `true`. */
  readonly alarms?: boolean;
  /** The SNS topic that alarms notify, by ARN. Default: none. */
  readonly alarmSnsTopic?: string;
  /**
   * How much of an item the resource index has. A table that the Python original uses too needs `"ALL"`. Default:
   * `"KEYS_ONLY"`.
   */
  readonly projection?: "KEYS_ONLY" | "ALL";
  /** Whether the Python original writes to the table too; the functions then leave its usage to it. Default: `false`. */
  readonly sharedTable?: boolean;
  /** A table of your own, by ARN; the stack has everything else. Default: the stack makes the table. */
  readonly tableArn?: string;
  /** The stream of that table, by ARN. Default: none. */
  readonly streamArn?: string;
  /** Whether AWS refuses to delete the table. Default: `false`. */
  readonly deletionProtection?: boolean;
  /** How many days back the table can be restored. Default: 35, the most that DynamoDB has. */
  readonly pitrRecoveryDays?: number;
  /**
   * A KMS key, by ARN, for table, archive, queue, logs and functions. Its policy must let this account and CloudWatch
   * Logs of the region use it; the stack's own roles and policies get the right to use it. Default: keys of AWS.
   */
  readonly kmsKeyArn?: string;
  /** Whether the functions use X-Ray. Default: `false`. */
  readonly tracing?: boolean;
  /**
   * A bucket of the same region with the code of the functions, for a template that other tools deploy:
   * `aggregator.zip` and `provisioner.zip`, as `lambda-export` writes them. The stack then sets up its table itself.
   * Default: `deploy` uploads the code.
   */
  readonly codeBucket?: string;
  /**
   * The prefix of these names, such as `zae-limiter/0.1.0/`. Give each version another, or CloudFormation does not see
   * that the code is new. Default: none.
   */
  readonly codePrefix?: string;
  /** Memory of the aggregator, in MB. Default: 256. */
  readonly lambdaMemory?: number;
  /** How long the aggregator may run, in seconds. The default is enough for a million buckets. Default: 900. */
  readonly lambdaTimeout?: number;
  /** How long logs are kept, in days. Default 30. */
  readonly logRetentionDays?: number;
  /** How long usage is kept, in days. Default 90. */
  readonly usageRetentionDays?: number;
  /** After how many days archived events move to Glacier. Default 90. */
  readonly auditArchiveGlacierDays?: number;
  /** The share of its time, in percent, after which a run of the aggregator raises an alarm. Default: 80. */
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
