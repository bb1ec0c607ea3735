import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames, requireOption } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { checkNameFormat, checkStackName, POLICY_NAME_MAX, ROLE_NAME_MAX } from "./stack-names.ts";

/** The parts of a stack. Every option has a default. */
export interface StackOptions {
  /** The name of the stack and of its table. Default: the name that CloudFormation gives the stack. */
  readonly name?: string;
  /**
   * Gives the stack roles and policies. Without them the aggregator needs `aggregatorRoleArn`, and there is no
   * provisioner. Default: `true`.
   */
  readonly iam?: boolean;
  /** Gives it roles for applications, administrators and readers, besides their policies. Default: `false`. */
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
   * Ends names that are unique in the account (roles, policies, dashboard) in the region, so that each region
   * can have a stack of the same name. A stack that was made without keeps its names, because renamed policies would
   * lose their attachments. Default: `true`.
   */
  readonly regionalNames?: boolean;
  /** A role for the aggregator that exists already. Default: a role of the stack. */
  readonly aggregatorRoleArn?: string;
  /** Gives the stack the function that archives audit events and sweeps. Default: `true`. */
  readonly aggregator?: boolean;
  /** Gives it the function behind `Custom::ZaeLimiterLimits`. Default: `true`. */
  readonly provisioner?: boolean;
  /** Gives it the bucket for audit events that expire. Default: `true`. */
  readonly auditArchival?: boolean;
  /** Gives it alarms. Default: `true`. */
  readonly alarms?: boolean;
  /** The SNS topic that alarms notify, by ARN. Default: none. */
  readonly alarmSnsTopic?: string;
  /**
   * The part of an item that the resource index has. A table that the Python original uses too needs `"ALL"`. Default:
   * `"KEYS_ONLY"`.
   */
  readonly projection?: "KEYS_ONLY" | "ALL";
  /** The Python original writes to the table too; the functions then leave its usage to it. Default: `false`. */
  readonly sharedTable?: boolean;
  /** A table of your own, by ARN; the stack has everything else. Default: the stack makes the table. */
  readonly tableArn?: string;
  /** The stream of that table, by ARN. Default: none. */
  readonly streamArn?: string;
  /** Lets AWS refuse to delete the table. Default: `false`. */
  readonly deletionProtection?: boolean;
  /** The days back to which the table can be restored. Default: 35, the most that DynamoDB has. */
  readonly pitrRecoveryDays?: number;
  /**
   * A KMS key, by ARN, for table, archive, queue, logs and functions. Its policy must let this account and CloudWatch
   * Logs of the region use it; the stack's own roles and policies get the right to use it. Default: keys of AWS.
   */
  readonly kmsKeyArn?: string;
  /** Lets the functions use X-Ray. Default: `false`. */
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
  /** The longest run of the aggregator, in seconds. The default is enough for a million buckets. Default: 900. */
  readonly lambdaTimeout?: number;
  /** The time that logs are kept, in days. Default 30. */
  readonly logRetentionDays?: number;
  /** The time that usage is kept, in days. Default 90. */
  readonly usageRetentionDays?: number;
  /** After how many days archived events move to Glacier. Default 90. */
  readonly auditArchiveGlacierDays?: number;
  /** The share of its time, in percent, after which a run of the aggregator raises an alarm. Default: 80. */
  readonly lambdaDurationThresholdPct?: number;
}

/** The options with every default in its place. */
export type FullStackOptions = {
  readonly [Name in keyof Required<StackOptions>]: (typeof STACK_DEFAULTS)[Name] extends undefined
    ? StackOptions[Name] | undefined
    : NonNullable<StackOptions[Name]>;
};

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
} as const satisfies { readonly [Name in keyof Required<StackOptions>]: StackOptions[Name] | undefined };

const KNOWN = new KnownNames<StackOptions>(
  Object.fromEntries(Object.keys(STACK_DEFAULTS).map((name) => [name, true])) as Record<keyof StackOptions, true>,
);

/** Fills in defaults. Throws for every mistake in the options of a stack, before anything is called. */
export function checkedOptions(options: StackOptions): FullStackOptions {
  KNOWN.check(options, "The options of the stack");
  const full: FullStackOptions = { ...STACK_DEFAULTS, ...given(options) };
  checkTypes(full);
  const { name: stack, regionalNames: regional } = full;
  if (stack !== undefined) checkStackName(stack, { regional });
  checkNameFormat("roleNameFormat", full.roleNameFormat, { stack, regional, most: ROLE_NAME_MAX });
  checkNameFormat("policyNameFormat", full.policyNameFormat, { stack, regional, most: POLICY_NAME_MAX });
  checkNumbers(full);
  checkTexts(full);
  checkTogether(full, options);
  return full;
}

/** True if CloudFormation makes the functions with their code, so that one of them can set up the table. */
export function setsUpTable(options: FullStackOptions): boolean {
  return hasProvisioner(options) && options.codeBucket !== undefined;
}

/** True if an aggregator is wanted and has a role. */
export function hasAggregator({ aggregator, iam, aggregatorRoleArn }: FullStackOptions): boolean {
  return aggregator && (iam || aggregatorRoleArn !== undefined);
}

export function hasProvisioner({ provisioner, iam }: FullStackOptions): boolean {
  return provisioner && iam;
}

export function hasArchive(options: FullStackOptions): boolean {
  return hasAggregator(options) && options.auditArchival;
}

export const LOG_RETENTION_DAYS = [
  ...[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545],
  ...[731, 1096, 1827, 2192, 2557, 2922, 3288, 3653],
];

