import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { runs } from "../../../test/depth.ts";
import { fc } from "../../../test/properties.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { type EndpointChoice, resolveEndpoint } from "./endpoint.ts";

/** Every region in the table of the AWS SDK, the ones of secret partitions and the pseudo-regions too. */
const KNOWN_REGIONS = knownRegions();

const plain = { endpoint: undefined, useFips: false, useDualStack: false };

test("every region the AWS SDK knows resolves as the SDK resolves it, FIPS and dual stack included", async () => {
  assert.ok(KNOWN_REGIONS.length > 45, `only ${KNOWN_REGIONS.length} regions found`);
  for (const region of [...KNOWN_REGIONS, "local"]) {
    for (const useFips of [false, true]) {
      for (const useDualStack of [false, true]) {
        const choice = { region, endpoint: undefined, useFips, useDualStack };
        assert.equal(ours(choice), await sdks(choice), JSON.stringify(choice));
        assert.equal(ours(choice) === "refused", region === "local" && (useFips || useDualStack));
      }
    }
  }
});

test("a region from the future resolves as the AWS SDK guesses it", async () => {
  const regions = fc.oneof(
    fc.stringMatching(/^(us|eu|ap|cn|us-gov|us-iso|us-isob|eu-isoe|us-isof|eusc-de|xx)-[a-z]{2,9}-[0-9]{1,2}$/),
    fc.stringMatching(/^[a-z][a-z0-9-]{0,20}[a-z0-9]$/),
    fc.constantFrom("fips-us-east-1", "us-west-2-fips", "fips-aws-global", "aws-fips", "fips-dkr-us-east-2"),
  );
  await fc.assert(
    fc.asyncProperty(regions, fc.boolean(), fc.boolean(), async (region, useFips, useDualStack) => {
      const choice = { region, endpoint: undefined, useFips, useDualStack };
      assert.equal(ours(choice), await sdks(choice));
    }),
    { numRuns: runs(1000) },
  );
});

test("a custom endpoint is taken as it is", () => {
  const at = (endpoint: string) => resolveEndpoint({ ...plain, region: "eu-west-1", endpoint });
  const signingRegion = "eu-west-1";
  assert.deepEqual(at("http://localhost:8000"), {
    origin: "http://localhost:8000",
    host: "localhost:8000",
    path: "/",
    signingRegion,
  });
  assert.deepEqual(at("https://vpce-1.example.com"), {
    origin: "https://vpce-1.example.com",
    host: "vpce-1.example.com",
    path: "/",
    signingRegion,
  });
  assert.equal(at("https://h:443/base").host, "h");
  assert.equal(at("https://h:443/base").path, "/base");
});

test("an endpoint without a scheme is refused, with the two that may have been meant", () => {
  for (const endpoint of ["localhost:8000", "127.0.0.1:8000", "vpce-1.example.com", "[::1]:8000"]) {
    assert.throws(
      () => resolveEndpoint({ ...plain, region: "eu-west-1", endpoint }),
      (error) =>
        refusal("endpoint_invalid")(error) &&
        (error as Error).message.includes(
          `"${endpoint}" has no scheme; pass "http://${endpoint}" or "https://${endpoint}"`,
        ),
    );
  }
});

test("what cannot work is refused with a sentence", () => {
  for (const endpoint of ["ftp://host", "http://", "http://user:secret@host", "https://host/?query", "not a host"]) {
    assert.throws(() => resolveEndpoint({ ...plain, region: "eu-west-1", endpoint }), refusal("endpoint_invalid"));
  }
  for (const region of ["", "eu west 1", "evil.example.com/", "-x", "eu-west-1\n"]) {
    assert.throws(() => resolveEndpoint({ ...plain, region }), refusal("region_invalid"));
  }
  const own = { ...plain, region: "eu-west-1", endpoint: "http://localhost:8000" };
  assert.throws(() => resolveEndpoint({ ...own, useFips: true }), refusal("endpoint_invalid"));
  assert.throws(() => resolveEndpoint({ ...own, useDualStack: true }), refusal("endpoint_invalid"));
});

function refusal(code: string): (error: unknown) => boolean {
  return (error) => error instanceof ValidationError && error.code === code;
}

function ours(choice: EndpointChoice): string {
  try {
    const { origin, path, signingRegion } = resolveEndpoint(choice);
    return `${origin}${path} ${signingRegion}`;
  } catch {
    return "refused";
  }
}

async function sdks({ region, useFips, useDualStack }: EndpointChoice): Promise<string> {
  const client = new DynamoDBClient({ region, useFipsEndpoint: useFips, useDualstackEndpoint: useDualStack });
  try {
    const Region = await client.config.region();
    const { url, properties } = client.config.endpointProvider({
      Region,
      UseFIPS: await client.config.useFipsEndpoint(),
      UseDualStack: await client.config.useDualstackEndpoint(),
    });
    const schemes = properties?.authSchemes as { signingRegion?: string }[] | undefined;
    return `${url.href} ${schemes?.[0]?.signingRegion ?? Region}`;
  } catch {
    return "refused";
  }
}

function knownRegions(): string[] {
  // The SDK does not export its table.
  const core = dirname(createRequire(import.meta.url).resolve("@aws-sdk/core/package.json"));
  const table = readFileSync(join(core, "dist-es/submodules/client/util-endpoints/lib/aws/partitions.js"), "utf8");
  return [...table.matchAll(/"([a-z0-9-]+)": \{\s*"description"/g)].map(([, region]) => region as string);
}
