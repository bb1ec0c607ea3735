import { TTL, tableDefinition } from "../adapters/dynamodb/schema.ts";
import { hasArchive } from "./check-options.ts";
import { type Resources, ref, type StackPlace } from "./parts.ts";

/** The table and the bucket: what is left when a stack is deleted. */
export function tableResources({ options, named }: StackPlace): Resources {
  const { projection, deletionProtection, pitrRecoveryDays, tableArn } = options;
  const archive = hasArchive(options) ? { AuditArchiveBucket: archiveBucket } : {};
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

const RETAINED = { DeletionPolicy: "Retain", UpdateReplacePolicy: "Retain" } as const;

const archiveBucket = {
  Type: "AWS::S3::Bucket",
  ...RETAINED,
  Properties: {
    BucketEncryption: {
      ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: { SSEAlgorithm: "AES256" } }],
    },
    PublicAccessBlockConfiguration: {
      BlockPublicAcls: true,
      BlockPublicPolicy: true,
      IgnorePublicAcls: true,
      RestrictPublicBuckets: true,
    },
    OwnershipControls: { Rules: [{ ObjectOwnership: "BucketOwnerEnforced" }] },
    LifecycleConfiguration: {
      Rules: [
        {
          Id: "audit-to-glacier",
          Status: "Enabled",
          Prefix: "audit/",
          Transitions: [{ StorageClass: "GLACIER_IR", TransitionInDays: ref("AuditArchiveGlacierTransitionDays") }],
        },
      ],
    },
  },
};
