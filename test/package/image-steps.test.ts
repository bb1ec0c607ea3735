import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { delimiter, dirname } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { plainEnvironment } from "../docs/readme.ts";
import { dynamodbLocalOrReason } from "../dynamodb/dynamodb-local.ts";
import { declareMissing, describeOn } from "../engines/describe-on.ts";
import { postgresOrReason } from "../postgres/postgres.ts";

const NAME = "npm run image-steps";
const root = fileURLToPath(new URL("../..", import.meta.url));

const [dynamodb, postgres] = await Promise.all([dynamodbLocalOrReason(), postgresOrReason()]);
if (typeof dynamodb === "string") declareMissing("dynamodb", NAME, dynamodb);
else {
  describeOn("postgres", NAME, postgres, ({ url }) => {
    test("the steps of the Dockerfile make a service that every recipe of the guide starts, on every store", async () => {
      const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);
      const servers = { ZAEL_TEST_ENDPOINT: dynamodb.endpoint, ZAEL_TEST_POSTGRES_URL: url };
      const env = { ...plainEnvironment(), ...servers, PATH };
      const options = { cwd: root, env, maxBuffer: 64 << 20 };
      const ran = promisify(execFile)(process.execPath, ["scripts/image-steps.ts"], options);
      const { stdout } = await ran.catch((error) => assert.fail(`${error.message}\n${error.stdout}\n${error.stderr}`));
      assert.match(stdout, /^The steps of the Dockerfile make a service/m);
    });
  });
}
