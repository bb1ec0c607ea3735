import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { tableDefinition } from "../../src/adapters/dynamodb/table-fit.ts";
import { type Template, template } from "../../src/infra/template.ts";
import { OPTION_SETS, STREAM_ARN, TABLE_ARN } from "./option-sets.ts";
import { describeLint } from "./tools.ts";

/** What goes inline; more would have to be put into a bucket first. */
const INLINE_MAX = 51_200;

await describeLint("cfn-lint", (lint) => {
  test("has nothing to say of any template, not even a note", { timeout: 300_000 }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "zael-templates-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const files = Object.values(OPTION_SETS).map((options, i) => {
      const file = join(folder, `${i}.json`);
      writeFileSync(file, JSON.stringify(template(options)));
      return file;
    });
    const wrong = join(folder, "wrong.json");
    writeFileSync(wrong, JSON.stringify({ Resources: { Table: { Type: "AWS::DynamoDB::Table", Properties: {} } } }));
    const messages = await lint([...files, wrong]);
    // The one that is wrong shows that it looks.
    assert.ok(messages.some((line) => line.startsWith(wrong) && line.includes("KeySchema")));
    assert.deepEqual(
      messages.filter((line) => !line.startsWith(wrong)),
      [],
    );
  });
});

for (const [name, options] of Object.entries(OPTION_SETS)) {
  test(`${name}: no conditions, goes inline, is the same twice, and every reference leads somewhere`, () => {
    const made = template(options);
    const text = JSON.stringify(made);
    assert.ok(text.length < INLINE_MAX - 10_000, `${text.length} characters`);
    assert.equal(JSON.stringify(template(options)), text);
    for (const word of ['"Conditions":', "Fn::If", "Transform", '"Condition":"']) assert.ok(!text.includes(word), word);
    const known = new Set([...Object.keys(made.Resources), ...Object.keys(made.Parameters)]);
    for (const [, referred, attributed] of text.matchAll(/\{"Ref":"([^"]+)"\}|\{"Fn::GetAtt":\["([^"]+)"/g)) {
      const id = referred ?? attributed ?? "";
      assert.ok(id.startsWith("AWS::") || known.has(id), `${id} is not there`);
    }
    for (const id of Object.keys(made.Parameters))
      assert.ok(text.includes(`{"Ref":"${id}"}`), `nothing refers to ${id}`);
  });
}

test("the table is the library's own definition, kept when the stack goes, with expiry, a stream and recovery", () => {
  for (const gsi2Projection of ["KEYS_ONLY", "ALL"] as const) {
    const { Properties, ...table } = resource(
      template({ name: "limits", projection: gsi2Projection }),
      "RateLimitsTable",
    );
    const expected = tableDefinition({ name: "limits", gsi2Projection, tags: {}, deletionProtection: false });
    for (const name of [
      "TableName",
      "BillingMode",
      "AttributeDefinitions",
      "KeySchema",
      "GlobalSecondaryIndexes",
    ] as const) {
      assert.deepEqual(Properties[name], expected[name], name);
    }
    assert.deepEqual(Properties.StreamSpecification, { StreamViewType: "NEW_AND_OLD_IMAGES" });
    assert.deepEqual(Properties.TimeToLiveSpecification, { AttributeName: "ttl", Enabled: true });
    assert.deepEqual(Properties.PointInTimeRecoverySpecification, { PointInTimeRecoveryEnabled: true });
    assert.equal(Properties.DeletionProtectionEnabled, false);
    assert.equal("LocalSecondaryIndexes" in Properties, false);
    assert.deepEqual([table.DeletionPolicy, table.UpdateReplacePolicy], ["RetainExceptOnCreate", "Retain"]);
  }
});

const TABLE = ["RateLimitsTable"];
const AGGREGATOR = [
  ...["AggregatorFunction", "AggregatorLogGroup", "AggregatorDLQ", "AggregatorEventSourceMapping"],
  ...["AggregatorSchedule", "AggregatorSchedulePermission"],
];
const PROVISIONER = ["ProvisionerFunction", "ProvisionerLogGroup"];
const ROLES = ["AggregatorRole", "ProvisionerRole"];
const POLICIES = [
  ...["AcquireOnlyPolicy", "FullAccessPolicy", "ReadOnlyPolicy"],
  ...["NamespaceAcquirePolicy", "NamespaceFullAccessPolicy", "NamespaceReadOnlyPolicy"],
];
const TABLE_ALARMS = [
  "DynamoDBReadThrottleAlarm",
  "DynamoDBWriteThrottleAlarm",
  "GSI2ThrottleAlarm",
  "GSI4ThrottleAlarm",
];
const AGGREGATOR_ALARMS = [
  ...[
    "AggregatorDLQAlarm",
    "LambdaErrorRateAlarm",
    "LambdaDurationAlarm",
    "StreamIteratorAgeAlarm",
    "UsageClosedAlarm",
  ],
  "Dashboard",
];
const ARCHIVE = ["AuditArchiveBucket", "AuditArchiveBucketPolicy", "ArchiveFailuresAlarm"];
const CLIENT_ROLES = ["AppRole", "AdminRole", "ReadOnlyRole"];
const ALL = [TABLE, AGGREGATOR, PROVISIONER, ROLES, POLICIES, TABLE_ALARMS, AGGREGATOR_ALARMS, ARCHIVE].flat();
const without = (...parts: readonly (readonly string[])[]) => ALL.filter((id) => !parts.flat().includes(id));

test("what there is, by option: logical ids stay for ever, since a renamed one is a replacement", () => {
  for (const [name, expected] of [
    ["all defaults", ALL],
    ["everything there is", [...ALL, ...CLIENT_ROLES]],
    ["nothing but the table", TABLE],
    ["no roles and no policies", [...TABLE, ...TABLE_ALARMS]],
    ["no roles, and one for the aggregator", without(ROLES, POLICIES, PROVISIONER)],
    ["policies, and a role for the aggregator", without(["AggregatorRole"])],
    ["no aggregator", without(AGGREGATOR, ["AggregatorRole"], AGGREGATOR_ALARMS, ARCHIVE)],
    ["no provisioner", without(PROVISIONER, ["ProvisionerRole"])],
    ["no functions", without(AGGREGATOR, PROVISIONER, ROLES, AGGREGATOR_ALARMS, ARCHIVE)],
    ["no archive", without(ARCHIVE)],
    ["its code in a bucket", [...ALL, "PreparedTable"]],
    ["no alarms", without(TABLE_ALARMS, AGGREGATOR_ALARMS, ["ArchiveFailuresAlarm"])],
    ["a table of one's own", without(TABLE)],
  ] as const) {
    const options = OPTION_SETS[name];
    assert.ok(options !== undefined, name);
    assert.deepEqual(Object.keys(template(options).Resources).sort(), [...expected].sort(), name);
  }
});

test("names, outputs and exports are those of the original", () => {
  const made = template({
    ...{ name: "limits", createIamRoles: true, roleNameFormat: "acme-{}", regionalNames: false },
  });
  const names = (type: string, property: string) =>
    Object.values(made.Resources)
      .filter(({ Type }) => Type === type)
      .map(({ Properties }) => Properties[property])
      .sort();
  assert.deepEqual(names("AWS::Lambda::Function", "FunctionName"), ["limits-aggregator", "limits-limits-provisioner"]);
  assert.deepEqual(names("AWS::SQS::Queue", "QueueName"), ["limits-aggregator-dlq"]);
  assert.deepEqual(
    names("AWS::IAM::Role", "RoleName"),
    ["admin", "aggr", "app", "prov", "read"].map((end) => `acme-limits-${end}`),
  );
  assert.deepEqual(
    names("AWS::IAM::ManagedPolicy", "ManagedPolicyName"),
    ["acq", "full", "ns-acq", "ns-full", "ns-read", "read"].map((end) => `limits-${end}`),
  );
  assert.deepEqual(
    names("AWS::CloudWatch::Alarm", "AlarmName"),
    [
      ...["aggregator-dlq-alarm", "aggregator-duration", "aggregator-error-rate", "archive-failures"],
      ...["gsi2-throttle", "gsi4-throttle", "read-throttle", "stream-iterator-age", "usage-closed", "write-throttle"],
    ].map((end) => `limits-${end}`),
  );
  const exports = Object.fromEntries(
    Object.entries(made.Outputs).map(([name, output]) => [name, (output as { Export: { Name: string } }).Export.Name]),
  );
  for (const [name, exported] of [
    ["TableName", "limits-TableName"],
    ["StreamArn", "limits-StreamArn"],
    ["AggregatorFunctionArn", "limits-AggregatorArn"],
    ["AggregatorDLQUrl", "limits-DLQUrl"],
    ["DynamoDBReadThrottleAlarmName", "limits-ReadThrottleAlarmName"],
    ["ProvisionerFunctionArn", "limits-ProvisionerArn"],
    ["AcquireOnlyPolicyArn", "limits-AcquireOnlyPolicyArn"],
    ["AppRoleName", "limits-AppRoleName"],
    ["RoleNameFormat", "limits-RoleNameFormat"],
  ] as const) {
    assert.equal(exports[name], exported);
  }
  // Of what is not there nothing is exported: CloudFormation refuses empty exports.
  assert.equal("PermissionBoundaryArn" in exports, false);
  assert.equal("RoleNameFormat" in template({ name: "limits" }).Outputs, false);
  for (const options of Object.values(OPTION_SETS)) {
    for (const [name, output] of Object.entries(template(options).Outputs)) {
      assert.ok((output as { Value: unknown }).Value !== "", name);
    }
  }
});

test("every alarm tells the topic when it begins and when it ends", () => {
  const topic = "arn:aws:sns:eu-west-1:123456789012:pages";
  const made = template({ name: "limits", alarmSnsTopic: topic });
  const alarms = Object.entries(made.Resources).filter(([, { Type }]) => Type === "AWS::CloudWatch::Alarm");
  assert.equal(alarms.length, 10);
  for (const [id, { Properties }] of alarms) {
    assert.deepEqual([Properties.AlarmActions, Properties.OKActions], [[topic], [topic]], id);
    assert.equal(Properties.TreatMissingData, "notBreaching", id);
  }
});

test("the event source mapping begins with the oldest, tries for twelve hours, and halves batches on errors", () => {
  const { Properties } = resource(template({ name: "limits" }), "AggregatorEventSourceMapping");
  const { Filters } = Properties.FilterCriteria as { Filters: readonly { Pattern: string }[] };
  assert.deepEqual(
    Filters.map(({ Pattern }) => JSON.parse(Pattern)),
    [
      {
        eventName: ["REMOVE"],
        userIdentity: { principalId: ["dynamodb.amazonaws.com"] },
        dynamodb: { Keys: { SK: { S: [{ prefix: "#AUDIT#" }] } } },
      },
    ],
  );
  assert.deepEqual(
    [Properties.StartingPosition, Properties.MaximumRetryAttempts, Properties.MaximumRecordAgeInSeconds],
    ["TRIM_HORIZON", -1, 43_200],
  );
  assert.deepEqual(Properties.FunctionResponseTypes, ["ReportBatchItemFailures"]);
  assert.equal(Properties.BisectBatchOnFunctionError, true);
});

test("values are parameters with their defaults; the threshold of the duration follows the timeout", () => {
  const values = (options: Parameters<typeof template>[0]) =>
    Object.fromEntries(
      Object.entries(template(options).Parameters).map(([name, each]) => [
        name,
        (each as { Default: unknown }).Default,
      ]),
    );
  assert.deepEqual(values({}), {
    ...{ LambdaMemorySize: 256, LambdaTimeout: 900, LambdaDurationThreshold: 720_000, LogRetentionDays: 30 },
    ...{ SnapshotRetentionDays: 90, AuditArchiveGlacierTransitionDays: 90, SchemaVersion: "0.10.0" },
  });
  assert.equal(values({ lambdaTimeout: 100, lambdaDurationThresholdPct: 50 }).LambdaDurationThreshold, 50_000);
  assert.deepEqual(values({ iam: false }), {});
});

test("options that are wrong, or would have no effect, are refused with the value and the remedy", () => {
  const wrong: readonly (readonly [object, RegExp])[] = [
    [{ name: "a".repeat(44) }, /Invalid stack name .*3 to 43 letters/],
    [{ name: "my_stack" }, /Invalid stack name "my_stack"/],
    [{ name: "1st" }, /beginning with a letter/],
    [{ name: "ab" }, /3 to 43/],
    [{ alarm: false }, /unknown name "alarm"; did you mean `alarms`/],
    [{ iam: false, createIamRoles: true }, /createIamRoles needs the policies/],
    [{ trust: ["arn:aws:iam::123456789012:role/x"] }, /give both/],
    [
      { createIamRoles: true, trust: ["arn:aws:iam::123456789012:role/*"] },
      /role\/\*"; IAM allows no wildcards there: name/,
    ],
    [{ kmsKeyArn: "alias/mine" }, /kmsKeyArn is "alias\/mine"; give an ARN like arn:aws:kms/],
    [{ createIamRoles: true, trust: ["me"] }, /trust is "me"; give ARNs like/],
    [{ roleNameFormat: "acme" }, /roleNameFormat is "acme"; .*acme-\{\}/],
    [{ name: "limits", roleNameFormat: `${"a".repeat(60)}{}` }, /characters of at most 64/],
    [{ permissionBoundary: "no such name" }, /permissionBoundary is "no such name"/],
    [{ aggregatorRoleArn: "role" }, /aggregatorRoleArn is "role"; give an ARN like/],
    [{ alarmSnsTopic: "arn:aws:sns:eu-west-1:123456789012:t", alarms: false }, /alarms are off/],
    [{ projection: "SOME" }, /give KEYS_ONLY or ALL/],
    [{ lambdaMemory: 64 }, /lambdaMemory is 64; give a whole number from 128 to 3008/],
    [{ lambdaTimeout: 1.5 }, /lambdaTimeout is 1.5/],
    [{ logRetentionDays: 31 }, /logRetentionDays is 31; give one of 1, 3, 5/],
    [{ pitrRecoveryDays: 36 }, /from 1 to 35/],
    [{ aggregator: "yes" }, /aggregator is "yes"; give true or false/],
    [{ codePrefix: "0.1.0/" }, /codePrefix needs codeBucket/],
    [{ codeBucket: "No Bucket" }, /codeBucket is "No Bucket"; give the name of a bucket/],
    [{ streamArn: STREAM_ARN }, /streamArn needs tableArn/],
    [{ tableArn: TABLE_ARN }, /needs its stream/],
    [{ tableArn: TABLE_ARN, streamArn: STREAM_ARN.replace("mine", "other") }, /not a stream of/],
    [{ tableArn: TABLE_ARN, streamArn: STREAM_ARN, deletionProtection: true }, /a setting of your own table/],
  ];
  for (const [options, message] of wrong) {
    assert.throws(() => template(options), { name: "ValidationError", message }, JSON.stringify(options));
  }
});

function resource(made: Template, id: string) {
  const found = made.Resources[id];
  assert.ok(found !== undefined, `${id} is not there`);
  return found;
}
