import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { template } from "../../src/infra/template.ts";
import { serve } from "../engines/http-kit.ts";

// What the functions run until their code is uploaded, as Lambda does: a CommonJS file that exports a handler.

type Handler = (event: unknown) => Promise<unknown>;

function placeholder(id: "AggregatorFunction" | "ProvisionerFunction"): Handler {
  const { ZipFile } = template({ name: "limits" }).Resources[id]!.Properties.Code as { ZipFile: string };
  const exports: { handler?: Handler } = {};
  new Function("exports", ZipFile)(exports);
  return exports.handler!;
}

async function told(t: TestContext, event: object): Promise<Readonly<Record<string, string>>> {
  const puts: { body: string; type: string | undefined }[] = [];
  const { url } = await serve(t, async (request, response) => {
    puts.push({ body: await text(request), type: request.headers["content-type"] });
    response.end();
  });
  const identity = { StackId: "arn:stack", RequestId: "request-1", LogicalResourceId: "Declared" };
  await placeholder("ProvisionerFunction")({ ...identity, ...event, ResponseURL: `${url}/answer` });
  assert.equal(puts.length, 1);
  // The address is signed for a request without a type.
  assert.equal(puts[0]!.type, "");
  const answer = JSON.parse(puts[0]!.body);
  for (const [name, value] of Object.entries(identity)) assert.equal(answer[name], value, name);
  return answer;
}

test("a custom resource that comes before the code fails at once with the reason, and its rollback succeeds", async (t) => {
  const { Status, Reason, PhysicalResourceId } = await told(t, { RequestType: "Create" });
  assert.equal(Status, "FAILED");
  assert.match(Reason ?? "", /code of this function has not been uploaded; run zae-limiter deploy/);
  const gone = await told(t, { RequestType: "Delete", PhysicalResourceId });
  assert.deepEqual([gone.Status, gone.PhysicalResourceId], ["SUCCESS", PhysicalResourceId]);
});

test("what the real code made is neither changed nor said to be deleted", async (t) => {
  for (const RequestType of ["Update", "Delete"]) {
    const PhysicalResourceId = "cfn:app:Limits:0123456789abcdef:0123456789ab";
    const { Status, PhysicalResourceId: answered } = await told(t, { RequestType, PhysicalResourceId });
    assert.deepEqual([Status, answered], ["FAILED", PhysicalResourceId], RequestType);
  }
});

test("batches of the stream fail, so that they are read again from where they stood", async () => {
  await assert.rejects(placeholder("AggregatorFunction")({ Records: [] }), /has not been uploaded/);
  await assert.rejects(placeholder("ProvisionerFunction")({}), /has not been uploaded/);
});
