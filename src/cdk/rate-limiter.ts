import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CustomResource, Fn } from "aws-cdk-lib";
import { Grant, type IGrantable } from "aws-cdk-lib/aws-iam";
import type { CfnFunction } from "aws-cdk-lib/aws-lambda";
import { Asset } from "aws-cdk-lib/aws-s3-assets";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";
import { Construct } from "constructs";
import { ValidationError } from "../domain/names/errors.ts";
import { checkNamespace } from "../domain/names/names.ts";
import { checkedOptions, hasAggregator, hasProvisioner } from "../infra/check-options.ts";
import { PARAMETERS } from "../infra/parameters.ts";
import { type PolicyName, policyDocument } from "../infra/policies.ts";
import type { StackOptions } from "../infra/stack-options.ts";
import { templateOf } from "../infra/template.ts";
import { cfnTemplateOf } from "../manifest/cfn-template.ts";
import type { Manifest } from "../manifest/manifest.ts";
import { OWN_KEY, OWN_PARAMETERS, OWN_TABLE, withOwnParts } from "./own-table.ts";

/** The parts of the stack: the options of `template()`, with CDK's own types where CDK has some. */
export interface RateLimiterProps
  extends Omit<StackOptions, "name" | "tableArn" | "streamArn" | "codeBucket" | "codePrefix" | "kmsKeyArn"> {
  /** The name of the table and, with endings, of everything else. Default: the name of the CDK stack. */
  readonly tableName?: string;
  /** A table of your own, with its stream; everything else is made around it. Default: the construct makes the table. */
  readonly table?: OwnTable;
  /**
   * A key of your own for table, archive, queue, logs and functions; its policy must let CloudWatch Logs use it.
   * Default: keys of AWS.
   */
  readonly encryptionKey?: OwnKey;
  /**
   * Namespaces to register with the first deployment, besides `default`. A namespace that is left out later stays.
   * Default: none.
   */
  readonly namespaces?: readonly string[];
  /** The same as `auditArchival`. Default: `true`. */
  readonly archive?: boolean;
  /**
   * Whether logical ids are those of `template()`. With `false`, one CDK stack can have several limiters. Default:
   * `true`.
   */
  readonly preserveLogicalIds?: boolean;
  /**
   * A folder with `aggregator.zip` and `provisioner.zip`, as `lambda-export` writes them. Default: this package's own
   * code.
   */
  readonly codeFolder?: string;
}

/** As much of a table of CDK's as is needed; `Table` and `TableV2` have it. */
export interface OwnTable {
  /** Its name. */
  readonly tableName: string;
  /** Its ARN. */
  readonly tableArn: string;
  /** The ARN of its stream; the audit archive needs one. */
  readonly tableStreamArn?: string | undefined;
}

/** As much of a key of CDK's as is needed. */
export interface OwnKey {
  /** Its ARN. */
  readonly keyArn: string;
}

/** In which namespaces to grant something. */
export interface GrantOptions {
  /** The id of one namespace. Default: all of them. */
  readonly namespaceId?: string;
}

/** Where declared limits belong. */
export interface LimitsOptions {
  /** The namespace. Default: the one that the manifest names, else `default`. */
  readonly namespace?: string;
  /** Whether pieces of other owners are taken over. Default: `false`. */
  readonly takeOver?: boolean;
  /**
   * Whether pieces that are no longer declared are deleted, entities with their buckets and usage. With `false` they
   * stay without an owner, also when the resource is deleted. Default: `true`.
   */
  readonly prune?: boolean;
}

/** What the entry point gives: where the code lies, and how manifests are read. */
interface ConstructParts {
  readonly codeFolder: string;
  readonly parse: (text: string) => Manifest;
}

/** The stack of a rate limiter as a construct: the same resources, made by the same function, with the code as assets. */
export class RateLimiterConstruct extends Construct {
  /** The name of the table; what `RateLimiter.open({ store: "dynamodb:NAME" })` is given. */
  readonly tableName: string;
  /** The ARN of the table. */
  readonly tableArn: string;
  /** The resources, by the logical ids of `template()`. */
  readonly template: CfnInclude;
  readonly #parts: ConstructParts;
  readonly #hasProvisioner: boolean;
  readonly #key: OwnKey | undefined;

