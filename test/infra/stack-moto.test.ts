import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CloudFormationClient, CreateStackCommand } from "@aws-sdk/client-cloudformation";
import {
  CreateTableCommand,
  DescribeTableCommand,
  DynamoDBClient,
  GetItemCommand,
  UpdateItemCommand,
  UpdateTableCommand,
} from "@aws-sdk/client-dynamodb";
import {
  GetFunctionCommand,
  LambdaClient,
  TagResourceCommand,
  UpdateFunctionCodeCommand,
} from "@aws-sdk/client-lambda";
import {
  DeleteObjectCommand,
  ListObjectsV2Command,
  ListObjectVersionsCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { createTable } from "../../src/entry/dynamodb.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { CREDENTIALS, REGION, StackShell } from "./stack-kit.ts";
import { describeMoto } from "./tools.ts";

// The stack's commands over HTTP on moto's server. What moto cannot show (rollbacks, waiting, replacements, alarms, stack tags as a
// difference) is in stack-requests.test.ts, against a server that answers as CloudFormation is documented to.

await describeMoto("a stack on moto", (endpoint) => {
  const shell = new StackShell(endpoint);
  const place = { region: REGION, endpoint: shell.endpoint, credentials: CREDENTIALS };
  const dynamodb = new DynamoDBClient(place);
  const lambda = new LambdaClient(place);
  const s3 = new S3Client({ ...place, forcePathStyle: true });
  const cloudFormation = new CloudFormationClient(place);

  const shaOf = async (name: string) =>
    (await lambda.send(new GetFunctionCommand({ FunctionName: name }))).Configuration?.CodeSha256;

  test("Y18: where there is none: 4, and a dry run makes nothing", async () => {
    for (const line of [
      "status -n limits",
      "delete -n limits --yes",
      "update -n limits --yes",
      "upgrade -n limits",
      "check -n limits",
    ]) {
      assert.match(await shell.fault(line), /^4 stack_not_found: There is no stack "limits"/, line);
    }
    assert.deepEqual(await shell.json("list"), { items: [] });
    const dry = await shell.json("deploy -n limits --dry-run");
    assert.deepEqual([dry.action, dry.dryRun], ["create", true]);
    assert.ok(
      dry.changes.some(
        (each: { logicalId: string; action: string }) => each.logicalId === "RateLimitsTable" && each.action === "Add",
      ),
    );
    assert.deepEqual(await shell.json("list"), { items: [] });
  });

  test("deploy makes it, uploads the code, and sets up a table that a limiter works on", async (t) => {
    const made = await shell.json("deploy -n limits -t team=core");
    assert.equal(made.action, "create");
    const names = { aggregator: "limits-aggregator", "limits-provisioner": "limits-limits-provisioner" };
    for (const [key, name] of Object.entries(names)) {
      assert.equal(made.functions[key].name, name);
      assert.equal(made.functions[key].sha256, await shaOf(name));
    }
    const folder = mkdtempSync(join(tmpdir(), "zael-export-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, "aggregator.zip");
    const exported = await shell.json(`lambda-export --function aggregator --output ${file}`);
    assert.equal(exported.sha256, made.functions.aggregator.sha256, "the same code is the same zip");
    assert.equal(readFileSync(file).length, exported.bytes);

    const status = await shell.json("status -n limits");
    assert.deepEqual([status.name, status.stackStatus, status.ready], ["limits", "CREATE_COMPLETE", true]);
    assert.equal(status.tableStatus, "ACTIVE");
    assert.equal(status.parameters.LambdaMemorySize, "256");
    assert.equal(status.outputs.TableName, "limits");
    assert.deepEqual(status.versions, { client: "0.1.0", schema: "0.10.0", lambda: "0.1.0" });
    const { items } = await shell.json("list");
    assert.deepEqual([items.length, items[0].name, items[0].status], [1, "limits", "CREATE_COMPLETE"]);
    const checked = await shell.json("check -n limits");
    assert.deepEqual([checked.ok, checked.upToDate], [true, true]);

    const limiter = await RateLimiter.open({ store: "dynamodb:limits", ...place, timeoutMs: 10_000 });
    t.after(() => limiter.close());
    await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 1)]);
    const request = { entityId: "key-1", resource: "api", consume: { rpm: 1 } };
    assert.equal((await limiter.tryAcquire(request)).ok, true);
    assert.equal((await limiter.tryAcquire(request)).ok, false);
  });

  test("a second deploy finds nothing to change", async () => {
    const again = await shell.json("deploy -n limits");
    assert.deepEqual([again.action, again.changes], ["none", []]);
    assert.equal((await shell.json("upgrade -n limits")).action, "none");
  });

  test("Y9: opening a limiter uploads nothing; check says that a function has other code, and update brings it", async () => {
    const FunctionName = "limits-aggregator";
    const ours = await shaOf(FunctionName);
    const { zipSync, strToU8 } = await import("fflate");
    const ZipFile = zipSync({ "index.mjs": strToU8("export const handler = async () => {};") });
    const { FunctionArn } = await lambda.send(new UpdateFunctionCodeCommand({ FunctionName, ZipFile }));
    await lambda.send(
      new TagResourceCommand({ Resource: FunctionArn, Tags: { "zae-limiter:lambda-version": "0.0.9" } }),
    );
    const older = await shaOf(FunctionName);
    const limiter = await RateLimiter.open({ store: "dynamodb:limits", ...place, timeoutMs: 10_000 });
    await limiter.close();
    assert.equal(await shaOf(FunctionName), older);
    const checked = await shell.json("check -n limits");
    assert.deepEqual([checked.ok, checked.upToDate, checked.functions[FunctionName]], [true, false, "0.0.9"]);
    // Tags of a stack are those of its functions before any code is uploaded: they prove nothing.
    await lambda.send(
      new TagResourceCommand({ Resource: FunctionArn, Tags: { "zae-limiter:lambda-version": "0.1.0" } }),
    );
    const tagged = await shell.json("check -n limits");
    assert.deepEqual([tagged.upToDate, tagged.functions[FunctionName]], [false, null]);
    const { action, changes } = await shell.json("update -n limits --yes");
    assert.deepEqual([action, changes.length, changes[0].from.CodeSha256], ["update", 1, older]);
    assert.equal(await shaOf(FunctionName), ours);
    assert.equal((await shell.json("check -n limits")).upToDate, true);
  });

  test("one value changes, all others stay; it is shown old -> new and wants a yes", async () => {
    assert.match(await shell.fault("deploy -n limits --lambda-memory 512"), /^2 confirmation_required/);
    const asked = await shell.run("deploy -n limits --lambda-memory 512", { answer: "n" });
    assert.equal(asked.code, 1);
    assert.match(
      asked.stderr,
      /~ LambdaMemorySize: 256 -> 512\nMake these changes to the stack limits\? \[y\/N\] Declined/,
    );
    assert.equal((await shell.json("status -n limits")).parameters.LambdaMemorySize, "256");
    const before = (await shell.json("status -n limits")).parameters;
    const changed = await shell.json("deploy -n limits --lambda-memory 512 --log-retention-days 7 --yes");
    assert.equal(changed.action, "update");
    assert.deepEqual(changed.changes.slice(0, 2), [
      { action: "Modify", logicalId: "LambdaMemorySize", from: "256", to: "512" },
      { action: "Modify", logicalId: "LogRetentionDays", from: "30", to: "7" },
    ]);
    const { parameters, tags } = await shell.json("status -n limits");
    assert.deepEqual(parameters, { ...before, LambdaMemorySize: "512", LogRetentionDays: "7" });
    assert.equal(tags.team, "core");
    // moto makes functions anew when a stack changes, with the template's code: it must be uploaded again.
    assert.equal(await shaOf("limits-aggregator"), changed.functions.aggregator.sha256);
    assert.equal((await shell.json("deploy -n limits")).action, "none");
  });

  test("the timeout takes the threshold of its alarm along", async () => {
    await shell.json("deploy -n limits --lambda-timeout 120 --yes");
    assert.equal((await shell.json("status -n limits")).parameters.LambdaDurationThreshold, "96000");
  });

  test("what there is stays as it was chosen, and can be turned back", async () => {
    await shell.json("deploy -n bare --no-alarms --no-provisioner --enable-deletion-protection");
    const { changes } = await shell.json("deploy -n bare --lambda-timeout 90 --yes");
    assert.deepEqual(
      changes.map((each: { logicalId: string }) => each.logicalId).filter((id: string) => id !== "AggregatorFunction"),
      ["LambdaTimeout"],
    );
    const back = await shell.json("deploy -n bare --enable-provisioner --dry-run");
    const added = back.changes.filter((each: { action: string }) => each.action === "Add");
    assert.deepEqual(added.map((each: { logicalId: string }) => each.logicalId).sort(), [
      "ProvisionerFunction",
      "ProvisionerLogGroup",
      "ProvisionerRole",
    ]);
    assert.equal(
      "limits-provisioner" in (await shell.json("deploy -n bare --enable-provisioner --yes")).functions,
      true,
    );
    assert.equal(await shaOf("bare-limits-provisioner"), back.functions["limits-provisioner"].sha256);
  });

  test("how long usage is kept becomes a setting of every namespace", async (t) => {
    await shell.json("deploy -n limits --usage-retention-days 400 --yes");
    const limiter = await RateLimiter.open({ store: "dynamodb:limits", ...place, timeoutMs: 10_000 });
    t.after(() => limiter.close());
    assert.equal((await limiter.getSystemDefaults()).usageKeptDays, 400);
  });

  test("what would remove a bucket or a policy is refused, whatever --yes says, and nothing has changed", async () => {
    const before = await shell.json("status -n limits");
    for (const [option, lost] of [
      ["--no-audit-archival", /AuditArchiveBucket would be removed/],
      ["--no-iam", /AcquireOnlyPolicy would be removed/],
      ["--projection ALL", /GSI2 of its table projects KEYS_ONLY, and ALL is requested/],
    ] as const) {
      const told = await shell.fault(`deploy -n limits ${option} --yes`);
      assert.match(told, /^1 change_refused: Nothing was changed in the stack limits/);
      assert.match(told, lost);
    }
    assert.deepEqual(await shell.json("status -n limits"), before);
  });

  test("another's stack is neither changed nor deleted", async () => {
    const TemplateBody = JSON.stringify({ Resources: { Queue: { Type: "AWS::SQS::Queue" } } });
    await cloudFormation.send(new CreateStackCommand({ StackName: "theirs", TemplateBody }));
    for (const line of ["deploy -n theirs --yes", "update -n theirs --yes", "delete -n theirs --yes"]) {
      assert.match(await shell.fault(line), /^1 stack_not_ours/, line);
    }
    assert.deepEqual(
      (await shell.json("list")).items.map((each: { name: string }) => each.name),
      ["bare", "limits"],
    );
  });

  test("a table of one's own: what it lacks is told; one that fits gets everything else", async () => {
    const AttributeDefinitions = ["id"].map((AttributeName) => ({ AttributeName, AttributeType: "S" as const }));
    await dynamodb.send(
      new CreateTableCommand({
        ...{ TableName: "unfit", AttributeDefinitions, BillingMode: "PAY_PER_REQUEST" },
        KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
      }),
    );
    const arn = (name: string) => `arn:aws:dynamodb:${REGION}:123456789012:table/${name}`;
    const told = await shell.fault(
      `deploy -n around --table-arn ${arn("unfit")} --stream-arn ${arn("unfit")}/stream/2026-03-15T12:00:00.000`,
    );
    assert.match(
      told,
      /^1 table_unfit: The table "unfit" cannot be used as it is: its keys are id \(HASH\), and must be PK \(HASH\), SK \(RANGE\); it has no index GSI1/,
    );
    assert.match(told, /items do not expire: turn on TTL on the attribute ttl; it has no stream/);
    assert.match(
      await shell.fault(`deploy -n around --table-arn ${arn("gone")} --no-audit-archival`),
      /^4 table_not_found/,
    );
    await createTable({ stack: "mine", ...place });
    const { Table } = await dynamodb.send(new DescribeTableCommand({ TableName: "mine" }));
    const own = `--table-arn ${arn("mine")} --stream-arn ${Table?.LatestStreamArn}`;
    const made = await shell.json(`deploy -n around ${own}`);
    assert.equal(
      made.changes.some((each: { type: string }) => each.type === "AWS::DynamoDB::Table"),
      false,
    );
    const { Configuration } = await lambda.send(new GetFunctionCommand({ FunctionName: "around-aggregator" }));
    assert.equal(Configuration?.Environment?.Variables?.TABLE_NAME, "mine");
    assert.equal((await shell.json("status -n around")).ready, true);
    assert.equal((await shell.json("deploy -n around")).action, "none", "the ARNs are kept");
    assert.match(await shell.fault("delete -n around --delete-table --yes"), /^2 .*your own/);
    assert.deepEqual((await shell.json("delete -n around --yes")).kept.length, 1);
    assert.equal((await dynamodb.send(new DescribeTableCommand({ TableName: "mine" }))).Table?.TableStatus, "ACTIVE");
  });

  test("a table whose items are of an older layout is not touched", async () => {
    await createTable({ stack: "older", ...place });
    const arn = `arn:aws:dynamodb:${REGION}:123456789012:table/older`;
    const Key = { PK: { S: "_/SYSTEM#" }, SK: { S: "#VERSION" } };
    const layout = (S: string) =>
      dynamodb.send(
        new UpdateItemCommand({
          ...{ TableName: "older", Key, UpdateExpression: "SET schema_version = :v" },
          ExpressionAttributeValues: { ":v": { S } },
        }),
      );
    await layout("0.9.0");
    const told = await shell.fault(`deploy -n around --table-arn ${arn} --no-audit-archival`);
    assert.match(told, /^3 schema_version: The table "older" has schema 0\.9\.0.*`zae-limiter migrate/);
    assert.match(await shell.fault("status -n around"), /^4/, "no stack was made");
  });

  test("delete says what stays, and leaves it", async () => {
    const { outputs } = await shell.json("status -n limits");
    const bucket = outputs.AuditArchiveBucketName;
    await s3.send(new PutObjectCommand({ Bucket: bucket, Key: "audit/one", Body: "x" }));
    const asked = await shell.run("delete -n limits", { answer: "no" });
    assert.equal(asked.code, 1);
    assert.match(
      asked.stderr,
      /The table limits \(about \d+ items\) and the archive \S+ \(1 object\) stay\. \[y\/N\] Declined/,
    );
    const dry = await shell.json("delete -n limits --dry-run");
    assert.deepEqual([dry.dryRun, dry.kept], [true, ["limits", bucket]]);
    assert.equal((await shell.json("status -n limits")).ready, true);
    const deleted = await shell.json("delete -n limits --yes");
    assert.deepEqual([deleted.deleted, deleted.kept], [true, ["limits", bucket]]);
    assert.match(await shell.fault("status -n limits"), /^4/);
    const Key = { PK: { S: "_/SYSTEM#" }, SK: { S: "#VERSION" } };
    assert.ok((await dynamodb.send(new GetItemCommand({ TableName: "limits", Key }))).Item !== undefined);
    assert.equal((await s3.send(new ListObjectsV2Command({ Bucket: bucket }))).KeyCount, 1);
    assert.match(
      await shell.fault("deploy -n limits"),
      /^1 table_exists: A table "limits" exists outside of any stack.*--table-arn/,
    );
  });

  test("--delete-table: not while it is protected; then table and archive go too", async () => {
    assert.match(
      await shell.fault("delete -n bare --delete-table --yes"),
      /^1 deletion_protected: .*`zae-limiter deploy -n bare --no-deletion-protection`/,
    );
    // By hand: moto cannot describe a stack any more whose table was changed by a change set.
    await dynamodb.send(new UpdateTableCommand({ TableName: "bare", DeletionProtectionEnabled: false }));
    const { outputs } = await shell.json("status -n bare");
    const bucket = outputs.AuditArchiveBucketName;
    // By hand: moto leaves that out of what it makes of a template.
    const VersioningConfiguration = { Status: "Enabled" } as const;
    await s3.send(new PutBucketVersioningCommand({ Bucket: bucket, VersioningConfiguration }));
    await s3.send(new PutObjectCommand({ Bucket: bucket, Key: "audit/one", Body: "x" }));
    await s3.send(new PutObjectCommand({ Bucket: bucket, Key: "audit/one", Body: "y" }));
    await s3.send(new DeleteObjectCommand({ Bucket: bucket, Key: "audit/one" }));
    const { Versions, DeleteMarkers } = await s3.send(new ListObjectVersionsCommand({ Bucket: bucket }));
    assert.deepEqual([Versions?.length, DeleteMarkers?.length], [2, 1], "the archive keeps what was deleted");
    const second = await shell.run("delete -n bare --delete-table", { answer: "no" });
    assert.match(second.stderr, /Declined/);
    const gone = await shell.json("delete -n bare --delete-table --yes");
    assert.deepEqual([gone.deleted, gone.kept], [true, []]);
    await assert.rejects(dynamodb.send(new DescribeTableCommand({ TableName: "bare" })), {
      name: "ResourceNotFoundException",
    });
    await assert.rejects(s3.send(new ListObjectsV2Command({ Bucket: bucket })), { name: "NoSuchBucket" });
  });
});
