import assert from "node:assert/strict";
import { test } from "node:test";
import type { StackOptions } from "../../src/infra/stack-options.ts";
import { type Template, template } from "../../src/infra/template.ts";

/** By type: the property that names it, how many characters AWS allows, and whether the account has one such name or each region its own. */
const NAMED: Readonly<Record<string, readonly [property: string, most: number, scope: "account" | "region"]>> = {
  "AWS::DynamoDB::Table": ["TableName", 255, "region"],
  "AWS::Lambda::Function": ["FunctionName", 64, "region"],
  "AWS::SQS::Queue": ["QueueName", 80, "region"],
  "AWS::Events::Rule": ["Name", 64, "region"],
  "AWS::Logs::LogGroup": ["LogGroupName", 512, "region"],
  "AWS::CloudWatch::Alarm": ["AlarmName", 255, "region"],
  "AWS::CloudWatch::Dashboard": ["DashboardName", 255, "account"],
  "AWS::IAM::Role": ["RoleName", 64, "account"],
  "AWS::IAM::ManagedPolicy": ["ManagedPolicyName", 128, "account"],
};
/** Those that get a name from CloudFormation, or have none. */
const UNNAMED = [
  ...["AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission"],
];

function namesIn({ Resources }: Template, region: string, stack: string) {
  return Object.entries(Resources).flatMap(([id, { Type, Properties }]) => {
    const named = NAMED[Type];
    assert.ok(named !== undefined || UNNAMED.includes(Type), `${Type} is not in the table`);
    if (named === undefined) return [];
    const [property, most, scope] = named;
    const value = Properties[property] as string | { "Fn::Sub"?: string; Ref?: string };
    const text = typeof value === "string" ? value : (value["Fn::Sub"] ?? `\${${value.Ref}}`);
    const name = text.replaceAll(`\${AWS::Region}`, region).replaceAll(`\${AWS::StackName}`, stack);
    assert.ok(!name.includes("$"), `${id}: ${name}`);
    return [{ id, name, most, scope }];
  });
}

/** The longest region that there is has so many characters. */
const LONGEST_REGION = "ap-southeast-1";
const EVERYTHING: StackOptions = { createIamRoles: true };

test("with the longest name that a stack may have, every name is within its service's length", () => {
  for (const regionalNames of [true, false]) {
    const longest = [...Array(128).keys()]
      .map((i) => "a".repeat(i + 1))
      .findLast((name) => {
        try {
          template({ ...EVERYTHING, name, regionalNames });
          return true;
        } catch {
          return false;
        }
      });
    assert.equal(longest?.length, regionalNames ? 43 : 44);
    for (const { id, name, most } of namesIn(
      template({ ...EVERYTHING, name: longest!, regionalNames }),
      LONGEST_REGION,
      "",
    )) {
      assert.ok(name.length <= most, `${id}: ${name} has ${name.length} characters of ${most}`);
    }
  }
});

test("two regions can have stacks of the same name: nothing that is one for the account has it twice", () => {
  for (const options of [
    { name: "limits" },
    {},
    { name: "limits", roleNameFormat: "acme-{}", policyNameFormat: "{}-v1" },
  ]) {
    const made = template({ ...EVERYTHING, ...options });
    const wide = (region: string) =>
      namesIn(made, region, "limits")
        .filter(({ scope }) => scope === "account")
        .map(({ name }) => name);
    const [one, other] = [wide("eu-west-1"), wide("us-east-1")];
    assert.ok(one.length >= 12);
    assert.deepEqual(
      one.filter((name) => other.includes(name)),
      [],
    );
  }
});

test("a stack that was made without the region keeps its names: its template says so, and one that says nothing is such a one", () => {
  const plain = template({ name: "limits", regionalNames: false });
  assert.ok(namesIn(plain, "eu-west-1", "").every(({ name }) => !name.includes("eu-west-1")));
  assert.deepEqual(plain.Metadata, { "zae-limiter": { regionalNames: false } });
  assert.deepEqual(template({ name: "limits" }).Metadata, { "zae-limiter": { regionalNames: true } });
});