  constructor(scope: Construct, id: string, props: RateLimiterProps, parts: ConstructParts) {
    super(scope, id);
    const {
      tableName,
      table,
      encryptionKey,
      namespaces = [],
      archive,
      preserveLogicalIds = true,
      codeFolder,
      ...rest
    } = props;
    const options = checkedOptions({
      ...rest,
      // Stands for the assets that take its place: with their code the functions set the table up.
      codeBucket: "zae-limiter-assets",
      ...(tableName === undefined ? {} : { name: tableName }),
      ...(archive === undefined ? {} : { auditArchival: archive }),
      ...(table === undefined ? {} : ownTable(table)),
      ...(encryptionKey === undefined ? {} : { kmsKeyArn: OWN_KEY }),
    });
    const made = templateOf(options);
    const { Metadata: _, ...bare } = table === undefined && encryptionKey === undefined ? made : withOwnParts(made);
    const values = Object.keys(made.Parameters).map((name) => [name, PARAMETERS[name]?.value(options)]);
    const own =
      table === undefined && encryptionKey === undefined
        ? {}
        : {
            [OWN_PARAMETERS.name]: table?.tableName ?? "",
            [OWN_PARAMETERS.arn]: table?.tableArn ?? "",
            [OWN_PARAMETERS.stream]: table?.tableStreamArn ?? "",
            [OWN_PARAMETERS.key]: encryptionKey?.keyArn ?? "",
          };
    this.#key = encryptionKey;
    this.template = withFileOf(bare, (templateFile) => {
      const parameters = { ...Object.fromEntries(values), ...own };
      return new CfnInclude(this, "Stack", { templateFile, preserveLogicalIds, parameters });
    });
    this.#parts = { ...parts, codeFolder: codeFolder ?? parts.codeFolder };
    this.#hasProvisioner = hasProvisioner(options);
    if (hasAggregator(options)) this.#upload("AggregatorFunction", "aggregator");
    if (hasProvisioner(options)) this.#upload("ProvisionerFunction", "provisioner");
    this.#register(namespaces);
    this.tableName = table?.tableName ?? this.template.getResource("RateLimitsTable").ref;
    this.tableArn =
      table?.tableArn ?? Fn.getAtt(this.template.getResource("RateLimitsTable").logicalId, "Arn").toString();
  }

  /** Grants acquiring tokens, in all namespaces or in one, without changing limits. */
  grantAcquire(grantee: IGrantable, options: GrantOptions = {}): Grant {
    return this.#grant(grantee, options, { all: "acquire", one: "namespaceAcquire" });
  }

  /** Grants reading everything, in all namespaces or in one. */
  grantRead(grantee: IGrantable, options: GrantOptions = {}): Grant {
    return this.#grant(grantee, options, { all: "read", one: "namespaceRead" });
  }

  /** Grants all operations, in all namespaces or in one. */
  grantFull(grantee: IGrantable, options: GrantOptions = {}): Grant {
    return this.#grant(grantee, options, { all: "full", one: "namespaceFull" });
  }

  /** Declared limits, by a manifest or the text of one: they are applied when the CDK stack is deployed. */
  limits(id: string, manifest: Manifest | string, options: LimitsOptions = {}): CustomResource {
    if (!this.#hasProvisioner) {
      throw new ValidationError("option_invalid", "Declared limits need the provisioner; leave `provisioner` on.");
    }
    const parsed = typeof manifest === "string" ? this.#parts.parse(manifest) : manifest;
    const namespace = options.namespace ?? parsed.namespace ?? "default";
    const { Resources } = cfnTemplateOf(parsed, { stack: this.tableName, namespace }) as {
      Resources: { TenantLimits: { Properties: Record<string, unknown> } };
    };
    const { ServiceToken: _, ...properties } = Resources.TenantLimits.Properties;
    const provisioner = this.template.getResource("ProvisionerFunction") as CfnFunction;
    const resource = new CustomResource(this, id, {
      resourceType: "Custom::ZaeLimiterLimits",
      serviceToken: provisioner.attrArn,
      properties: {
        ...properties,
        ...(options.takeOver === true ? { TakeOver: "true" } : {}),
        ...(options.prune === false ? { Prune: "false" } : {}),
      },
    });
    // Its role, too: without it the function would be called before it may touch the table.
    resource.node.addDependency(this.template);
    return resource;
  }

  #grant(
    grantee: IGrantable,
    { namespaceId }: GrantOptions,
    names: { readonly all: PolicyName; readonly one: PolicyName },
  ): Grant {
    const place = {
      ...{ tableArn: this.tableArn, indexArns: `${this.tableArn}/index/*` },
      ...(this.#key === undefined ? {} : { keyArn: this.#key.keyArn }),
    };
    const name = namespaceId === undefined ? names.all : names.one;
    const grants = policyDocument(name, place, namespaceId).Statement.map(({ Action, Resource, Condition }) =>
      Grant.addToPrincipal({
        grantee,
        actions: [...Action],
        resourceArns: Resource.map(String),
        ...(Condition === undefined ? {} : { conditions: Condition as never }),
      }),
    );
    return grants.reduce((all, each) => all.combine(each));
  }

  #register(namespaces: readonly string[]): void {
    for (const name of namespaces) checkNamespace(name);
    if (namespaces.length === 0) return;
    if (!this.#hasProvisioner) {
      throw new ValidationError("option_invalid", "`namespaces` need the provisioner; leave `provisioner` on.");
    }
    this.template.getResource("PreparedTable").addPropertyOverride("Namespaces", [...namespaces]);
  }

  #upload(logicalId: string, name: "aggregator" | "provisioner"): void {
    const asset = new Asset(this, `${name}-code`, { path: join(this.#parts.codeFolder, `${name}.zip`) });
    const resource = this.template.getResource(logicalId) as CfnFunction;
    resource.code = { s3Bucket: asset.s3BucketName, s3Key: asset.s3ObjectKey };
    asset.addResourceMetadata(resource, "Code");
  }
}

function ownTable(table: OwnTable): { readonly tableArn: string; readonly streamArn?: string } {
  const { tableArn, streamArn } = OWN_TABLE;
  return table.tableStreamArn === undefined ? { tableArn } : { tableArn, streamArn };
}

/** CDK includes templates from files, which it has read once they are included. */
function withFileOf<Included>(template: object, include: (file: string) => Included): Included {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-cdk-"));
  try {
    const file = join(folder, "template.json");
    writeFileSync(file, JSON.stringify(template));
    return include(file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
