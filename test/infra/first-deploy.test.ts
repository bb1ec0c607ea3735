import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { zippedFunctions } from "../../scripts/bundle-lambda.ts";
import type { RateLimiter as Construct, RateLimiterProps } from "../../src/entry/cdk.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { handler } from "../../src/entry/provisioner.ts";
import { template } from "../../src/infra/template.ts";
import type { Properties } from "../../src/provisioner/properties.ts";
import type { CustomResourceResponse } from "../../src/provisioner/response.ts";
import { here } from "../cli/in-process.ts";
import { deepTest } from "../deep-test.ts";
import { type DynamodbLocal, describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { asInLambda } from "../dynamodb/provisioner-kit.ts";
import { serve } from "../engines/http-kit.ts";

// What happens when a stack is made for the first time: the table is there and empty, and CloudFormation asks the provisioner for
// one custom resource after the other. Templates are the real ones, the table is DynamoDB Local's, the provisioner is Lambda's handler.

const folder = mkdtempSync(join(tmpdir(), "zael-first-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));

type Resources = Readonly<Record<string, { readonly Type: string; readonly Properties: Properties }>>;

async function synthesised(props: RateLimiterProps, declare: (limiter: Construct) => void): Promise<Resources> {
  const { App, Stack } = await import("aws-cdk-lib");
  const { RateLimiter: Limits } = await import("../../src/entry/cdk.ts");
  for (const [name, zip] of Object.entries(await zippedFunctions())) writeFileSync(join(folder, `${name}.zip`), zip);
  const app = new App({ outdir: join(folder, "app"), analyticsReporting: false });
  const stack = new Stack(app, "limits");
  declare(new Limits(stack, "Limits", { codeFolder: folder, ...props }));
  return (app.synth().getStackArtifact(stack.artifactId).template as { Resources: Resources }).Resources;
}

/** A table as CloudFormation has just made it: with no item. */
async function emptyTable(t: TestContext, dynamodb: DynamodbLocal, expiry: boolean): Promise<string> {
  const table = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry });
  t.after(() => dynamodb.client.send("DeleteTable", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 }));
  return table;
}

/** Asks the provisioner for every custom resource of a template, and answers with what CloudFormation was told. */
async function played(t: TestContext, resources: Resources, table: string): Promise<readonly CustomResourceResponse[]> {
  const { url } = await serve(t, (request, response) => void request.resume().on("end", () => response.end()));
  process.env.TABLE_NAME = table;
  const answers: CustomResourceResponse[] = [];
  const custom = Object.entries(resources).filter(([, { Type }]) => Type.startsWith("Custom::"));
  // The table's own last: CloudFormation promises no order but that of dependencies.
  for (const [LogicalResourceId, { Type, Properties: properties }] of custom.toReversed()) {
    const event = {
      ...({ RequestType: "Create", ResourceType: Type, RequestId: LogicalResourceId, LogicalResourceId } as const),
      ...{ StackId: "arn:aws:cloudformation:eu-west-1:123456789012:stack/limits/1", ResponseURL: `${url}/answer` },
      ResourceProperties: { ...(asTexts(properties) as Properties), TableName: table },
    };
    answers.push(await handler(event));
  }
  return answers;
}

/** As CloudFormation hands properties over: every number is a text. */
function asTexts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asTexts);
  if (typeof value !== "object" || value === null) return String(value);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, asTexts(each)]));
}

