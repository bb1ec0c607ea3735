import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CustomResource, Fn, Stage } from "aws-cdk-lib";
import { Grant, type IGrantable } from "aws-cdk-lib/aws-iam";
import type { CfnFunction } from "aws-cdk-lib/aws-lambda";
import { Asset } from "aws-cdk-lib/aws-s3-assets";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";
import { Construct } from "constructs";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { checkNamespace } from "../domain/names/names.ts";
import { type PolicyName, policyDocument } from "../infra/policies.ts";
import { checkedOptions, hasAggregator, hasProvisioner, type StackOptions } from "../infra/stack-options.ts";
import { PARAMETERS, type Template, templateOf } from "../infra/template.ts";
import { cfnTemplateOf } from "../manifest/cfn-template.ts";
import type { Manifest } from "../manifest/manifest.ts";

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
  /** Another name of `auditArchival`. Default: `true`. */
  readonly archive?: boolean;
  /**
   * Keeps the logical ids of `template()`. With `false`, one CDK stack can have several limiters. Default:
   * `true`.
   */
  readonly preserveLogicalIds?: boolean;
  /**
   * A folder with `aggregator.zip` and `provisioner.zip`, as `lambda-export` writes them. Default: this package's own
   * code.
   */
  readonly codeFolder?: string;
}

/** The part of a CDK table that is needed; `Table` and `TableV2` have it. */
export interface OwnTable {
  /** Its name. */
  readonly tableName: string;
  /** Its ARN. */
  readonly tableArn: string;
  /** The ARN of its stream; the audit archive needs one. */
  readonly tableStreamArn?: string | undefined;
}

/** The part of a CDK key that is needed. */
export interface OwnKey {
  /** Its ARN. */
  readonly keyArn: string;
}

/** The namespaces of a grant. */
export interface GrantOptions {
  /** The id of one namespace. Default: all of them. */
  readonly namespaceId?: string;
}

/** Where declared limits belong. */
export interface LimitsOptions {
  /** The namespace. Default: the one that the manifest names, else `default`. */
  readonly namespace?: string;
  /** Takes over pieces of other owners. Default: `false`. */
  readonly takeOver?: boolean;
  /**
   * Deletes pieces that are no longer declared, entities with their buckets and usage. With `false` they
   * stay without an owner, also when the resource is deleted. Default: `true`.
   */
  readonly prune?: boolean;
}