/** The least and the most of options that are whole numbers. */
export const RANGES = {
  lambdaMemory: [128, 3008],
  lambdaTimeout: [1, 900],
  usageRetentionDays: [1, 3650],
  auditArchiveGlacierDays: [1, 3650],
  lambdaDurationThresholdPct: [1, 100],
  pitrRecoveryDays: [1, 35],
} as const;

function checkTypes(options: FullStackOptions): void {
  for (const [name, byDefault] of Object.entries(STACK_DEFAULTS)) {
    const value = options[name as keyof FullStackOptions];
    requireOption(name, value, typeof byDefault !== "boolean" || typeof value === "boolean", "true or false");
  }
  const { trust, projection } = options;
  const isList = Array.isArray(trust) && trust.every((each) => typeof each === "string");
  requireOption("trust", trust, isList, "a list of ARNs");
  requireOption("projection", projection, ["KEYS_ONLY", "ALL"].includes(projection), "KEYS_ONLY or ALL");
}

function checkNumbers(options: FullStackOptions): void {
  for (const [name, [least, most]] of Object.entries(RANGES)) {
    const value = options[name as keyof typeof RANGES];
    const isInRange = value === undefined || (Number.isSafeInteger(value) && value >= least && value <= most);
    requireOption(name, value, isInRange, `a whole number from ${least} to ${most}`);
  }
  const { logRetentionDays: days } = options;
  requireOption("logRetentionDays", days, LOG_RETENTION_DAYS.includes(days), `one of ${LOG_RETENTION_DAYS.join(", ")}`);
}

const ARNS = {
  aggregatorRoleArn: [/^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]+$/, "arn:aws:iam::123456789012:role/NAME"],
  kmsKeyArn: [
    /^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key\/[\w-]+$/,
    "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
  ],
  alarmSnsTopic: [/^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[\w.-]+$/, "arn:aws:sns:eu-west-1:123456789012:TOPIC"],
  tableArn: [
    /^arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:\d{12}:table\/[\w.-]{3,255}$/,
    "arn:aws:dynamodb:eu-west-1:123456789012:table/NAME",
  ],
  streamArn: [
    /^arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:\d{12}:table\/[\w.-]{3,255}\/stream\/[\w.:-]+$/,
    "arn:aws:dynamodb:eu-west-1:123456789012:table/NAME/stream/2026-03-15T12:00:00.000",
  ],
} as const;

/** The form of options that are texts, and what it is in words. */
const FORMS = {
  codeBucket: [/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, "the name of a bucket"],
  codePrefix: [/^[\w!.*'()/-]{1,900}$/, "the beginning of a key, such as zae-limiter/0.1.0/"],
  permissionBoundary: [/^(arn:aws[a-z-]*:iam::(\d{12}|aws):policy\/)?[\w+=,.@/-]+$/, "a policy's name or ARN"],
} as const;

function checkTexts(options: FullStackOptions): void {
  const check = (name: keyof typeof ARNS | keyof typeof FORMS, pattern: RegExp, wanted: string): void => {
    const value = options[name];
    requireOption(name, value, value === undefined || (typeof value === "string" && pattern.test(value)), wanted);
  };
  for (const [name, [pattern, example]] of Object.entries(ARNS)) {
    check(name as keyof typeof ARNS, pattern, `an ARN like ${example}`);
  }
  for (const [name, [pattern, wanted]] of Object.entries(FORMS)) check(name as keyof typeof FORMS, pattern, wanted);
  for (const principal of options.trust) {
    if (principal.includes("*")) {
      const remedy = "IAM allows no wildcards there: name each role or user, or the whole account by its :root";
      throw new ValidationError("option_invalid", `trust is ${shown(principal)}; ${remedy}.`);
    }
    const isArn = /^arn:aws[a-z-]*:(iam|sts)::\d{12}:[\w+=,.@/-]+$/.test(principal);
    requireOption("trust", principal, isArn, "ARNs like arn:aws:iam::123456789012:role/NAME");
  }
}

/** Refuses options that are given and would have no effect; the same value from a default is fine. */
function checkTogether(full: FullStackOptions, given: StackOptions): void {
  const refuse = (message: string): never => {
    throw new ValidationError("option_invalid", message);
  };
  if (!full.iam && full.createIamRoles) {
    refuse("createIamRoles needs the policies, and `iam: false` omits them; give one of the two.");
  }
  if (full.trust.length > 0 && !full.createIamRoles) refuse("trust needs createIamRoles; give both.");
  if (full.alarmSnsTopic !== undefined && !full.alarms)
    refuse("alarmSnsTopic needs alarms, and alarms are off; leave it out, or turn alarms on.");
  if (full.codePrefix !== undefined && full.codeBucket === undefined) refuse("codePrefix needs codeBucket; give both.");
  if (full.streamArn !== undefined && full.tableArn === undefined) refuse("streamArn needs tableArn; give both.");
  if (full.tableArn === undefined) return;
  if (full.streamArn !== undefined && !full.streamArn.startsWith(`${full.tableArn}/stream/`)) {
    refuse(`streamArn is ${full.streamArn}, which is not a stream of ${full.tableArn}; give that table's.`);
  }
  if (full.streamArn === undefined && hasArchive(full)) {
    refuse(
      "With a table of your own the archive needs its stream; give streamArn, or leave the archive or the aggregator out.",
    );
  }
  for (const name of ["deletionProtection", "pitrRecoveryDays", "projection"] as const) {
    if (given[name] !== undefined && given[name] !== STACK_DEFAULTS[name]) {
      refuse(`${name} is a setting of your own table ${full.tableArn}; leave it out.`);
    }
  }
}
