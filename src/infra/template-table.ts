import { TTL, tableDefinition } from "../adapters/dynamodb/schema.ts";
import { hasArchive } from "./check-options.ts";
import { arnOf, type Resources, ref, sub, type TemplateContext } from "./parts.ts";

/** The table and the bucket: what is left when a stack is deleted. */
export function tableResources({ options, named }: TemplateContext): Resources {
  const { projection, deletionProtection, pitrRecoveryDays, tableArn, kmsKeyArn } = options;
  const archive = hasArchive(options) ? archiveResources(kmsKeyArn) : {};
  if (tableArn !== undefined) return archive;
  const {
    TableName: _,
    StreamSpecification,
    ...definition
  } = tableDefinition({
    name: "",
    gsi2Projection: projection,
    tags: { Application: "zae-limiter" },
    deletionProtection,
  });
  return {
    RateLimitsTable: {
      Type: "AWS::DynamoDB::Table",
      ...RETAINED,
      Properties: {
        TableName: named(""),
        ...definition,
        StreamSpecification: { StreamViewType: StreamSpecification.StreamViewType },
        // Without a key of one's own DynamoDB encrypts with one of AWS's.
        ...(kmsKeyArn === undefined
          ? {}
          : { SSESpecification: { SSEEnabled: true, SSEType: "KMS", KMSMasterKeyId: kmsKeyArn } }),
        TimeToLiveSpecification: { AttributeName: TTL, Enabled: true },
        PointInTimeRecoverySpecification: {
          PointInTimeRecoveryEnabled: true,
          ...(pitrRecoveryDays === undefined ? {} : { RecoveryPeriodInDays: pitrRecoveryDays }),
        },
      },
    },
    ...archive,
  };
}

/** What holds data stays when the stack goes. What a failed creation has made holds none, and would be in the way of the next. */
const RETAINED = { DeletionPolicy: "RetainExceptOnCreate", UpdateReplacePolicy: "Retain" } as const;

/** By default S3 moves nothing smaller, and it would cost more if it did: what is kept there is billed as this much at least. */
const GLACIER_BYTES_MIN = 131_072;
/** Versions of objects that somebody overwrote or deleted: a replay does, and so does whoever wants a trace gone. */
const OLD_VERSIONS_KEPT_DAYS = 365;

function archiveResources(kmsKeyArn: string | undefined): Resources {
  const encryption =
    kmsKeyArn === undefined
      ? { ServerSideEncryptionByDefault: { SSEAlgorithm: "AES256" } }
      : {
          ServerSideEncryptionByDefault: { SSEAlgorithm: "aws:kms", KMSMasterKeyID: kmsKeyArn },
          BucketKeyEnabled: true,
        };
  return {
    AuditArchiveBucket: {
      Type: "AWS::S3::Bucket",
      ...RETAINED,
      Properties: {
        BucketEncryption: { ServerSideEncryptionConfiguration: [encryption] },
        PublicAccessBlockConfiguration: {
          BlockPublicAcls: true,
          BlockPublicPolicy: true,
          IgnorePublicAcls: true,
          RestrictPublicBuckets: true,
        },
        OwnershipControls: { Rules: [{ ObjectOwnership: "BucketOwnerEnforced" }] },
        VersioningConfiguration: { Status: "Enabled" },
        LifecycleConfiguration: { Rules: LIFECYCLE },
      },
    },
    AuditArchiveBucketPolicy: {
      Type: "AWS::S3::BucketPolicy",
      ...RETAINED,
      Properties: {
        Bucket: ref("AuditArchiveBucket"),
        PolicyDocument: {
          Version: "2012-10-17",
          Statement: [
            {
              ...{ Sid: "TlsOnly", Effect: "Deny", Principal: "*", Action: "s3:*" },
              Resource: [arnOf("AuditArchiveBucket"), sub(`\${AuditArchiveBucket.Arn}/*`)],
              Condition: { Bool: { "aws:SecureTransport": "false" } },
            },
          ],
        },
      },
    },
  };
}

const LIFECYCLE = [
  {
    Id: "audit-to-glacier",
    Status: "Enabled",
    Prefix: "audit/",
    ObjectSizeGreaterThan: String(GLACIER_BYTES_MIN),
    Transitions: [{ StorageClass: "GLACIER_IR", TransitionInDays: ref("AuditArchiveGlacierTransitionDays") }],
  },
  {
    Id: "old-versions",
    Status: "Enabled",
    NoncurrentVersionExpiration: { NoncurrentDays: OLD_VERSIONS_KEPT_DAYS },
    ExpiredObjectDeleteMarker: true,
    AbortIncompleteMultipartUpload: { DaysAfterInitiation: 7 },
  },
];
