import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { locate } from "../../src/adapters/dynamodb/store-connect.ts";
import { ValidationError } from "../../src/domain/names/errors.ts";

// Where a store is looked for when nobody says so: as every program with the AWS SDK does.

/** Sets what the SDK looks at, and nothing else, until the test is over. */
function environment(t: TestContext, values: Readonly<Record<string, string>>): void {
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  process.env = { PATH: before.PATH, HOME: tmpdir() };
  Object.assign(process.env, { AWS_CONFIG_FILE: "none", AWS_SHARED_CREDENTIALS_FILE: "none" }, values);
}

const NOTHING = { region: undefined, endpoint: undefined, profile: undefined };

test("what is given is not looked for", async (t) => {
  environment(t, { AWS_REGION: "us-east-1", AWS_ENDPOINT_URL: "http://other:1" });
  const given = { region: "eu-west-1", endpoint: "http://localhost:8000" };
  assert.deepEqual(await locate({ ...given, profile: undefined }), given);
});

test("the region's own address is the default", async (t) => {
  environment(t, { AWS_REGION: "eu-west-1" });
  assert.deepEqual(await locate(NOTHING), {
    region: "eu-west-1",
    endpoint: "https://dynamodb.eu-west-1.amazonaws.com/",
  });
  const china = await locate({ ...NOTHING, region: "cn-north-1" });
  assert.equal(china.endpoint, "https://dynamodb.cn-north-1.amazonaws.com.cn/");
});

test("an address in the environment counts, the one for DynamoDB before the one for all", async (t) => {
  environment(t, {
    ...{ AWS_REGION: "eu-west-1", AWS_ENDPOINT_URL: "http://all:1" },
    AWS_ENDPOINT_URL_DYNAMODB: "http://dynamodb:8000",
  });
  assert.equal((await locate(NOTHING)).endpoint, "http://dynamodb:8000/");
});

test("FIPS and dual stack are asked for as of the SDK", async (t) => {
  environment(t, { AWS_REGION: "us-east-1", AWS_USE_FIPS_ENDPOINT: "true", AWS_USE_DUALSTACK_ENDPOINT: "true" });
  assert.equal((await locate(NOTHING)).endpoint, "https://dynamodb-fips.us-east-1.api.aws/");
});

test("a profile of the shared configuration has region and address", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "aws-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "config");
  writeFileSync(file, "[profile work]\nregion = ap-south-1\nendpoint_url = http://work:9000\n");
  environment(t, { AWS_CONFIG_FILE: file, AWS_PROFILE: "work" });
  assert.deepEqual(await locate(NOTHING), { region: "ap-south-1", endpoint: "http://work:9000/" });
});

test("where there is no region, the error says how to give one", async (t) => {
  environment(t, {});
  await assert.rejects(locate(NOTHING), (error) => error instanceof ValidationError && error.code === "region_missing");
  await assert.rejects(locate({ ...NOTHING, profile: "wrok" }), /the profile "wrok" of AWS_PROFILE has none/);
});

test("an address in the environment that has no scheme is refused by its own name", async (t) => {
  for (const address of ["localhost:8000", "127.0.0.1:8000", "dynamodb.example.com"]) {
    environment(t, { AWS_REGION: "eu-west-1", AWS_ENDPOINT_URL_DYNAMODB: address });
    await assert.rejects(
      locate(NOTHING),
      (error) =>
        error instanceof ValidationError &&
        error.code === "endpoint_invalid" &&
        error.message.includes(`"${address}"`) &&
        error.message.includes("AWS_ENDPOINT_URL_DYNAMODB"),
    );
  }
});