/** The parts that the entry point hands in: this package's own code of the functions, and the reader of manifests. */
interface ConstructParts {
  readonly code: (name: "aggregator" | "provisioner") => Uint8Array;
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
    const { tableName, table, encryptionKey, namespaces = [], archive, codeFolder, ...others } = props;
    const { preserveLogicalIds = true, ...rest } = others;
    const options = checkedOptions({
      ...rest,
      // Assets take its place. With their code the functions set up the table.
      codeBucket: "zae-limiter-assets",
      ...given({ name: tableName, auditArchival: archive, kmsKeyArn: encryptionKey && KEY }),
      ...(table && ownTable(table)),
    });
    const made = templateOf(options);
    const hasOwn = table !== undefined || encryptionKey !== undefined;
    const { Metadata: _, ...bare } = hasOwn ? withOwnParts(made) : made;
    const values = Object.keys(made.Parameters).map((name) => [name, PARAMETERS[name]?.value(options)]);
    const own = {
      [OWN_PARAMETERS.name]: table?.tableName ?? "",
      [OWN_PARAMETERS.arn]: table?.tableArn ?? "",
      [OWN_PARAMETERS.stream]: table?.tableStreamArn ?? "",
      [OWN_PARAMETERS.key]: encryptionKey?.keyArn ?? "",
    };
    this.#key = encryptionKey;
    this.template = withFileOf(bare, (templateFile) => {
      const parameters = { ...Object.fromEntries(values), ...(hasOwn ? own : {}) };
      return new CfnInclude(this, "Stack", { templateFile, preserveLogicalIds, parameters });
    });
    this.#parts = parts;
    this.#hasProvisioner = hasProvisioner(options);
    if (hasAggregator(options)) this.#upload("AggregatorFunction", "aggregator", codeFolder);
    if (hasProvisioner(options)) this.#upload("ProvisionerFunction", "provisioner", codeFolder);
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
    // The role is among them: without it the function would be called before it may touch the table.
    resource.node.addDependency(this.template);
    return resource;
  }

  #grant(
    grantee: IGrantable,
    { namespaceId }: GrantOptions,
    names: { readonly all: PolicyName; readonly one: PolicyName },
  ): Grant {
    const { tableArn } = this;
    const place = { tableArn, indexArns: `${tableArn}/index/*`, ...given({ keyArn: this.#key?.keyArn }) };
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

  #upload(logicalId: string, name: "aggregator" | "provisioner", codeFolder: string | undefined): void {
    const path = codeFolder === undefined ? this.#ownZip(name) : join(codeFolder, `${name}.zip`);
    const asset = new Asset(this, `${name}-code`, { path });
    const resource = this.template.getResource(logicalId) as CfnFunction;
    resource.code = { s3Bucket: asset.s3BucketName, s3Key: asset.s3ObjectKey };
    asset.addResourceMetadata(resource, "Code");
  }

  /** Writes this package's own code of a function into the output folder of the app: without staging CDK refers to the file there. */
  #ownZip(name: "aggregator" | "provisioner"): string {
    const { assetOutdir } = Stage.of(this) as Stage;
    const file = join(assetOutdir, `zae-limiter-${name}.zip`);
    writeFileSync(file, this.#parts.code(name));
    return file;
  }
}

function ownTable(table: OwnTable): { readonly tableArn: string; readonly streamArn?: string } {
  return table.tableStreamArn === undefined ? { tableArn: ARN } : { tableArn: ARN, streamArn: STREAM };
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

// A table or key of the user's is known only as a token. The template is made with these in its place, and then refers to parameters.
const NAME = "zae-limiter-own-table";
const ARN = `arn:aws:dynamodb:us-east-1:000000000000:table/${NAME}`;
const STREAM = `${ARN}/stream/2026-01-01T00:00:00.000`;
const KEY = "arn:aws:kms:us-east-1:000000000000:key/zae-limiter-own-key";

/** Parameters of such a template, whose values are the tokens. */
const OWN_PARAMETERS = { name: "OwnTableName", arn: "OwnTableArn", stream: "OwnStreamArn", key: "OwnKeyArn" } as const;

/** Replaces the stand-ins of a template by references to parameters. */
function withOwnParts(template: Template): Template {
  const declared = { Type: "String", Default: "-" };
  const Parameters = {
    ...template.Parameters,
    ...Object.fromEntries(Object.values(OWN_PARAMETERS).map((name) => [name, declared])),
  };
  return { ...(replaced(template) as Template), Parameters };
}

function replaced(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(replaced);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, replacedIn(key, each)]));
  }
  switch (value) {
    case NAME:
      return { Ref: OWN_PARAMETERS.name };
    case ARN:
      return { Ref: OWN_PARAMETERS.arn };
    case STREAM:
      return { Ref: OWN_PARAMETERS.stream };
    case KEY:
      return { Ref: OWN_PARAMETERS.key };
    case `${ARN}/index/*`:
      return { "Fn::Sub": `\${${OWN_PARAMETERS.arn}}/index/*` };
    default:
      return value;
  }
}

/** Replaces the name in a text with placeholders by one more placeholder. */
function replacedIn(key: string, value: unknown): unknown {
  if (key !== "Fn::Sub" || typeof value !== "string") return replaced(value);
  return value.replaceAll(NAME, () => `\${${OWN_PARAMETERS.name}}`);
}
