import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, type TestContext, test } from "node:test";
import { App, Stack } from "aws-cdk-lib";
import { AttributeType, StreamViewType, Table } from "aws-cdk-lib/aws-dynamodb";
import { Role, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import { Key } from "aws-cdk-lib/aws-kms";
import { zippedFunctions } from "../../scripts/bundle-lambda.ts";
import { RateLimiter, type RateLimiterProps } from "../../src/entry/cdk.ts";
import { policyDocument } from "../../src/infra/policies.ts";
import type { StackOptions } from "../../src/infra/stack-options.ts";
import { template } from "../../src/infra/template.ts";
import { deepTest } from "../deep-test.ts";
import { isDeep } from "../depth.ts";
import { describeLint } from "./tools.ts";

const folder = mkdtempSync(join(tmpdir(), "zael-cdk-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
const codeFolder = join(folder, "lambda");

before(async () => {
  mkdirSync(codeFolder);
  for (const [name, zip] of Object.entries(await zippedFunctions()))
    writeFileSync(join(codeFolder, `${name}.zip`), zip);
});

interface Synthesised {
  readonly Resources: Readonly<
    Record<string, Record<string, unknown> & { Type: string; Properties: Record<string, unknown> }>
  >;
  readonly Outputs: Readonly<Record<string, unknown>>;
  readonly Parameters?: Readonly<Record<string, unknown>>;
}

let apps = 0;

/** A CDK stack with whatever is put into it, as it would be deployed. */
function synthesised(build: (stack: Stack) => void): Synthesised {
  const app = new App({ outdir: join(folder, `app-${++apps}`), analyticsReporting: false });
  const stack = new Stack(app, "limits");
  build(stack);
  const { template: made } = app.synth().getStackArtifact(stack.artifactId);
  return made as Synthesised;
}

const limiterWith = (props: RateLimiterProps) => (stack: Stack) => {
  new RateLimiter(stack, "Limits", { codeFolder, ...props });
};

/** The template with the values of its parameters in their place. */
function withValues(options: StackOptions) {
  const { Resources, Outputs, Parameters } = template({ ...options, codeBucket: "assets" });
  const values = new Map(
    Object.entries(Parameters).map(([name, each]) => [name, (each as { Default: unknown }).Default]),
  );
  const resolved = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(resolved);
    if (typeof value !== "object" || value === null) return value;
    const { Ref } = value as { Ref?: string };
    if (Ref !== undefined && values.has(Ref)) return values.get(Ref);
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, resolved(each)]));
  };
  return resolved({ Resources, Outputs }) as Pick<Synthesised, "Resources" | "Outputs">;
}

/** Without what CDK adds or replaces: code as assets, and texts for numbers. */
function comparable(resources: Synthesised["Resources"]) {
  return Object.fromEntries(
    Object.entries(resources).map(([id, { Metadata: _, ...resource }]) => {
      const { Code: __, ...Properties } = resource.Properties;
      return [
        id,
        JSON.parse(
          JSON.stringify({ ...resource, Properties }, (_key, value) =>
            typeof value === "number" ? String(value) : value,
          ),
        ),
      ];
    }),
  );
}

test("the construct has the resources and outputs of template(), by the same logical ids", () => {
  for (const [props, options] of [
    [{}, {}],
    [{ tableName: "limits" }, { name: "limits" }],
    [
      { tableName: "limits", createIamRoles: true, tracing: true, permissionBoundary: "Boundary", projection: "ALL" },
      { name: "limits", createIamRoles: true, tracing: true, permissionBoundary: "Boundary", projection: "ALL" },
    ],
    [
      { tableName: "limits", alarms: false, archive: false, provisioner: false },
      { name: "limits", alarms: false, auditArchival: false, provisioner: false },
    ],
    [
      { tableName: "limits", lambdaMemory: 512 },
      { name: "limits", lambdaMemory: 512 },
    ],
  ] as readonly (readonly [RateLimiterProps, StackOptions])[]) {
    const made = synthesised(limiterWith(props));
    const expected = withValues(options);
    assert.deepEqual(comparable(made.Resources), comparable(expected.Resources));
    assert.deepEqual(made.Outputs, expected.Outputs);
    for (const id of ["AggregatorFunction", "ProvisionerFunction"].filter((each) => each in made.Resources)) {
      const { Code } = made.Resources[id]!.Properties as { Code: { S3Key: string; ZipFile?: string } };
      assert.match(Code.S3Key, /^[0-9a-f]{64}\.zip$/);
      assert.equal(Code.ZipFile, undefined);
    }
  }
});

