import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { checkNameFormat, checkStackName, POLICY_NAME_MAX, ROLE_NAME_MAX } from "./stack-names.ts";
import { type FullStackOptions, STACK_DEFAULTS, type StackOptions } from "./stack-options.ts";

const KNOWN = new KnownNames<StackOptions>(
  Object.fromEntries(Object.keys(STACK_DEFAULTS).map((name) => [name, true])) as Record<keyof StackOptions, true>,
);

/** Everything that can be wrong with the options of a stack is told here, before anything is called. */
export function checkedOptions(options: StackOptions): FullStackOptions {
  KNOWN.check(options, "The options of the stack");
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const full: FullStackOptions = { ...STACK_DEFAULTS, ...given };
  checkTypes(full);
  const { name: stack, regionalNames: regional } = full;
  if (stack !== undefined) checkStackName(stack, { regional });
  checkNameFormat("roleNameFormat", full.roleNameFormat, { stack, regional, most: ROLE_NAME_MAX });
  checkNameFormat("policyNameFormat", full.policyNameFormat, { stack, regional, most: POLICY_NAME_MAX });
  checkNumbers(full);
  checkArns(full);
  checkTogether(full, options);
  return full;
}

/** Whether CloudFormation makes the functions with their code, and so can have the table set up by one of them. */
export function setsUpTable(options: FullStackOptions): boolean {
  return hasProvisioner(options) && options.codeBucket !== undefined;
}

/** Whether the stack has an aggregator: one that is wanted and has a role. */
export function hasAggregator({ aggregator, iam, aggregatorRoleArn }: FullStackOptions): boolean {
  return aggregator && (iam || aggregatorRoleArn !== undefined);
}

export function hasProvisioner({ provisioner, iam }: FullStackOptions): boolean {
  return provisioner && iam;
}

export function hasArchive(options: FullStackOptions): boolean {
  return hasAggregator(options) && options.auditArchival;
}

const LOG_RETENTION_DAYS = [
  ...[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545],
  ...[731, 1096, 1827, 2192, 2557, 2922, 3288, 3653],
];

/** Whole numbers, with the least and the most. */
export const RANGES = {
  lambdaMemory: [128, 3008],
  lambdaTimeout: [1, 900],
  usageRetentionDays: [1, 3650],
  auditArchiveGlacierDays: [1, 3650],
  lambdaDurationThresholdPct: [1, 100],
  pitrRecoveryDays: [1, 35],
} as const;

export { LOG_RETENTION_DAYS };

function checkTypes(options: FullStackOptions): void {
  for (const [name, byDefault] of Object.entries(STACK_DEFAULTS)) {
    const value = options[name as keyof FullStackOptions];
    if (typeof byDefault === "boolean" && typeof value !== "boolean") {
      throw invalid(name, value, "give true or false");
    }
  }
  const { trust, projection } = options;
  if (!Array.isArray(trust) || trust.some((each) => typeof each !== "string")) {
    throw invalid("trust", trust, "give a list of ARNs");
  }
  if (projection !== "KEYS_ONLY" && projection !== "ALL") {
    throw invalid("projection", projection, "give KEYS_ONLY or ALL");
  }
}

function checkNumbers(options: FullStackOptions): void {
  for (const [name, [least, most]] of Object.entries(RANGES)) {
    const value = options[name as keyof typeof RANGES];
    if (value === undefined) continue;
    if (!Number.isSafeInteger(value) || value < least || value > most) {
      throw invalid(name, value, `give a whole number from ${least} to ${most}`);
    }
  }
  if (!LOG_RETENTION_DAYS.includes(options.logRetentionDays)) {
    throw invalid("logRetentionDays", options.logRetentionDays, `give one of ${LOG_RETENTION_DAYS.join(", ")}`);
  }
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

function checkArns(options: FullStackOptions): void {
  for (const [name, [pattern, example]] of Object.entries(ARNS)) {
    const value = options[name as keyof typeof ARNS];
    if (value !== undefined && (typeof value !== "string" || !pattern.test(value))) {
      throw invalid(name, value, `give an ARN like ${example}`);
    }
  }
  for (const who of options.trust) {
    if (who.includes("*")) {
      throw invalid(
        "trust",
        who,
        "IAM allows no wildcards there: name each role or user, or the whole account by its :root",
      );
    }
    if (!/^arn:aws[a-z-]*:(iam|sts)::\d{12}:[\w+=,.@/-]+$/.test(who)) {
      throw invalid("trust", who, "give ARNs like arn:aws:iam::123456789012:role/NAME");
    }
  }
  const { codeBucket, codePrefix } = options;
  if (codeBucket !== undefined && !/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(codeBucket)) {
    throw invalid("codeBucket", codeBucket, "give the name of a bucket");
  }
  if (codePrefix !== undefined && !/^[\w!.*'()/-]{1,900}$/.test(codePrefix)) {
    throw invalid("codePrefix", codePrefix, "give the beginning of a key, such as zae-limiter/0.1.0/");
  }
  const { permissionBoundary } = options;
  if (
    permissionBoundary !== undefined &&
    !/^(arn:aws[a-z-]*:iam::(\d{12}|aws):policy\/)?[\w+=,.@/-]+$/.test(permissionBoundary)
  ) {
    throw invalid("permissionBoundary", permissionBoundary, "give a policy's name or ARN");
  }
}

/** What is given on purpose and would have no effect is refused; the same from a default is not. */
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

function invalid(name: string, value: unknown, remedy: string): ValidationError {
  return new ValidationError("option_invalid", `${name} is ${shown(value)}; ${remedy}.`);
}
