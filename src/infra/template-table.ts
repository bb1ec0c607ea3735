import { TTL } from "../adapters/dynamodb/schema.ts";
import { tableDefinition } from "../adapters/dynamodb/table-fit.ts";
import { given } from "../domain/names/given.ts";
import { arnOf, type Resources, ref, sub, type TemplateContext } from "./parts.ts";
import { hasArchive } from "./stack-options.ts";

/** The table and the archive's bucket, which stay when a stack is deleted. */
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
        // Without this, DynamoDB encrypts with a key of AWS.
        ...given({ SSESpecification: kmsKeyArn && { SSEEnabled: true, SSEType: "KMS", KMSMasterKeyId: kmsKeyArn } }),
        TimeToLiveSpecification: { AttributeName: TTL, Enabled: true },
        PointInTimeRecoverySpecification: {
          PointInTimeRecoveryEnabled: true,
          ...given({ RecoveryPeriodInDays: pitrRecoveryDays }),
        },
      },
    },
    ...archive,
  };
}

/** Resources with data stay when the stack goes. Those of a failed creation hold none, and would prevent the next one. */
const RETAINED = { DeletionPolicy: "RetainExceptOnCreate", UpdateReplacePolicy: "Retain" } as const;

/** Smaller objects stay: S3 moves none of them by default, and Glacier bills each as this many bytes at least. */
const GLACIER_BYTES_MIN = 131_072;
/** Old versions of objects are kept this long. A replay overwrites objects, and so would an attacker who hides traces. */
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
              Sid: "TlsOnly",
              Effect: "Deny",
              Principal: "*",
              Action: "s3:*",
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