test("the construct leaves nothing in the folder of temporary files", () => {
  const before = process.env.TMPDIR;
  const empty = mkdtempSync(join(folder, "tmp-"));
  process.env.TMPDIR = empty;
  try {
    new RateLimiter(new Stack(new App({ outdir: join(folder, "app-lean") }), "limits"), "Limits", { codeFolder });
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
  assert.deepEqual(readdirSync(empty), []);
});

deepTest("grants are the statements of the policies, in all namespaces or in one", () => {
  const made = synthesised((stack) => {
    const limiter = new RateLimiter(stack, "Limits", { codeFolder, tableName: "limits" });
    for (const [name, grant] of Object.entries({
      Acquire: (role: Role) => limiter.grantAcquire(role),
      Tenant: (role: Role) => limiter.grantAcquire(role, { namespaceId: "ns-1" }),
      Read: (role: Role) => limiter.grantRead(role),
      Full: (role: Role) => limiter.grantFull(role, { namespaceId: "ns-1" }),
    })) {
      const role = new Role(stack, name, { assumedBy: new ServicePrincipal("ecs-tasks.amazonaws.com") });
      assert.equal(grant(role).success, true);
    }
  });
  const place = {
    tableArn: { "Fn::GetAtt": ["RateLimitsTable", "Arn"] } as const,
    indexArns: { "Fn::Join": ["", [{ "Fn::GetAtt": ["RateLimitsTable", "Arn"] }, "/index/*"]] } as never,
  };
  const flat = (value: unknown) => (Array.isArray(value) && value.length === 1 ? value[0] : value);
  for (const [role, name, namespaceId] of [
    ["Acquire", "acquire", undefined],
    ["Tenant", "namespaceAcquire", "ns-1"],
    ["Read", "read", undefined],
    ["Full", "namespaceFull", "ns-1"],
  ] as const) {
    const [policy] = Object.entries(made.Resources).filter(
      ([id, { Type }]) => Type === "AWS::IAM::Policy" && id.startsWith(role),
    );
    const { PolicyDocument } = policy![1].Properties as { PolicyDocument: { Statement: unknown[] } };
    const expected = policyDocument(name, place, namespaceId).Statement.map(({ Sid: _, Condition, ...each }) => ({
      ...{ Action: flat(each.Action), Effect: each.Effect, Resource: flat(each.Resource) },
      ...(Condition === undefined ? {} : { Condition }),
    }));
    assert.deepEqual(PolicyDocument.Statement, expected, role);
  }
});

deepTest(
  "declared limits become a custom resource of the provisioner, which is there before, as is the table set up",
  () => {
    const made = synthesised((stack) => {
      const limiter = new RateLimiter(stack, "Limits", { codeFolder, tableName: "limits" });
      limiter.limits("Declared", "namespace: tenant\nresources: { api: { limits: { rpm: 100 } } }");
    });
    const [declared] = Object.values(made.Resources).filter(({ Type }) => Type === "Custom::ZaeLimiterLimits");
    assert.ok(declared !== undefined);
    const { ServiceToken, TableName, Namespace, Resources } = declared.Properties;
    assert.deepEqual(ServiceToken, { "Fn::GetAtt": ["ProvisionerFunction", "Arn"] });
    assert.deepEqual([TableName, Namespace], [{ Ref: "RateLimitsTable" }, "tenant"]);
    assert.deepEqual(Resources, {
      api: { Limits: { rpm: { Capacity: 100, RefillAmount: 100, RefillPeriod: 60 } } },
    });
    for (const id of ["ProvisionerRole", "PreparedTable"]) {
      assert.ok((declared.DependsOn as readonly string[]).includes(id), id);
    }
  },
);

deepTest("a table of one's own, several limiters in a stack, and mistakes", () => {
  const around = synthesised((stack) => {
    const key = (name: string) => ({ name, type: AttributeType.STRING });
    const table = new Table(stack, "Mine", {
      ...{ partitionKey: key("PK"), sortKey: key("SK"), stream: StreamViewType.NEW_AND_OLD_IMAGES },
    });
    const limiter = new RateLimiter(stack, "Limits", { codeFolder, tableName: "limits", table });
    limiter.grantAcquire(new Role(stack, "App", { assumedBy: new ServicePrincipal("ecs-tasks.amazonaws.com") }));
  });
  const text = JSON.stringify(around);
  assert.equal("RateLimitsTable" in around.Resources, false);
  assert.ok(!text.includes("zae-limiter-own-table"), "nothing of the stand-in is left");
  const [mine = ""] = Object.keys(around.Resources).filter((id) => id.startsWith("Mine"));
  const { Environment } = around.Resources.AggregatorFunction!.Properties as {
    Environment: { Variables: { TABLE_NAME: unknown } };
  };
  assert.deepEqual(Environment.Variables.TABLE_NAME, { Ref: mine });
  assert.deepEqual(around.Resources.AggregatorEventSourceMapping!.Properties.EventSourceArn, {
    "Fn::GetAtt": [mine, "StreamArn"],
  });

  const encrypted = synthesised((stack) => {
    const encryptionKey = new Key(stack, "Key");
    const limiter = new RateLimiter(stack, "Limits", { codeFolder, tableName: "limits", encryptionKey });
    limiter.grantAcquire(new Role(stack, "App", { assumedBy: new ServicePrincipal("ecs-tasks.amazonaws.com") }));
  });
  const [key = ""] = Object.keys(encrypted.Resources).filter((id) => id.startsWith("Key"));
  assert.deepEqual(encrypted.Resources.RateLimitsTable!.Properties.SSESpecification, {
    ...{ SSEEnabled: true, SSEType: "KMS", KMSMasterKeyId: { "Fn::GetAtt": [key, "Arn"] } },
  });
  const [granted = ""] = Object.keys(encrypted.Resources).filter((id) => id.startsWith("AppDefaultPolicy"));
  assert.ok(JSON.stringify(encrypted.Resources[granted]).includes("kms:ViaService"));
  assert.ok(!JSON.stringify(encrypted).includes("zae-limiter-own"), "nothing of the stand-ins is left");

  const both = synthesised((stack) => {
    for (const name of ["one", "two"]) {
      new RateLimiter(stack, name, { codeFolder, tableName: name, preserveLogicalIds: false });
    }
  });
  assert.equal(Object.values(both.Resources).filter(({ Type }) => Type === "AWS::DynamoDB::Table").length, 2);

  assert.throws(() => synthesised(limiterWith({ namespaces: ["no name"] })), { code: "namespace_invalid" });
  assert.throws(() => synthesised(limiterWith({ namespaces: ["a"], provisioner: false })), {
    message: /need the provisioner/,
  });
  assert.throws(() => synthesised(limiterWith({ lambdaMemory: 64 })), { message: /lambdaMemory is 64/ });
  assert.throws(() => synthesised(limiterWith({ nonsense: true } as never)), { message: /unknown name "nonsense"/ });
  assert.throws(
    () =>
      synthesised(
        (stack) =>
          void new RateLimiter(stack, "Limits", { codeFolder, provisioner: false }).limits("Declared", "resources: {}"),
      ),
    { message: /need the provisioner/ },
  );
});

if (isDeep)
  await describeLint("cfn-lint", (lint) => {
    test("has nothing to say of what CDK makes of it but what CDK itself puts there", {
      timeout: 300_000,
    }, async (t: TestContext) => {
      const made = synthesised((stack) => {
        const limiter = new RateLimiter(stack, "Limits", { codeFolder, tableName: "limits", createIamRoles: true });
        limiter.grantAcquire(new Role(stack, "App", { assumedBy: new ServicePrincipal("ecs-tasks.amazonaws.com") }));
        limiter.limits("Declared", "resources: { api: { limits: { rpm: 100 } } }");
      });
      const file = join(folder, "synthesised.json");
      writeFileSync(file, JSON.stringify(made));
      t.after(() => assert.ok(existsSync(file)));
      const messages = (await lint([file])).filter((line) => !/BootstrapVersion|W3005/.test(line));
      assert.deepEqual(messages, []);
    });
  });
