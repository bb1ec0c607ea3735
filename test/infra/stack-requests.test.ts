import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { deleteStack } from "../../src/infra/delete-stack.ts";
import { type DeployRequest, deploy } from "../../src/infra/deploy.ts";
import { listStacks } from "../../src/infra/inspect-stack.ts";
import type { StackChange } from "../../src/infra/stack-changes.ts";
import type { StackOptions } from "../../src/infra/stack-options.ts";
import type { StackProgress } from "../../src/infra/stack-wait.ts";
import { template } from "../../src/infra/template.ts";
import { CloudFormationStub } from "./cloudformation-stub.ts";
import { StackShell } from "./stack-kit.ts";

// What moto cannot show: rollbacks, waiting for others, replacements, deletions that fail. On the level of requests, against a server of
// our own that answers as CloudFormation is documented to; nothing here says what CloudFormation does.

Object.assign(process.env, { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" });

/** Without functions, so that nobody but CloudFormation is asked. */
const BARE: StackOptions = { aggregator: false, provisioner: false };
const VALUES = { LogRetentionDays: "30" };

async function opened(t: TestContext) {
  const stub = await CloudFormationStub.open(t);
  const aws = { region: "us-east-1", endpoint: stub.endpoint, timeoutMs: 10_000 };
  const progress: StackProgress[] = [];
  const shown: StackChange[][] = [];
  const prepared: string[] = [];
  const deps = {
    ...{ aws, version: "1.2.3", newName: () => "change-1", sleep: async () => {}, requireWanted: () => {} },
    code: async () => ({ bytes: new Uint8Array(), sha256: "" }),
    onProgress: (event: StackProgress) => progress.push(event),
    confirm: async (changes: readonly StackChange[]) => void shown.push([...changes]),
    checkTable: async () => {},
    prepare: async (table: string) => void prepared.push(table),
  };
  const request = (options: StackOptions = BARE): DeployRequest => ({
    ...{ name: "limits", options, tags: { team: "core" }, dryRun: false, mustExist: false },
  });
  stub.template = JSON.stringify(template({ name: "limits", ...BARE }));
  return { stub, deps, request, progress, shown, prepared };
}

const READY = { status: "CREATE_COMPLETE", parameters: {} };

test("a stack is made with every parameter by value, every tag, and the right to name roles", async (t) => {
  const { stub, deps, request, progress, prepared } = await opened(t);
  stub.after = { CreateStack: [{ status: "CREATE_IN_PROGRESS" }, { status: "CREATE_IN_PROGRESS" }, READY] };
  stub.eventsAfter = {
    CreateStack: [
      { logicalId: "RateLimitsTable", status: "CREATE_IN_PROGRESS" },
      { logicalId: "RateLimitsTable", status: "CREATE_COMPLETE" },
    ],
  };
  const made = await deploy(request(), deps);
  assert.equal(made.action, "create");
  const input = stub.calls.find(({ action }) => action === "CreateStack")?.input ?? {};
  const expected = template({ name: "limits", ...BARE });
  assert.deepEqual(JSON.parse(input.TemplateBody ?? ""), JSON.parse(JSON.stringify(expected)));
  assert.equal(input["Capabilities.member.1"], "CAPABILITY_NAMED_IAM");
  assert.deepEqual(parametersIn(input), {}, "nothing refers to any");
  assert.deepEqual(tagsIn(input), {
    ...{ team: "core", ManagedBy: "zae-limiter", "zae-limiter:name": "limits", "zae-limiter:type": "limiter" },
    ...{
      "zae-limiter:version": "1.2.3",
      "zae-limiter:schema-version": "0.10.0",
      "zae-limiter:lambda-version": "1.2.3",
    },
  });
  assert.deepEqual(
    progress.map(({ logicalId, status }) => `${logicalId} ${status}`),
    ["RateLimitsTable CREATE_IN_PROGRESS", "RateLimitsTable CREATE_COMPLETE"],
  );
  assert.deepEqual(prepared, ["limits"]);
});

test("a stack that could not be made is told with its own reason, not with what was cancelled for its sake", async (t) => {
  const { stub, deps, request, prepared } = await opened(t);
  stub.after = { CreateStack: [{ status: "ROLLBACK_IN_PROGRESS" }, { status: "ROLLBACK_COMPLETE" }] };
  stub.eventsAfter = {
    CreateStack: [
      {
        logicalId: "AcquireOnlyPolicy",
        status: "CREATE_FAILED",
        reason: "not authorized to perform: iam:CreatePolicy",
      },
      { logicalId: "RateLimitsTable", status: "CREATE_FAILED", reason: "Resource creation cancelled" },
    ],
  };
  await assert.rejects(deploy(request(), deps), (error: { code?: string; message: string }) => {
    assert.equal(error.code, "deploy_failed");
    assert.match(
      error.message,
      /\(ROLLBACK_COMPLETE\): AcquireOnlyPolicy: not authorized to perform: iam:CreatePolicy\. Delete/,
    );
    assert.doesNotMatch(error.message, /cancelled/);
    return true;
  });
  assert.deepEqual(prepared, []);
});

test("ROLLBACK_COMPLETE says why, offers delete, and changes nothing", async (t) => {
  const { stub, deps, request } = await opened(t);
  for (const status of ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "REVIEW_IN_PROGRESS"]) {
    stub.looks = [{ status }];
    stub.events = [{ logicalId: "AppRole", status: "CREATE_FAILED", reason: "the name is taken" }];
    await assert.rejects(deploy(request(), deps), {
      name: "ConflictError",
      message:
        /was never created \(\w+\): AppRole: the name is taken\. Delete its remains with `zae-limiter delete -n limits`/,
    });
  }
  stub.looks = [{ status: "UPDATE_ROLLBACK_FAILED" }];
  await assert.rejects(deploy(request(), deps), { message: /continue-update-rollback/ });
  stub.looks = [{ status: "DELETE_FAILED" }];
  await assert.rejects(deploy(request(), deps), { message: /continue with `zae-limiter delete/ });
  assert.deepEqual(stub.writes, []);
});

test("a change that somebody else has begun is waited for, with its events", async (t) => {
  const { stub, deps, request, progress } = await opened(t);
  stub.looks = [{ status: "UPDATE_IN_PROGRESS" }, { status: "UPDATE_IN_PROGRESS" }, { status: "UPDATE_COMPLETE" }];
  stub.events = [{ logicalId: "Earlier", status: "CREATE_COMPLETE" }];
  stub.eventsAfter = { DescribeStackEvents: [{ logicalId: "AppRole", status: "UPDATE_COMPLETE" }] };
  stub.changeSet = [{ status: "FAILED", reason: "The submitted information didn't contain changes." }];
  assert.equal((await deploy(request(), deps)).action, "none");
  assert.ok(progress.some(({ logicalId }) => logicalId === "AppRole"));
  assert.ok(progress.every(({ logicalId }) => logicalId !== "Earlier"));
  assert.deepEqual(stub.writes, ["CreateChangeSet", "DeleteChangeSet"]);
});

test("Y25: a change set is waited for, shown with what is conditional in it, then executed; previous values are sent as values", async (t) => {
  const { stub, deps, request, shown } = await opened(t);
  const before = { name: "limits", provisioner: false, auditArchival: false, alarms: false, iam: true } as const;
  stub.template = JSON.stringify(template({ ...before, aggregator: false }));
  stub.looks = [{ status: "UPDATE_COMPLETE", parameters: VALUES, tags: { ManagedBy: "zae-limiter", owner: "me" } }];
  stub.changeSet = [
    { status: "CREATE_IN_PROGRESS" },
    {
      status: "CREATE_COMPLETE",
      changes: [{ action: "Modify", logicalId: "AppRole", type: "AWS::IAM::Role", replacement: "Conditional" }],
    },
  ];
  const answer = await deploy(request({ createIamRoles: true }), deps);
  assert.equal(answer.action, "update");
  assert.deepEqual(
    shown[0]?.find(({ logicalId }) => logicalId === "AppRole"),
    {
      ...{ action: "Modify", logicalId: "AppRole", type: "AWS::IAM::Role", replacement: "Conditional" },
    },
  );
  assert.deepEqual(stub.writes, ["CreateChangeSet", "ExecuteChangeSet"]);
  const input = stub.calls.find(({ action }) => action === "CreateChangeSet")?.input ?? {};
  assert.ok(Object.keys(input).every((key) => !key.includes("UsePreviousValue")));
  assert.equal(input.ChangeSetType, "UPDATE");
  assert.equal(tagsIn(input).owner, "me", "tags of the user stay");
  assert.equal(tagsIn(input).team, "core");
  const sent = JSON.parse(input.TemplateBody ?? "") as { Resources: object };
  assert.equal("AggregatorFunction" in sent.Resources, false, "what was left out stays left out");
  assert.equal("AppRole" in sent.Resources, true);
});

test("a stack from before names had the region keeps its names, whatever is changed", async (t) => {
  const { stub, deps, request } = await opened(t);
  const { Metadata: _, ...old } = template({ name: "limits", ...BARE, regionalNames: false });
  stub.template = JSON.stringify({ ...old, Metadata: { "zae-limiter": BARE } });
  stub.looks = [READY];
  stub.changeSet = [
    { status: "CREATE_COMPLETE", changes: [{ action: "Add", logicalId: "AppRole", type: "AWS::IAM::Role" }] },
  ];
  stub.after = { ExecuteChangeSet: [{ status: "UPDATE_IN_PROGRESS" }, { status: "UPDATE_COMPLETE" }] };
  await deploy(request({ createIamRoles: true }), deps);
  const input = stub.calls.find(({ action }) => action === "CreateChangeSet")?.input ?? {};
  const sent = JSON.parse(input.TemplateBody ?? "") as ReturnType<typeof template>;
  assert.equal(sent.Resources.AcquireOnlyPolicy?.Properties.ManagedPolicyName, "limits-acq");
  assert.equal(sent.Resources.AppRole?.Properties.RoleName, "limits-app");
});

test("whatever would replace or remove the table, a bucket or a policy is refused, and the change set goes", async (t) => {
  for (const [change, message] of [
    [{ action: "Modify", type: "AWS::DynamoDB::Table", replacement: "True" }, /would be replaced/],
    [{ action: "Modify", type: "AWS::DynamoDB::Table", replacement: "Conditional" }, /would be replaced, perhaps/],
    [{ action: "Remove", type: "AWS::DynamoDB::Table" }, /would be removed/],
    [{ action: "Modify", type: "AWS::S3::Bucket", replacement: "True" }, /would be replaced/],
    [{ action: "Modify", type: "AWS::IAM::ManagedPolicy", replacement: "True" }, /would be replaced/],
  ] as const) {
    const { stub, deps, request, shown } = await opened(t);
    stub.looks = [READY];
    stub.changeSet = [{ status: "CREATE_COMPLETE", changes: [{ logicalId: "Precious", ...change }] }];
    await assert.rejects(deploy(request(), deps), { code: "change_refused", message });
    assert.deepEqual(stub.writes, ["CreateChangeSet", "DeleteChangeSet"]);
    assert.deepEqual(shown, [], "nobody is asked");
  }
  const { stub, deps, request } = await opened(t);
  stub.looks = [READY];
  const fine = {
    action: "Modify",
    logicalId: "AggregatorFunction",
    type: "AWS::Lambda::Function",
    replacement: "True",
  };
  stub.changeSet = [{ status: "CREATE_COMPLETE", changes: [fine] }];
  // For a moment it is shown as it was before.
  stub.after = { ExecuteChangeSet: [READY, { status: "UPDATE_IN_PROGRESS" }, { status: "UPDATE_COMPLETE" }] };
  await deploy(request(), deps);
  assert.deepEqual(stub.writes, ["CreateChangeSet", "ExecuteChangeSet"]);
});

const TABLE_CHANGE = {
  ...{ action: "Modify", logicalId: "RateLimitsTable", type: "AWS::DynamoDB::Table", replacement: "Conditional" },
};

/** The template of a release whose table had these indexes only. */
function earlier(indexes: readonly string[]): string {
  const made = JSON.parse(JSON.stringify(template({ name: "limits", ...BARE })));
  const { Properties } = made.Resources.RateLimitsTable;
  const kept = Properties.GlobalSecondaryIndexes.filter((each: { IndexName: string }) =>
    indexes.includes(each.IndexName),
  );
  const keys = JSON.stringify([Properties.KeySchema, kept]);
  Properties.GlobalSecondaryIndexes = kept;
  Properties.AttributeDefinitions = Properties.AttributeDefinitions.filter((each: { AttributeName: string }) =>
    keys.includes(`"${each.AttributeName}"`),
  );
  return JSON.stringify(made);
}

test("a release that adds two indexes is deployed: shown once, made one at a time, with no attribute that no key has", async (t) => {
  const { stub, deps, request, shown, prepared } = await opened(t);
  stub.template = earlier(["GSI1", "GSI2"]);
  stub.looks = [READY];
  stub.changeSet = [{ status: "CREATE_COMPLETE", changes: [TABLE_CHANGE] }];
  stub.after = { ExecuteChangeSet: [{ status: "UPDATE_IN_PROGRESS" }, { status: "UPDATE_COMPLETE" }] };
  stub.eventsAfter = { ExecuteChangeSet: [{ logicalId: "RateLimitsTable", status: "UPDATE_COMPLETE" }] };
  const { action } = await deploy(request(), deps);
  assert.equal(action, "update");
  assert.equal(shown.length, 1, "nobody is asked twice");
  const change = shown[0]?.find(({ logicalId }) => logicalId === "RateLimitsTable");
  const names = (of: unknown) =>
    (of as { GlobalSecondaryIndexes: { IndexName: string }[] }).GlobalSecondaryIndexes.map((each) => each.IndexName);
  assert.deepEqual([names(change?.from), names(change?.to)], [[], ["GSI3", "GSI4"]], "what differs, and nothing else");
  const sent = stub.calls
    .filter((call) => call.action === "CreateChangeSet")
    .map(({ input }) => JSON.parse(input.TemplateBody ?? "").Resources.RateLimitsTable.Properties);
  assert.deepEqual(sent.map(names), [
    ["GSI1", "GSI2", "GSI3"],
    ["GSI1", "GSI2", "GSI3", "GSI4"],
  ]);
  for (const { AttributeDefinitions, KeySchema, GlobalSecondaryIndexes } of sent) {
    const keys = [KeySchema, ...GlobalSecondaryIndexes.map((each: { KeySchema: unknown }) => each.KeySchema)].flat();
    const defined = AttributeDefinitions.map((each: { AttributeName: string }) => each.AttributeName);
    assert.deepEqual(
      [...defined].sort(),
      [...new Set(keys.map((each: { AttributeName: string }) => each.AttributeName))].sort(),
    );
  }
  assert.deepEqual(stub.writes, ["CreateChangeSet", "ExecuteChangeSet", "CreateChangeSet", "ExecuteChangeSet"]);
  assert.deepEqual(prepared, ["limits"], "after all of them");
});

test("T5: an index that is there cannot have another projection, other keys, or go: told before anything is asked for", async (t) => {
  const asked = async (options: StackOptions, before: string) => {
    const { stub, deps, request } = await opened(t);
    stub.template = before;
    stub.looks = [READY];
    const run = deploy(request({ ...BARE, ...options }), deps);
    const told = await run.then(
      () => "done",
      (error: Error & { code: string }) => `${error.code}: ${error.message}`,
    );
    assert.deepEqual(stub.writes, [], told);
    return told;
  };
  const before = JSON.stringify(template({ name: "limits", ...BARE }));
  assert.match(
    await asked({ projection: "ALL" }, before),
    /^change_refused: Nothing was changed in the stack limits: the index GSI2 of its table projects KEYS_ONLY, and ALL is requested.*--projection KEYS_ONLY.*another name/,
  );
  assert.match(await asked({}, before.replaceAll('"GSI3"', '"GSI9"')), /the index GSI9 of its table would be removed/);
  const keys = JSON.parse(before);
  keys.Resources.RateLimitsTable.Properties.GlobalSecondaryIndexes[0].KeySchema[0].AttributeName = "other";
  assert.match(await asked({}, JSON.stringify(keys)), /the index GSI1 of its table would have other keys/);
});

test("declined, or only tried: the change set goes, and nothing is executed", async (t) => {
  for (const isDry of [false, true]) {
    const { stub, deps, request, prepared } = await opened(t);
    stub.looks = [READY];
    stub.changeSet = [
      { status: "CREATE_COMPLETE", changes: [{ action: "Add", logicalId: "AppRole", type: "AWS::IAM::Role" }] },
    ];
    const confirm = async () => {
      throw new Error("declined");
    };
    const run = deploy({ ...request(), dryRun: isDry }, { ...deps, confirm });
    if (isDry) assert.equal((await run).action, "update");
    else await assert.rejects(run, { message: "declined" });
    assert.deepEqual(stub.writes, ["CreateChangeSet", "DeleteChangeSet"]);
    assert.deepEqual(prepared, []);
  }
});

test("a change that is rolled back is told with its reason; the stack works as before", async (t) => {
  const { stub, deps, request } = await opened(t);
  stub.looks = [READY];
  stub.changeSet = [
    { status: "CREATE_COMPLETE", changes: [{ action: "Add", logicalId: "AppRole", type: "AWS::IAM::Role" }] },
  ];
  stub.after = {
    ExecuteChangeSet: [{ status: "UPDATE_ROLLBACK_IN_PROGRESS" }, { status: "UPDATE_ROLLBACK_COMPLETE" }],
  };
  stub.eventsAfter = {
    ExecuteChangeSet: [{ logicalId: "AppRole", status: "CREATE_FAILED", reason: "quota exceeded" }],
  };
  await assert.rejects(deploy(request(), deps), {
    code: "deploy_failed",
    message: /not changed \(UPDATE_ROLLBACK_COMPLETE\): AppRole: quota exceeded\. The previous version still works/,
  });
});

test("a change set that CloudFormation cannot make is an error with its words", async (t) => {
  const { stub, deps, request } = await opened(t);
  stub.looks = [READY];
  stub.changeSet = [{ status: "FAILED", reason: "Template error: something is wrong" }];
  await assert.rejects(deploy(request(), deps), {
    code: "change_failed",
    message: /Template error: something is wrong/,
  });
});

test("whoever does not want to wait any more ends the waiting", async (t) => {
  const { stub, deps, request } = await opened(t);
  stub.after = { CreateStack: [{ status: "CREATE_IN_PROGRESS" }] };
  const requireWanted = () => {
    throw new Error("interrupted");
  };
  await assert.rejects(deploy(request(), { ...deps, requireWanted }), { message: "interrupted" });
});

test("a deletion that fails is explained from its events", async (t) => {
  const { stub, deps } = await opened(t);
  stub.looks = [READY];
  stub.after = { DeleteStack: [{ status: "DELETE_IN_PROGRESS" }, { status: "DELETE_FAILED" }] };
  stub.eventsAfter = {
    DeleteStack: [{ logicalId: "AcquireOnlyPolicy", status: "DELETE_FAILED", reason: "it is attached to a role" }],
  };
  const confirm = async () => {};
  const run = deleteStack({ name: "limits", deleteTable: false, dryRun: false }, { ...deps, confirm, note: () => {} });
  await assert.rejects(run, {
    code: "delete_failed",
    message: /not deleted \(DELETE_FAILED\): AcquireOnlyPolicy: it is attached to a role\. Fix the cause/,
  });
});

test("stacks are found by their tag, and old ones by their name", async (t) => {
  const { stub, deps } = await opened(t);
  stub.looks = [{ status: "CREATE_COMPLETE", tags: { ManagedBy: "zae-limiter", "zae-limiter:type": "load-test" } }];
  assert.deepEqual(await listStacks(deps.aws), []);
  stub.looks = [{ status: "CREATE_COMPLETE", tags: { ManagedBy: "zae-limiter", "zae-limiter:version": "0.17.0" } }];
  assert.deepEqual(await listStacks(deps.aws), [
    { name: "limits", status: "CREATE_COMPLETE", version: "0.17.0", createdAtMs: Date.UTC(2026, 2, 15, 12) },
  ]);
  stub.looks = [{ status: "DELETE_COMPLETE" }];
  assert.deepEqual(await listStacks(deps.aws), []);
});

function tagsIn(input: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return pairsIn(input, /^Tags\.member\.(\d+)\.Key$/, (n) => `Tags.member.${n}.Value`);
}

function parametersIn(input: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return pairsIn(input, /^Parameters\.member\.(\d+)\.ParameterKey$/, (n) => `Parameters.member.${n}.ParameterValue`);
}

function pairsIn(input: Readonly<Record<string, string>>, keys: RegExp, valueName: (n: string) => string) {
  return Object.fromEntries(
    Object.entries(input).flatMap(([name, key]) => {
      const [, n] = keys.exec(name) ?? [];
      return n === undefined ? [] : [[key, input[valueName(n)] ?? ""]];
    }),
  );
}

test("Ctrl-C while a change set is being made leaves none, also of one that cannot be removed at once", async (t) => {
  const { stub, deps, request } = await opened(t);
  stub.looks = [READY];
  stub.changeSet = [{ status: "CREATE_IN_PROGRESS" }];
  const interrupted = new Error("Interrupted.");
  const sleep = async () => {
    throw interrupted;
  };
  for (const dryRun of [true, false]) {
    stub.calls.length = 0;
    await assert.rejects(deploy({ ...request(), dryRun }, { ...deps, sleep }), interrupted);
    assert.deepEqual(stub.writes, ["CreateChangeSet", "DeleteChangeSet"]);
  }
});

test("Y18: where there is none: 4", async (t) => {
  const { stub } = await opened(t);
  const shell = new StackShell(stub.endpoint);
  for (const line of ["status", "delete --yes", "update --yes", "upgrade", "check"]) {
    const [command, ...options] = line.split(" ");
    const told = await shell.fault([command, "-n", "limits", ...options].join(" "));
    assert.match(told, /^4 stack_not_found: There is no stack "limits"/, line);
  }
  assert.deepEqual(stub.writes, []);
});

test("Y19: mistakes are told before anything is called, and nobody there is told in a sentence", async () => {
  const nowhere = new StackShell("http://127.0.0.1:1");
  for (const [line, message] of [
    ["deploy", /No stack is named; give -n NAME/],
    [`deploy -n ${"a".repeat(46)}`, /Invalid stack name/],
    ["deploy -n limits --lambda-memory 64", /^2 usage: --lambda-memory is 64; give a whole number from 128 to 3008/],
    ["deploy -n limits --lambda-memory much", /--lambda-memory is "much"; give a whole number/],
    ["deploy -n limits --no-iam --create-iam-roles", /--create-iam-roles needs the policies, and --no-iam omits them/],
    ["deploy -n limits --enable-alarms --no-alarms", /give one/],
    ["deploy -n limits --projection SOME", /KEYS_ONLY, ALL/],
    ["deploy -n limits -t team", /--tag is "team"; give KEY=VALUE/],
    ["deploy -n limits -t ManagedBy=me", /zae-limiter sets this one/],
    ["deploy -n limits --name other", /--name is "other" and --stack is "limits"/],
    ["template --role-name-format acme", /--role-name-format is "acme"/],
  ] as const) {
    const told = await nowhere.fault(line);
    assert.match(told, /^2 /, line);
    assert.match(told, message, line);
  }
  assert.match(
    await nowhere.fault("status -n limits"),
    /^3 aws_failed: Could not describe the stack limits \(.*ECONNREFUSED/,
  );
});