await describeDynamo("the first deployment", (dynamodb) => {
  asInLambda(dynamodb);
  const reached = (stack: string) => ["--stack", stack, "--endpoint", dynamodb.endpoint, "--timeout", "30s"];

  deepTest("of the documented CDK example works: its declared limits are in force", async (t) => {
    const resources = await synthesised({ tableName: "limits", namespaces: ["tenant-a"] }, (limiter) => {
      limiter.limits("Declared", "resources: { api: { limits: { rpm: 100 } } }");
      limiter.limits("Tenant", "namespace: default\nresources: { other: { limits: { rpm: 7 } } }");
    });
    const table = await emptyTable(t, dynamodb, true);
    const answers = await played(t, resources, table);
    assert.deepEqual(
      answers.map(({ Status, Reason }) => [Status, Reason]),
      [
        ["SUCCESS", undefined],
        ["SUCCESS", undefined],
        ["SUCCESS", undefined],
      ],
    );
    const limiter = await RateLimiter.open({ store: `dynamodb:${table}`, endpoint: dynamodb.endpoint });
    t.after(() => limiter.close());
    assert.equal((await limiter.getResourceDefaults("api"))[0]?.capacity, 100);
    assert.deepEqual((await limiter.listNamespaces()).map(({ name }) => name).sort(), ["default", "tenant-a"]);
    const { events } = await limiter.auditEvents();
    assert.ok(
      events.some(({ action, principal }) => action === "namespace_registered" && /^arn:/.test(principal ?? "")),
    );
    // Asked again, as by an update: everything is there.
    assert.ok((await played(t, resources, table)).every(({ Status }) => Status === "SUCCESS"));
  });

  test("of the plain template with its code in a bucket sets up the table; deleting its resource leaves everything", async (t) => {
    const { Resources: resources } = template({ name: "limits", codeBucket: "releases", codePrefix: "0.1.0/" });
    const { Code } = resources.ProvisionerFunction!.Properties;
    assert.deepEqual(Code, { S3Bucket: "releases", S3Key: "0.1.0/provisioner.zip" });
    const table = await emptyTable(t, dynamodb, true);
    const [answer] = await played(t, resources, table);
    assert.deepEqual([answer?.Status, answer?.Reason], ["SUCCESS", undefined]);
    const { url } = await serve(t, (request, response) => void request.resume().on("end", () => response.end()));
    const gone = await handler({
      ...{ RequestType: "Delete", ResourceType: "Custom::ZaeLimiterTable", RequestId: "2", ResponseURL: url },
      ...{ StackId: "arn:stack", LogicalResourceId: "PreparedTable" },
      PhysicalResourceId: answer!.PhysicalResourceId,
    });
    assert.deepEqual([gone.Status, gone.PhysicalResourceId], ["SUCCESS", answer?.PhysicalResourceId]);
    const limiter = await RateLimiter.open({ store: `dynamodb:${table}`, endpoint: dynamodb.endpoint });
    await limiter.close();
  });

  test("around a table that lacks something fails with what it lacks, and nothing is written", async (t) => {
    const table = await emptyTable(t, dynamodb, false);
    const { Resources: resources } = template({ name: "limits", codeBucket: "releases" });
    const [answer] = await played(t, resources, table);
    assert.equal(answer?.Status, "FAILED");
    assert.match(answer?.Reason ?? "", /items do not expire: turn on TTL on the attribute ttl\. Nothing was changed/);
    const scan = await dynamodb.client.send("Scan", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 });
    assert.equal(scan.kind === "answered" && scan.body.Count, 0);
  });

  test("by Terraform: doctor names init as the remedy, and init sets the empty table up", async (t) => {
    const table = await emptyTable(t, dynamodb, true);
    const doctor = async () => JSON.parse((await here(["doctor", "--json", ...reached(table)])).stdout);
    const { checks } = (await doctor()) as { checks: { name: string; ok: boolean | null; remedy?: string }[] };
    assert.deepEqual(
      checks.filter(({ ok }) => ok === false).map(({ name, remedy }) => [name, remedy]),
      [["version", `zae-limiter init --stack ${table}`]],
    );
    const json = async (...line: string[]) => {
      const { code, stdout, stderr } = await here([...line, "--json", ...reached(table)]);
      assert.equal(code, 0, stderr);
      return JSON.parse(stdout);
    };
    const store = `dynamodb:${table}`;
    assert.deepEqual(await json("init", "--dry-run"), { store, created: false, prepared: true, dryRun: true });
    assert.equal((await doctor()).ok, false, "a dry run writes nothing");
    assert.equal((await here(["init", "--json", ...reached(table)])).code, 2, "nobody was asked");
    assert.deepEqual(await json("init", "--yes"), { store, created: false, prepared: true });
    assert.deepEqual(await json("init", "--yes"), { store, created: false });
    assert.equal((await doctor()).ok, true);
  });
});
