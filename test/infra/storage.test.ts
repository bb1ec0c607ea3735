import assert from "node:assert/strict";
import { test } from "node:test";
import { policyDocument } from "../../src/infra/policies.ts";
import { type Template, template } from "../../src/infra/template.ts";

const KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab";

function properties({ Resources }: Template, id: string): Readonly<Record<string, unknown>> {
  const found = Resources[id];
  assert.ok(found !== undefined, `${id} is not there`);
  return found.Properties;
}

test("what a failed creation has made goes with it, so that the next deploy finds the name free; later it stays", () => {
  const { Resources } = template({ name: "limits" });
  for (const id of ["RateLimitsTable", "AuditArchiveBucket", "AuditArchiveBucketPolicy"]) {
    const { DeletionPolicy, UpdateReplacePolicy } = Resources[id]!;
    assert.deepEqual([DeletionPolicy, UpdateReplacePolicy], ["RetainExceptOnCreate", "Retain"], id);
  }
});

test("the archive takes requests by TLS only, and keeps what was overwritten or deleted", () => {
  const made = template({ name: "limits" });
  const { PolicyDocument } = properties(made, "AuditArchiveBucketPolicy") as {
    PolicyDocument: { Statement: readonly Record<string, unknown>[] };
  };
  assert.deepEqual(PolicyDocument.Statement, [
    {
      ...{ Sid: "TlsOnly", Effect: "Deny", Principal: "*", Action: "s3:*" },
      Resource: [{ "Fn::GetAtt": ["AuditArchiveBucket", "Arn"] }, { "Fn::Sub": `\${AuditArchiveBucket.Arn}/*` }],
      Condition: { Bool: { "aws:SecureTransport": "false" } },
    },
  ]);
  assert.deepEqual(properties(made, "AuditArchiveBucket").VersioningConfiguration, { Status: "Enabled" });
});

test("every rule of the archive's lifecycle does something: no move of objects that S3 would leave where they are", () => {
  const { LifecycleConfiguration } = properties(template({ name: "limits" }), "AuditArchiveBucket") as {
    LifecycleConfiguration: { Rules: readonly Readonly<Record<string, unknown>>[] };
  };
  const [glacier, old] = LifecycleConfiguration.Rules;
  // S3 moves nothing below 128 KB to this class, and bills that much for each object that is there.
  assert.ok(Number(glacier?.ObjectSizeGreaterThan) >= 128 * 1024);
  assert.deepEqual(old?.NoncurrentVersionExpiration, { NoncurrentDays: 365 });
  assert.equal(old?.ExpiredObjectDeleteMarker, true);
});

test("a key of one's own is for everything that holds data, and whoever works there may use it by DynamoDB alone", () => {
  const made = template({ name: "limits", createIamRoles: true, kmsKeyArn: KEY });
  assert.deepEqual(properties(made, "RateLimitsTable").SSESpecification, {
    ...{ SSEEnabled: true, SSEType: "KMS", KMSMasterKeyId: KEY },
  });
  assert.deepEqual(properties(made, "AuditArchiveBucket").BucketEncryption, {
    ServerSideEncryptionConfiguration: [
      {
        ServerSideEncryptionByDefault: { SSEAlgorithm: "aws:kms", KMSMasterKeyID: KEY },
        BucketKeyEnabled: true,
      },
    ],
  });
  assert.equal(properties(made, "AggregatorDLQ").KmsMasterKeyId, KEY);
  assert.equal("SqsManagedSseEnabled" in properties(made, "AggregatorDLQ"), false);
  for (const id of ["AggregatorLogGroup", "ProvisionerLogGroup"]) assert.equal(properties(made, id).KmsKeyId, KEY, id);
  for (const id of ["AggregatorFunction", "ProvisionerFunction"]) assert.equal(properties(made, id).KmsKeyArn, KEY, id);
  for (const [id, { Type, Properties }] of Object.entries(made.Resources)) {
    if (Type !== "AWS::IAM::ManagedPolicy" && !/^(Aggregator|Provisioner)Role$/.test(id)) continue;
    const statements = JSON.stringify(Properties);
    assert.ok(statements.includes(KEY), id);
    assert.ok(statements.includes('"kms:Decrypt"'), id);
  }
  const last = policyDocument("acquire", { tableArn: "t", indexArns: "i", keyArn: KEY }).Statement.at(-1);
  assert.deepEqual(last?.Condition, { StringLike: { "kms:ViaService": "dynamodb.*" } });
  assert.ok(
    !JSON.stringify(template({ name: "limits", createIamRoles: true })).includes("kms"),
    "and nobody else is asked",
  );
});

test("records that cannot be archived lead to the queue while the stream still has them", () => {
  const mapping = properties(template({ name: "limits" }), "AggregatorEventSourceMapping");
  const STREAM_KEEPS_S = 86_400;
  const age = mapping.MaximumRecordAgeInSeconds as number;
  assert.ok(age > 0 && age <= STREAM_KEEPS_S / 2, `${age}`);
  assert.deepEqual(mapping.DestinationConfig, {
    OnFailure: { Destination: { "Fn::GetAtt": ["AggregatorDLQ", "Arn"] } },
  });
});
